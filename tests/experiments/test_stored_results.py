"""What is stored under ``results/`` is judged by today's claims.

A stored verdict is judged again from its evidence whenever it is read, but
which claims there are, and the bounds of our own, come from the code. Where
they have changed since, the result must be judged anew: ``ebmtut run ID
--scale SCALE --redraw``.
"""

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from ebmtut.experiments import get_experiment
from ebmtut.experiments.verdicts import null_keeps, to_json
from ebmtut.results import load_result

RESULTS = Path(__file__).parents[2] / "results"
STORED = sorted(
    (f"{path.parts[-4]}/{path.parts[-3]}", path.parts[-2])
    for path in RESULTS.glob("*/*/*/result.json")
)


def test_there_are_stored_results():
    assert len(STORED) > 20


# Claims have plainer names than when they were stored.
RENAMED = {
    "share of runs that live": "fraction of runs that reach the end",
    "share of the way from a Gaussian fit": (
        "fraction left of the difference from a Gaussian fit"
    ),
}


def name_today(name):
    for before, now in RENAMED.items():
        name = name.replace(before, now)
    return name


@cache
def verdicts_of(id, scale):
    return get_experiment(id).verdicts(load_result(id, scale, RESULTS))


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_stored_claims_are_those_of_the_code(id, scale):
    stored = load_result(id, scale, RESULTS).scalars["verdicts"]
    today = [to_json(verdict) for verdict in verdicts_of(id, scale)]
    names = [name_today(v["name"]) for v in stored]
    assert names == [v["name"] for v in today]
    for old, new in zip(stored, today, strict=True):
        for key in ("rule", "target", "sanity"):
            assert old.get(key, False) == new[key], old["name"]
        for key in ("ours", "null"):
            finite = None if new[key] is None else pytest.approx(new[key], rel=1e-6)
            assert old.get(key) == finite, old["name"]


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_every_claim_can_lose(id, scale):
    """Where nothing was learned a claim fails, or it is a sanity check."""
    claims = [
        verdict
        for verdict in verdicts_of(id, scale)
        if verdict.target is not None and not verdict.sanity
    ]
    for verdict in claims:
        assert verdict.null is not None, f"{verdict.name}: the null says nothing of it"
        assert not null_keeps(verdict), f"{verdict.name}: so does the null"


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_every_figure_is_drawn_from_its_stored_result(id, scale):
    figure = get_experiment(id).figure(load_result(id, scale, RESULTS))
    assert figure.axes
    plt.close(figure)
