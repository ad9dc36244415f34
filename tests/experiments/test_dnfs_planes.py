"""Small planes: energies, distributions, and claims that an idle flow fails."""

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch

from ebmtut.data import DENSITIES, density_extent, sample_density
from ebmtut.energies import LatticeIsing
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import ebm_training, networks, plane_tables, planes
from ebmtut.experiments.dnfs.lattice_tables import payback, payback_table, seconds_table
from ebmtut.experiments.dnfs.plane_tables import control_table, swept_distribution
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root
from ebmtut.states import enumerate_states
from studies.dnfs.joint import CONTROL


def test_cells_that_touch_differ_in_one_bit():
    """A picture of the states' numbers: neighbours are one flip apart."""
    numbers = planes.plane_picture(torch.arange(256.0)).long()
    for axis in (0, 1):
        step = numbers.narrow(axis, 1, 15) ^ numbers.narrow(axis, 0, 15)
        assert bool(((step & (step - 1)) == 0).all())
        assert bool((step > 0).all())


def test_sweeps_end_where_products_of_their_transition_matrices_do():
    p = torch.rand(8, generator=make_generator(0)).double()
    p, flips = p / p.sum(), torch.arange(8)[:, None] ^ torch.tensor([1, 2, 4])
    found = torch.full((8,), 1 / 8).double()
    for t in (0.5, 1.0):
        for bit in range(3):
            move = (p**t)[flips[:, bit]] / (p**t + (p**t)[flips[:, bit]])
            matrix = torch.diag(1 - move)
            matrix[torch.arange(8), flips[:, bit]] = move
            found = found @ matrix
    torch.testing.assert_close(swept_distribution(p, 2), found)
    # One sweep samples independent bits exactly.
    alone = planes.independent_bits(p)
    torch.testing.assert_close(swept_distribution(alone, 1), alone)


@pytest.mark.parametrize("density", DENSITIES)
def test_the_distribution_of_the_data_keeps_its_place(density):
    """Its mean and spread are those of samples, within half a cell and their noise."""
    distribution = planes.plane_distribution(density, 5)
    assert float(distribution.sum()) == pytest.approx(1, abs=1e-12)
    picture = planes.plane_picture(distribution)
    extent, n = density_extent(density), 20_000
    at = extent * ((torch.arange(32).double() + 0.5) / 16 - 1)
    x = sample_density(density, n, generator=make_generator(0)).double()
    for coordinate in (0, 1):
        marginal = picture.sum(coordinate)
        draws = x[:, coordinate]
        noise = 5 * float(draws.std()) / n**0.5
        mean = float(marginal @ at)
        assert abs(mean - float(draws.mean())) < extent / 32 + noise
        largest = 5 * float(draws.square().std()) / n**0.5
        # (v + h)^2 - v^2 with |h| of at most half a cell.
        bound = extent / 32 * (2 * float(draws.abs().mean()) + extent / 32)
        assert abs(float(marginal @ at.square() - draws.square().mean())) < (
            bound + largest
        )


def test_scores_of_distributions():
    data = planes.plane_distribution("moons", 2)
    same = planes.scores(data, data)
    assert max(map(abs, same.values())) < 1e-12
    null = planes.independent_bits(data)
    x = enumerate_states(4).double()
    assert torch.allclose(null @ x, data @ x)
    assert float(null.sum()) == pytest.approx(1)
    # What independent bits lack is the total correlation, never negative.
    assert planes.scores(null, data)["KL"] > 0


def test_fractions_of_clipped_ratios_follow_from_their_counts():
    stored = get_experiment("dnfs/pretrained-ebm").stored()
    paper = next(iter(stored.scalars["table"]["paper"].values()))
    met = stored.config["n_steps"] * 128 * 2 * stored.config["n_bits"]
    assert paper["clipped share"] == pytest.approx([n / met for n in paper["clipped"]])
    rows = plane_tables.sampler_table(stored, "clipped share").rows
    clipped = {row[0]: row[1:] for row in rows}
    assert set(clipped["DNFS"]) == {"0"} and "0" not in clipped["paper"]


def test_joint_training_runs_and_is_judged_beside_independent_bits():
    experiment = get_experiment("dnfs/ebm-table")
    sizes = {"n_bits": 2, "n_steps": 4, "n_last": 4, "n_time_steps": 4}
    result = experiment.run("quick", **sizes, densities=("moons",), methods=("DNFS",))
    verdicts = experiment.verdicts(result)
    assert len(verdicts) == 2
    cell = result.scalars["table"]["DNFS"]["moons"]
    assert [v.baseline for v in verdicts] == [cell["null KL"][0]] * 2
    # The bound on the likelihood lies above the flow's own distance, up to its noise.
    lost = cell["flow bound"][0] - cell["flow KL"][0]
    assert lost > -5 * cell["flow bound stderr"][0]
    experiment.figure(result)
    ebm_training.EXPERIMENT.figure(result)
    assert "independent" in repr(plane_tables.score_table(result))


def test_the_control_of_joint_training_has_all_but_the_flow():
    sizes = {"n_bits": 2, "n_steps": 100, "n_time_steps": 4}
    control = CONTROL.run("quick", **sizes, densities=("moons",))
    cell = control.scalars["table"]["sweeps"]["moons"]
    assert cell["KL"][0] < cell["null KL"][0] / 2
    flow = {"table": {"DNFS": {"moons": {"KL": [0.1], "cpu s": [2.0]}}}}
    trained = replace(control, scalars=flow)
    table = control_table(trained, control)
    assert table.rows[0][:2] == ("moons", "0.1")
    assert "flow and sweeps 2," in table.caption
    CONTROL.figure(control)
    with_flow = ebm_training.EXPERIMENT.config("full")
    assert CONTROL.config("full") == with_flow


