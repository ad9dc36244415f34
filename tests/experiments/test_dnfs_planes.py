"""Densities of the plane, in few bits and in 32: energies, flows and claims."""

import math
import re
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmtut.checks import DivergenceError
from ebmtut.data import DENSITIES, density_extent, density_scale, sample_density
from ebmtut.energies import Ising, LatticeIsing, TableEnergy
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import ebm_training, networks, plane_tables, planes
from ebmtut.experiments.dnfs.ebm_training import JointConfig, wide_joint
from ebmtut.experiments.dnfs.lattice_tables import costs_table, seconds_table
from ebmtut.experiments.dnfs.plane_tables import control_table, swept_distribution
from ebmtut.experiments.dnfs.pretrained_ebm import PaddedEnergy, _reversed_states
from ebmtut.experiments.facts import get_fact
from ebmtut.flows import Flow, HollowTransformer, flow_distributions
from ebmtut.ledger import counts, lines, rows
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root, load_result
from ebmtut.states import enumerate_states, gray_encode, states_to_index
from studies.dnfs import wide
from studies.dnfs.joint import CONTROL
from tests.experiments.cuts import in_two_steps


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
def test_each_network_begins_with_its_stored_loss(network, monkeypatch):
    # Of the first step alone: not its evaluations, in 64 steps, nor those after it.
    monkeypatch.setattr(networks.flows, "simulate", in_two_steps)
    monkeypatch.setattr(networks, "PACE", {network: 1})
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


def test_costs_stand_beside_those_of_annealing():
    full, column = get_experiment("dnfs/ising").stored(), "10x10, critical"
    flow, swept, *baselines, exact = costs_table(full, column).rows
    table = full.scalars["table"]
    cells = {m: row[column] for m, row in table.items() if column in row}
    # By hand: an effective sample of annealing takes its sweeps over its ESS.
    for row, name, sweeps in zip(
        baselines, ("AIS", "AIS x4", "AIS x16"), (64, 256, 1024), strict=True
    ):
        assert row[0] == name.replace("x", "×")
        assert int(row[1]) == round(sweeps / fmean(cells[name]["ESS"]))
    # Exact simulation costs more time, and its energy is right; with sweeps it is not.
    assert float(flow[2]) > 5 * max(float(row[2]) for row in baselines)
    energies = [cells["ours"][f"weighted energy {kind}"] for kind in ("path", "swept")]
    off = [fmean(energy) - float(exact[3].replace("−", "-")) for energy in energies]
    assert swept[1] == "128" and abs(off[0]) < 0.3 and 1 < off[1] < 1.3


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


def test_the_coarse_picture_is_the_histogram_of_the_points():
    points = sample_density("2spirals", 2000, generator=make_generator(0))
    scale = density_scale("2spirals")
    seen = planes.coarse_picture(
        planes.coarse_distribution(gray_encode(points, scale).float())
    )
    # Sign and four bits name 32 intervals of the 2**16 around 0.
    edges = np.linspace(-(2**15), 2**15, 33) / scale
    counts, _, _ = np.histogram2d(points[:, 1], points[:, 0], bins=(edges, edges))
    assert np.allclose(2000 * seen.numpy(), counts)


def test_exact_draws_have_the_distribution_of_independent_bits():
    n, logits = 5000, torch.zeros(32)
    logits[[0, 1, 2, 16, 17]] = torch.tensor([0.5, -1.0, 0.7, 1.0, -0.3])

    def energy(x):
        return -(x @ logits)

    drawn, log_z = planes.exact_draws(energy, n, generator=make_generator(1))
    mean = logits.sigmoid()
    error = (mean * (1 - mean) / n).sqrt()
    assert bool(((drawn.mean(0) - mean).abs() < 5 * error).all())
    # The proposal has a twentieth of its mass elsewhere: weights vary by as much.
    assert abs(log_z - float(softplus(logits).sum())) < 5 * 0.1 / n**0.5


def test_sites_that_are_not_seen_change_nothing():
    seen = Ising(0.3 * torch.ones(3, 3).triu(1))
    padded = PaddedEnergy(seen, 3, 4)
    x = enumerate_states(4).float()
    assert torch.equal(padded(x), seen(x[:, :3]))


def test_the_reversed_flow_has_the_distribution_of_the_master_equation():
    n, n_steps = 5000, 64
    path = AnnealingPath(Ising(0.4 * torch.ones(3, 3).triu(1)))
    network = HollowTransformer(3, width=8, n_layers=1, generator=make_generator(0))
    flow = Flow(path, network)
    x_all = enumerate_states(3).float()
    start = (-path.target(x_all).double()).softmax(0)
    generator = make_generator(2)
    x = x_all[torch.multinomial(start, n, True, generator=generator)]
    states = _reversed_states(flow, x, n_steps, generator=generator)
    assert torch.equal(states[-1], x)
    exact = flow_distributions(flow, n_steps, start=start, reverse=True)[-1]
    seen = torch.bincount(states_to_index(states[0]), minlength=8).double() / n
    # Five standard errors, and the error of a step of time.
    bound = 5 * (exact * (1 - exact) / n).sqrt() + 1 / n_steps
    assert bool(((seen - exact).abs() < bound).all())


