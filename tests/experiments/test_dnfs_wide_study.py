"""The study of 32 bits: its pool has the weights, its energies learn."""

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from torch import Tensor

from ebmtut.energies import TableEnergy
from ebmtut.experiments.facts import get_fact
from ebmtut.ledger import counts, lines, rows
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root, load_result
from ebmtut.states import enumerate_states
from studies.dnfs import wide


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
