"""The stored measurement of growth and what the page makes of it."""

import numpy as np
import pytest

from ebmtut.experiments.growth import load_growth


@pytest.fixture(scope="module")
def report():
    return load_growth()


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
