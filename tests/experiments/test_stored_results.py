"""What is stored under ``results/`` agrees with today's claims.

A stored verdict is computed again from its evidence whenever it is read, but
which claims there are, and their bounds, come from the code. Where
they have changed since, the result must be stored anew: ``ebmtut run ID
--scale SCALE --redraw``.
"""

from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ebmtut.experiments import get_experiment
from ebmtut.experiments.growth import load_report
from ebmtut.experiments.verdicts import baseline_keeps, to_json
from ebmtut.results import load_result

RESULTS = Path(__file__).parents[2] / "results"
STORED = sorted(
    (f"{path.parts[-4]}/{path.parts[-3]}", path.parts[-2])
    for path in RESULTS.glob("*/*/*/result.json")
)


def test_there_are_stored_results():
    assert len(STORED) > 20


@cache
def verdicts_of(id, scale):
    return get_experiment(id).verdicts(load_result(id, scale, RESULTS))


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_stored_claims_are_those_of_the_code(id, scale):
    stored = load_result(id, scale, RESULTS).scalars["verdicts"]
    today = [to_json(verdict) for verdict in verdicts_of(id, scale)]
    names = [v["name"] for v in stored]
    assert names == [v["name"] for v in today]
    for old, new in zip(stored, today, strict=True):
        for key in ("rule", "target", "sanity"):
            assert old.get(key, False) == new[key], old["name"]
        for key in ("measured", "baseline"):
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
        assert verdict.baseline is not None, f"{verdict.name}: it has no baseline"
        assert not baseline_keeps(verdict), (
            f"{verdict.name}: it also holds for the baseline"
        )


@pytest.mark.parametrize(("id", "scale"), STORED)
def test_every_figure_is_drawn_from_its_stored_result(id, scale):
    figure = get_experiment(id).figure(load_result(id, scale, RESULTS))
    assert figure.axes
    plt.close(figure)


@pytest.fixture(scope="module")
def report():
    return load_report("growth")


def test_the_stored_measurement_is_whole(report):
    for found in report["operations"].values():
        assert found["provenance"]["commit"] != "unknown"
        assert len(found["rows"]) >= 4
        for row in found["rows"]:
            peer = {found["peer"]} - {None}
            assert set(row["seconds"]) == {"ours", "floor"} | peer == set(row["MiB"])
            for name, (low, high) in row["quartiles"].items():
                assert 0 < low <= row["seconds"][name] <= high
        for name, power in found["exponents"].items():
            size = np.log([row["size"] for row in found["rows"]])
            time = np.log([row["seconds"][name] for row in found["rows"]])
            slope = np.cov(size, time)[0, 1] / np.var(size, ddof=1)
            assert power == pytest.approx(slope, rel=1e-9)
