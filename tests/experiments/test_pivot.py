"""A declared table selects, averages, and says nothing where nothing is stored."""

from ebmtut.experiments.pivot import Pivot
from ebmtut.results import Result

SCALARS = {
    "table": {
        "flow": {"4": {"TV": [0.1, 0.3], "ESS": [0.5]}, "8": {"TV": [0.2, 0.2]}},
        "bits": {"4": {"TV": [0.9, 0.9]}},
    },
    "exact": {"4": {"TV": 0.0}},
}
RESULT = Result("a/b", "quick", {"n_seeds": 2}, SCALARS)


def test_a_row_for_every_key_and_a_caption_with_the_configuration():
    table = Pivot(
        head="case",
        rows={"{method}, {size}": "table/{method}/{size}", "exact": "exact/4"},
        columns={"TV [%]": "TV", "ESS": "ESS", "exact TV": "/exact/{size}/TV"},
        kinds={"bits": "null", "exact": "exact"},
        factors={"TV [%]": 100},
        caption="{n_seeds} seeds",
    )(RESULT)
    assert table.heads == ("case", "TV [%]", "ESS", "exact TV")
    assert table.rows == (
        ("flow, 4", "20 ± 10", "0.5", "0"),
        ("flow, 8", "20", "–", "–"),
        ("bits, 4", "90", "–", "0"),
        ("exact", "0", "–", "–"),
    )
    assert table.kinds == ("", "", "null", "exact")
    assert table.caption == "2 seeds"


def test_a_name_that_the_row_has_not_makes_a_column_for_every_key():
    table = Pivot(
        head="method",
        rows={"{method}": "table/{method}"},
        columns={"TV at {size}": "{size}/TV"},
    )(RESULT)
    assert table.heads == ("method", "TV at 4", "TV at 8")
    assert table.rows == (("flow", "0.20 ± 0.10", "0.2"), ("bits", "0.9", "–"))
