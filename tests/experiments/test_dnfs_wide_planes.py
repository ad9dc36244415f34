"""Energies and flows of 32 bits: against grids, master equations and each other."""

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
from ebmtut.data import density_scale, sample_density
from ebmtut.energies import Ising, TableEnergy
from ebmtut.experiments.dnfs import planes
from ebmtut.experiments.dnfs.ebm_training import JointConfig, wide_joint
from ebmtut.experiments.dnfs.pretrained_ebm import PaddedEnergy, _reversed_states
from ebmtut.experiments.facts import get_fact
from ebmtut.flows import Flow, HollowTransformer, flow_distributions
from ebmtut.ledger import counts, lines, rows
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root, load_result
from ebmtut.states import enumerate_states, gray_encode, states_to_index
from studies.dnfs import wide


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
    n_flows = len(stored["EB-DNFS"])
    # NLL, MMD, the bound, and the MMD of Gibbs samples.
    assert n_flows == 7 and len(found) == 4 * n_flows
    assert {line.word for line in found} == {"not comparable"}
    before = counts(rows(tmp_path, paper="dnfs"))["dnfs"]["not run"]
    assert counts(ledger)["dnfs"]["not run"] == before - len(found)
    # What the page says of the number of densities within 0.06 of the printed one, and
    # that the flow is last of the three on each.
    printed = get_fact("dnfs/ebm-table").table("NLL")
    within = dict.fromkeys(wide.METHODS, 0)
    for density in stored["EB-DNFS"]:
        number = printed.number("EB-DNFS", density)
        assert number is not None
        for method in within:
            within[method] += fmean(stored[method][density]["NLL"]) < number + 0.06
        kl = [fmean(stored[method][density]["KL"]) for method in wide.METHODS]
        assert kl[0] > kl[1] > kl[2]
    assert within == {"EB-DNFS": 3, "annealed sweeps": 4, "uniform bits": 5}
