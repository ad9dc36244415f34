"""The study of size: what it runs, and what the page makes of what is stored."""

import matplotlib.pyplot as plt
import pytest

from ebmtut.experiments.dnfs.scaling import SCALING, scaling_table


@pytest.fixture(scope="module")
def result():
    return SCALING.run("quick")


def test_every_method_stands_beside_the_exact_answer(result):
    (lattice,) = result.scalars["exact"]
    table = result.scalars["table"]
    assert set(table) == {"ours", "untrained", "AIS", "SMC"}
    for row in table.values():
        error, stderr = (
            row[lattice][f"log Z {kind}"][0] for kind in ("error", "stderr")
        )
        assert abs(error) < 5 * stderr + 1.0
    text = str(scaling_table(result))
    assert "4x4" in text
    assert "untrained" in text
    figure = SCALING.figure(result)
    assert [len(ax.lines) for ax in figure.axes] == [4, 4, 5]
    plt.close(figure)


def test_steps_are_the_same_at_every_size():
    config = SCALING.config("full")
    assert len({n_steps for _, _, n_steps in config.problems}) == 1
    seeds = {c: SCALING.n_seeds(config, c) for c in SCALING.cells(config)}
    assert seeds["ours", "15x15, critical"] == 2
    assert seeds["ours", "32x32, critical"] == seeds["AIS", "15x15, critical"] == 1
