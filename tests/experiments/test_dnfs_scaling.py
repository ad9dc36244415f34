"""Studies beside the row dnfs/ising: what they run, and what the page makes of them."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import LatticeIsing
from ebmtut.experiments.dnfs.lattice_tables import draw_scaling
from ebmtut.experiments.dnfs.lattices import sample_scores
from ebmtut.experiments.growth import (
    discrepancy_table,
    load_report,
    step_table,
)
from ebmtut.paths import AnnealingPath
from ebmtut.results import benchmarks_root
from studies.dnfs import warm_up
from studies.dnfs.competing import TRANSFORMER
from studies.dnfs.grown import GROWN, grown_job
from studies.dnfs.scaling import PROPORTIONAL, SCALING
from studies.dnfs.warm_up import WARM_UP, warm_up_job


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


def test_steps_are_the_same_at_every_size():
    config = SCALING.config("full")
    assert len({n_steps for _, _, n_steps in config.problems}) == 1
    seeds = {c: SCALING.n_seeds(config, c) for c in SCALING.cells(config)}
    assert seeds["ours", "15x15, critical"] == 2
    assert seeds["ours", "32x32, critical"] == seeds["AIS", "15x15, critical"] == 1


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


def test_a_way_that_was_stopped_goes_on_where_it_was(tmp_path):
    config = GROWN.config(
        "quick",
        n_samples=8,
        n_chain_samples=4,
        n_time_steps=4,
        problems=((3, 0.1, 4), (4, 0.1, 2), (5, 0.1, 2)),
    )
    whole = grown_job(config, 0)
    way = tmp_path / "grown.safetensors"
    shorter = replace(config, problems=config.problems[:2])
    grown_job(shorter, 0, way)
    _, second = sorted(tmp_path.glob("grown-*"))
    kept = second.read_bytes()
    again = grown_job(config, 0, way)
    assert second.read_bytes() == kept
    for name, value in whole.arrays.items():
        assert (again.arrays[name] == value).all(), name


def test_the_published_recipe_runs_with_its_own_network():
    study = TRANSFORMER.run("quick", n_time_steps=8)
    (cells,) = study.scalars["table"].values()
    bare, shorter, longer = cells.values()
    assert [len(cell["ESS"]) for cell in cells.values()] == [1, 2, 1]
    assert "train cpu s" not in bare
    assert shorter["train cpu s"][0] < longer["train cpu s"][0]
    assert [len(losses) for losses in study.arrays.values()] == [5, 10]
    for cell in cells.values():
        assert all(0 <= share <= 1 for share in cell["ESS"] + cell["ESS chain"])
    plt.close(TRANSFORMER.figure(study))


def test_samples_of_no_weight_are_worth_nothing():
    path = AnnealingPath(LatticeIsing(3, 0.1))
    x, weights = torch.zeros(4, 9), torch.full((4,), -torch.inf)
    assert sample_scores(path, 1.0, x, weights, 1.0) == {
        "ESS": 0.0,
        "log Z error": -torch.inf,
    }


def test_trainings_with_and_without_a_warm_up_begin_alike_and_part(monkeypatch):
    result = WARM_UP.run("quick")
    (row,) = result.scalars["table"].values()
    assert row["with"]["ESS"] != row["without"]["ESS"]
    (name,) = result.scalars["table"]
    losses = [result.arrays[f"losses/{name}/{words}"] for words in ("with", "without")]
    assert losses[0][0] == losses[1][0]
    assert losses[0][-1] != losses[1][-1]
    plt.close(WARM_UP.figure(result))

    def diverges(*args, **how):
        raise DivergenceError("flow diverged at step 3", 3)

    monkeypatch.setattr(warm_up, "train_lattice_flow", diverges)
    job = next(iter(WARM_UP.cells(WARM_UP.config("quick")).values()))
    scores = warm_up_job(**job, seed=0).scalars
    assert scores == {"ESS": 0.0, "log Z error": float("inf"), "diverged at": 3}