def test_a_joint_training_that_diverges_names_its_step_and_the_largest_ratio():
    config = JointConfig(
        methods=("DNFS",),
        n_bits=16,
        n_steps=4,
        n_last=1,
        n_time_steps=2,
        n_samples=16,
        n_reused=1,
        width=8,
        learning_rate=1e-3,
        energy_learning_rate=1e12,
    )
    with pytest.raises(DivergenceError) as error:
        wide_joint("2spirals", config, 0)
    assert 0 < error.value.step < 4
    words = r"the energy diverged at step \d: the largest log-ratio of its flow was "
    assert re.match(words + r"[\d.e+-]+; try a smaller energy_lea", str(error.value))


@pytest.mark.parametrize("method", wide.METHODS)
def test_a_pool_follows_an_energy_that_changes(method):
    """Its weighted means are those of all states, after energies that came before."""
    generator = make_generator(0)
    x_all = enumerate_states(8).float()
    energy = TableEnergy(torch.zeros(256), 8)
    config = wide.WideConfig(n_time_steps=32, width=8)
    sampler = wide.METHODS[method](energy, config, 0)
    direction = torch.randn(256, generator=generator)
    pool: dict[str, Tensor] = {}
    for share in (0.6, 1.0):
        energy.table = share * direction
        drawn = sampler.draw(2000, generator=generator)
        new = wide.tempered(sampler.path, drawn, 10_000, generator=generator)
        wide.fill(pool, energy, new, 15_000)
        wide.follow(pool, energy(pool["x"]))
        wide.move(pool, energy, 2, generator=generator)
    energy.table = 1.2 * direction
    weights = wide.follow(pool, energy(pool["x"])).double()
    exact = (-energy.table.double()).softmax(0) @ x_all.double()
    found = weights @ pool["x"].double()
    # Of the chains, not of the states: those of one chain are correlated.
    assert float((found - exact).abs().max()) < 4 * 0.5 * (2 * 2000) ** -0.5
    assert float((x_all.double().mean(0) - exact).abs().max()) > 0.05


def test_an_energy_of_32_bits_learns_and_its_scores_agree(monkeypatch):
    few = replace(wide.EVALUATION, n_proposal=20_000, n_repeats=1, coarse_bits=6)
    monkeypatch.setattr(wide, "EVALUATION", few)
    result = wide.WIDE.run("quick", methods=("uniform bits",), n_steps=150)
    (cell,) = result.scalars["table"]["uniform bits"].values()
    # Uniform bits, which an untrained energy has nearly, are this far from the data.
    assert cell["KL"][0] < (32 * math.log(2) - cell["entropy"][0]) / 4
    noise = math.hypot(cell["NLL stderr"][0], cell["KL stderr"][0])
    gap = cell["NLL"][0] - cell["entropy"][0] - cell["KL"][0]
    assert abs(gap) < 5 * noise
    wide.WIDE.figure(result)


def test_the_ledger_counts_what_the_study_ran(tmp_path):
    """The paper's own rows alone, as runs of a reduced scale."""
    ledger = rows(tmp_path, paper="dnfs", studies=benchmarks_root())
    found = [line for line in lines(ledger) if line.study == "dnfs/wide"]
    stored = load_result("dnfs/wide", "full", benchmarks_root()).scalars["table"]
    # NLL, MMD, the bound, and the MMD of Gibbs samples.
    assert len(stored["EB-DNFS"]) == 7 and len(found) == 4 * 7
    assert {line.word for line in found} == {"not comparable"}
    before = counts(rows(tmp_path, paper="dnfs"))["dnfs"]["not run"]
    assert counts(ledger)["dnfs"]["not run"] == before - len(found)
    # What the page says of the number of densities within 0.06 of the printed one, and
    # that the flow is last of the three on each.
    printed = get_fact("dnfs/ebm-table").table("NLL")
    within = dict.fromkeys(wide.METHODS, 0)
    for density in stored["EB-DNFS"]:
        number = printed.number("EB-DNFS", density)
        for method in within:
            within[method] += fmean(stored[method][density]["NLL"]) < number + 0.06
        kl = [fmean(stored[method][density]["KL"]) for method in wide.METHODS]
        assert kl[0] > kl[1] > kl[2]
    assert set(within.values()) == {7}
