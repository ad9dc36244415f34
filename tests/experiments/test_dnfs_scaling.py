"""Studies beside the row dnfs/ising: what they run, and what the page makes of them."""

import matplotlib.pyplot as plt
import pytest

from ebmtut.experiments.dnfs.lattice_tables import draw_scaling
from ebmtut.experiments.growth import discrepancy_table, load_report, step_table
from ebmtut.results import benchmarks_root
from studies.dnfs.grown import GROWN
from studies.dnfs.scaling import PROPORTIONAL, SCALING


@pytest.fixture(scope="module")
def result():
    return SCALING.run("quick")


@pytest.fixture(scope="module")
def grown():
    return GROWN.run("quick")


def test_every_method_stands_beside_the_exact_answer(result):
    (lattice,) = result.scalars["exact"]
    table = result.scalars["table"]
    assert set(table) == {"ours", "untrained", "AIS", "SMC"}
    for row in table.values():
        error, stderr = (
            row[lattice][f"log Z {kind}"][0] for kind in ("error", "stderr")
        )
        assert abs(error) < 5 * stderr + 1.0
    figure = draw_scaling(result)
    # The flow, and annealing with sixteen times the sweeps, which this run has not.
    assert [len(ax.lines) for ax in figure.axes] == [2, 2]
    plt.close(figure)


def test_what_the_page_shows_is_stored():
    stored = SCALING.stored(benchmarks_root())
    assert stored.config["problems"][-1][0] == 32
    longer = PROPORTIONAL.stored(benchmarks_root())
    assert {n / side**2 for side, _, n in longer.config["problems"]} == {2000 / 10**2}
    report = load_report("flow")
    rows = {(row["network"], row["party"]): row for row in report["rows"]}
    step = {k: row["step ms"] for k, row in rows.items()}
    # The half that was asked for is missed, and the page says by how much.
    share = step["leTF", "ours, bf16"] / step["leTF", "straightforward"]
    assert round(share, 2) == 0.54
    table = step_table(report)
    assert len(table.rows) == len(rows)
    # Rollouts of 64 steps have a column where they were timed.
    assert ("64 steps [s]" in table.heads) == ("64 steps s" in rows["leTF", "ours"])
    report["rows"][1]["64 steps s"] = 15.25
    table = step_table(report)
    assert table.heads[-1] == "64 steps [s]"
    assert [row[-1] for row in table.rows[:2]] == ["–", "15.2"]


@pytest.mark.parametrize("name", ["energy_discrepancy", "energy_discrepancy_amx"])
def test_steps_of_energy_discrepancy_stand_beside_the_notebook(name):
    table = discrepancy_table(load_report(name))
    fast = {
        row[0]: float(row[table.heads.index("times as fast")]) for row in table.rows
    }
    assert fast.pop("official, float32") == 1
    # What the page says: ahead in bfloat16 at the same work, and further with less.
    assert 2 < fast["ebmtut, bfloat16"] < fast["ebmtut, bfloat16, 4 backward"]


def test_a_longer_training_is_evaluated_at_finer_steps():
    longer = PROPORTIONAL.run("quick")
    ((lattice, cell),) = longer.scalars["table"]["ours"].items()
    energy = longer.scalars["exact"][lattice]["energy"]
    noise = float(longer.arrays[f"energies/ours/{lattice}"].std()) / 20**0.5
    assert abs(cell["energy finer"][0] - energy) < 5 * noise + 0.1 * abs(energy)
    assert 0 < cell["ESS chain finer"][0] <= cell["ESS finer"][0]


def test_a_network_that_grows_is_judged_before_and_after_it_learns_on(grown):
    table = grown.scalars["table"]
    small, large = grown.scalars["exact"]
    assert list(table["grown"]) == [small, large]
    assert list(table["as carried"]) == [large]
    before, after = table["as carried"][large], table["grown"][large]
    assert before["train cpu s"] == table["grown"][small]["train cpu s"]
    assert before["train cpu s"] < after["train cpu s"]
    # What was carried is no untrained network: that has 0.009 on this lattice.
    for cell in (before, after):
        assert 0.05 < cell["ESS"][0] <= 1
        assert abs(cell["log Z error"][0]) < 5 * cell["log Z stderr"][0] + 0.5
        assert 0 < cell["ESS chain finer"][0] <= 1
