"""Tiles of the cost that can't hold an extreme are passed over, and nothing changes."""

import numpy as np
import pytest
import torch

from ebmtut.kernels import gibbs_ot as compiled
from ebmtut.kernels.gibbs_ot import CompiledChain
from ebmtut.kernels.tiles import pruning_for
from ebmtut.random import make_generator
from ebmtut.transport import annealed_temperatures
from ebmtut.transport.gibbs_ot import standard_exponential

N_ITERATIONS = 60


def line(m1, m2, dtype=torch.float64, *, shuffled=False, forbidden=False, zeros=0.0):
    """Squared distances on a line between masses that differ by factors."""
    generator = make_generator(m1)
    x = (torch.arange(m1, dtype=torch.float64) + 0.5) / m1
    y = (torch.arange(m2, dtype=torch.float64) + 0.5) / m2
    cost = (x[:, None] - y).square()
    if forbidden:
        cost[(x[:, None] - y).abs() < 0.02] = torch.inf
    p, q = (torch.rand(m, dtype=torch.float64, generator=generator) for m in (m1, m2))
    p, q = (
        mass.add(0.05) * (torch.rand(len(mass), generator=generator) >= zeros)
        for mass in (p, q)
    )
    if shuffled:
        cost = cost[torch.randperm(m1, generator=generator)]
        cost = cost[:, torch.randperm(m2, generator=generator)]
    return tuple(v.to(dtype) for v in (p / p.sum(), q / q.sum(), cost))


def chains(p, q, cost):
    """Two compiled chains, of which the second walks through the whole cost.

    The first would take a line's order instead, were it not told otherwise.
    """
    start = torch.zeros_like(p)[None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "monge_of", lambda *both: None)
        pruned, whole = (CompiledChain(p[None], q[None], cost, start) for _ in range(2))
    whole.pruning = None
    return pruned, whole


def advance(chain, schedule, seed):
    draws = standard_exponential(
        len(schedule), chain.n_draws, generator=make_generator(seed)
    )
    chain.advance(schedule, draws)


CASES = {
    "line": {},
    "single precision": {"dtype": torch.float32},
    "forbidden pairs": {"forbidden": True},
    "entries without mass": {"zeros": 0.2},
    "shuffled": {"shuffled": True},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("shape", [(256, 257), (128, 130)])
def test_pruning_changes_no_bit(shape, options):
    p, q, cost = line(*shape, **options)
    pruned, whole = chains(p, q, cost)
    schedule = (
        annealed_temperatures(N_ITERATIONS, shape[0], power=2.0).view(-1, 2).to(p)
    )
    if "zeros" not in options:
        assert pruned.pruning is not None
    for turn, part in enumerate(schedule.split(17)):
        if turn == 2:  # other masses, some of them none, as a model that learns has
            moved = p.roll(5) * (torch.arange(len(p)) % 7 > 0)
            pruned.set_p((moved / moved.sum())[None])
            whole.set_p((moved / moved.sum())[None])
        for chain in (pruned, whole):
            advance(chain, part, turn)
        both = (chain.statistics(complete=True) for chain in (pruned, whole))
        for one, other in zip(*both, strict=True):
            assert torch.equal(one, other)
        assert torch.equal(pruned.dual_value(), whole.dual_value())


def least_share(p, q, cost):
    """The least fraction of tiles that had to be evaluated with slacks."""
    chain, _ = chains(p, q, cost)
    schedule = annealed_temperatures(12, len(p), power=2.0).view(-1, 2).to(p)
    shares = []
    for turn, part in enumerate(schedule.split(1)):
        advance(chain, part, turn)
        shares.append(chain.pruning.control[2])
    return min(share for share in shares if share >= 0)


def test_on_a_line_little_is_looked_at_and_less_than_in_disorder():
    share = least_share(*line(512, 512))
    assert 0 < share < 0.1
    assert least_share(*line(512, 512, shuffled=True)) > 2 * share


def test_small_costs_are_not_cut():
    cost = torch.rand(127, 129, generator=make_generator(0))
    assert pruning_for(cost, cost.T.contiguous()) is None
    cost = torch.rand(31, 4000, generator=make_generator(0))
    assert pruning_for(cost, cost.T.contiguous()) is None
    kept = pruning_for(torch.rand(128, 128).log(), torch.rand(128, 128).log())
    assert kept is not None and np.isfinite(kept.size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_and_plain_differences_are_equal(dtype, monkeypatch):
    """Which of them the walk takes depends on the processor, its numbers do not."""
    p, q, cost = line(150, 130, dtype, shuffled=True)
    schedule = annealed_temperatures(N_ITERATIONS, 150, power=2.0).view(-1, 2).to(dtype)
    found = []
    for fuses in (True, False):
        monkeypatch.setattr(compiled, "_FUSES", fuses)
        both = chains(p, q, cost)
        for chain in both:
            advance(chain, schedule, seed=0)
        found.append([chain.statistics(complete=True) for chain in both])
    for one, other in zip(*found, strict=True):
        assert all(map(torch.equal, one, other))