def test_two_runs_of_joint_training_are_shown_as_they_are():
    trained = get_experiment("dnfs/ebm-training").stored()
    control = CONTROL.stored(benchmarks_root())
    table = control_table(trained, control)
    rows = {row[0]: dict(zip(table.heads, row, strict=True)) for row in table.rows}
    runs = control.scalars["table"]["sweeps"]["8gaussians"]["KL"]
    shown = [float(end) for end in rows["8gaussians"]["sweeps alone"].split("–")]
    assert shown == pytest.approx(sorted(runs), rel=0.005)
    assert "Lowest and highest of 2 runs" in table.caption
    # In both runs ahead on four: there is no need of a mean to see that.
    flow = trained.scalars["table"]["DNFS"]
    sweeps = control.scalars["table"]["sweeps"]
    ahead = [
        all(a < b for a, b in zip(flow[d]["KL"], sweeps[d]["KL"], strict=True))
        for d in flow
    ]
    assert sum(ahead) == 4
    scores = plane_tables.score_table(trained)
    shown = [row for row in scores.rows if row[:2] == ("pinwheel", "EB-GFN, energy")]
    assert shown == [
        ("pinwheel", "EB-GFN, energy", "7.57–13.2", "0.999–1.00", "4660–4820")
    ]


def test_networks_are_compared_by_their_stored_errors():
    result = get_experiment("dnfs/networks").stored()
    table = networks.network_table(result)
    rows = {row[0]: dict(zip(table.heads, row, strict=True)) for row in table.rows}
    assert rows["leConv, untrained"]["steps"] == "–"
    errors = result.scalars["table"]["leConv"]["log Z error"]
    rms = fmean(error**2 for error in errors) ** 0.5
    log_rmse = float(rows["leConv"]["log RMSE"].replace("−", "-"))
    assert log_rmse == pytest.approx(math.log(rms), abs=0.051)
    assert table.kinds.count("null") == len(result.scalars["table"])


@pytest.mark.parametrize("network", networks.PACE)
def test_each_network_begins_with_its_stored_loss(network):
    stored = get_experiment("dnfs/networks").stored()
    sizes = {name: stored.config[name] for name in ("side", "sigma")}
    config = networks.NetworkConfig(**sizes, n_steps=1, n_samples=16)
    losses = networks.network_job(network, config, stored.provenance.seed).arrays
    first = stored.arrays[f"losses/{network}"][0]
    assert losses["losses"][0] == pytest.approx(first, rel=1e-3)


@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_the_exact_energy_of_a_lattice_is_that_of_its_states(bias):
    states = enumerate_states(9).double()
    energies = LatticeIsing(3, 0.2, bias)(states)
    want = float(energies @ (-energies).softmax(0))
    found = networks.exact_energy({"side": 3, "sigma": 0.2, "bias": bias})
    # Central differences are off by a third derivative, some 1e3, over 6 times 1e8.
    assert found == pytest.approx(want, abs=1e-5)


def test_training_is_paid_back_or_never():
    assert payback(1.0, 100.0, 3.0) == 50
    assert payback(1.0, 2468.0, 3.0) == 1200
    assert payback(3.0, 100.0, 3.0) == float("inf")


def test_costs_stand_beside_those_of_annealing():
    full, column = get_experiment("dnfs/ising").stored(), "10x10, critical"
    table = payback_table(full, column)
    table_of_runs = full.scalars["table"]
    cells = {m: row[column] for m, row in table_of_runs.items() if column in row}
    flow, *nulls = table.rows
    assert flow[0] == "flow, exact simulation" and flow[3] == "–"
    # By hand: an effective sample of annealing takes its sweeps over its ESS.
    for row, name, sweeps in zip(
        nulls, ("AIS", "AIS x4", "AIS x16"), (64, 256, 1024), strict=True
    ):
        assert row[0] == name.replace("x", "×")
        assert int(row[1]) == round(sweeps / fmean(cells[name]["ESS"]))
    training = cells["ours"]["train evaluations"][0]
    gap = int(nulls[0][1]) - int(flow[1])
    # Both are rounded to two digits, and the evaluations to whole ones.
    assert int(nulls[0][3]) == pytest.approx(training / gap, rel=0.06)
    dear = {name: dict(row) for name, row in full.scalars["table"].items()}
    dear["ours"][column] = cells["ours"] | {"ESS path": [1e-4]}
    never = payback_table(replace(full, scalars={"table": dear}), column)
    assert [row[3] for row in never.rows[1:]] == ["+inf"] * 3


FLOW = "flow, 64 steps"


def test_seconds_of_the_flow_stand_beside_those_of_annealing():
    full = get_experiment("dnfs/ising").stored()
    for column in full.scalars["exact"]:
        rows = {row[0]: row[1:] for row in seconds_table(full, column).rows}
        table = full.scalars["table"]
        stored = {m: row[column] for m, row in table.items() if column in row}
        for name, shown in (("AIS", "AIS"), ("AIS x4", "AIS ×4"), ("ours", FLOW)):
            pace = fmean(stored[name]["ESS"]) / fmean(stored[name]["sample cpu ms"])
            assert float(rows[shown][2]) == pytest.approx(1000 * pace, rel=0.01)
