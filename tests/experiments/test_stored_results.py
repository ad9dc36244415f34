"""What is stored under ``results/`` is judged by today's claims.

A stored verdict is judged again from its evidence whenever it is read, but
which claims there are, and the bounds of our own, come from the code. Where
they have changed since, the result must be judged anew: ``ebmtut run ID
--scale SCALE --redraw``.
"""

from pathlib import Path

import pytest

from ebmtut.experiments import get_experiment
from ebmtut.experiments.verdicts import to_json
from ebmtut.results import load_result

RESULTS = Path(__file__).parents[2] / "results"
STORED = sorted(
    (f"{path.parts[-4]}/{path.parts[-3]}", path.parts[-2])
    for path in RESULTS.glob("*/*/*/result.json")
)


def test_there_are_stored_results() -> None:
    assert len(STORED) > 20


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_stored_claims_are_those_of_the_code(id: str, scale: str) -> None:
    result = load_result(id, scale, RESULTS)
    stored = result.scalars["verdicts"]
    today = [to_json(verdict) for verdict in get_experiment(id).check(result)]
    assert [v["name"] for v in stored] == [v["name"] for v in today]
    for old, new in zip(stored, today, strict=True):
        assert (old["rule"], old["target"]) == (new["rule"], new["target"]), old["name"]
        finite = None if new["ours"] is None else pytest.approx(new["ours"], rel=1e-6)
        assert old["ours"] == finite, old["name"]
