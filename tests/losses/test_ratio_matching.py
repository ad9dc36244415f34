"""Ratio matching against conditional laws by enumeration."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.energies import Ising
from ebmtut.losses import ratio_matching_loss
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=make_generator(seed))


@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100))
def test_value_by_enumeration(seed: int, shift: float) -> None:
    """The squared chance of the other value of every bit, out of the full table."""
    u = normal(8, seed=seed)
    counts = torch.randint(0, 4, (8,), generator=make_generator(seed))
    counts[seed % 8] += 1
    x = enumerate_states(3).repeat_interleave(counts, dim=0)
    loss = ratio_matching_loss(lambda s: u[states_to_index(s)] + shift, x)
    p = torch.softmax(-u, dim=0).reshape(2, 2, 2)
    misses = sum((1 - p / p.sum(dim=i, keepdim=True)) ** 2 for i in range(3))
    want = (counts * misses.reshape(8)).sum() / counts.sum()
    assert torch.allclose(loss, want, atol=1e-11)


def test_the_data_law_is_a_minimum() -> None:
    """The gradient vanishes there, and nowhere near."""
    counts = torch.tensor([1, 9, 4, 14, 6, 2, 25, 3])
    u = -(counts.double() / counts.sum()).log()
    x = enumerate_states(3).repeat_interleave(counts, dim=0)

    def slope(v: torch.Tensor) -> float:
        v = v.detach().requires_grad_()
        loss = ratio_matching_loss(lambda s: v[states_to_index(s)], x)
        return torch.autograd.grad(loss, v)[0].abs().max().item()

    assert slope(u) < 1e-14
    assert slope(u + 0.1 * normal(8)) > 1e-3


def test_impossible_data_cost_one_a_bit() -> None:
    field = torch.full((4,), 1e4).double()
    energy = Ising(torch.zeros(4, 4).double(), field)
    assert float(ratio_matching_loss(energy, torch.zeros(2, 4).double())) == 4
    assert float(ratio_matching_loss(energy, torch.ones(2, 4).double())) == 0


def test_bad_data_are_refused() -> None:
    energy = Ising(normal(3, 3))
    for x in (torch.full((2, 3), 0.5), torch.zeros(0, 3), torch.zeros(2, 3).long()):
        with pytest.raises(InputError, match="x"):
            ratio_matching_loss(energy, x)
