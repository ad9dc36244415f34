"""The stored measurement of growth and what the page makes of it."""

import json
from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np
import pytest

from ebmtut.experiments.growth import draw_growth, growth_table, load_growth


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


def test_table_and_picture_show_what_is_stored(report, tmp_path):
    changed = deepcopy(report)
    row = changed["operations"]["Gibbs-OT"]["rows"][0]
    row["seconds"] |= {"ours": 2e-6, "POT": 9e-6}
    (tmp_path / "growth.json").write_text(json.dumps(changed))
    text = str(growth_table(load_growth(tmp_path), "Gibbs-OT")).splitlines()
    line = next(t for t in text if t.strip().startswith("128"))
    assert line.split()[1:3] == ["2", "9"] and "4.5" in line
    assert changed["operations"]["Gibbs-OT"]["provenance"]["device"] in text[0]
    figure = draw_growth(changed)
    first = figure.axes[0].lines[0].get_ydata()
    assert first[0] == pytest.approx(2.0)
    plt.close(figure)
