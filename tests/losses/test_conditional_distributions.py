"""Pseudo-likelihood and ratio matching: sums over conditional ones, by enumeration."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebmtut.energies import Ising
from ebmtut.losses import pseudo_likelihood_loss, ratio_matching_loss
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index
from tests.shared import normal

# What a bit costs whose value has the chance p, given the others.
PRICES: dict[Callable[..., torch.Tensor], Callable[[torch.Tensor], torch.Tensor]] = {
    pseudo_likelihood_loss: lambda p: -p.log(),
    ratio_matching_loss: lambda p: (1 - p) ** 2,
}
each_loss = pytest.mark.parametrize("loss", PRICES, ids=lambda f: f.__name__)


@each_loss
@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100))
def test_value_and_gradient_by_enumeration(loss, seed, shift):
    u = normal(8, seed=seed).requires_grad_()
    counts = torch.randint(0, 4, (8,), generator=make_generator(seed))
    counts[seed % 8] += 1
    x = enumerate_states(3).repeat_interleave(counts, dim=0)
    # The constant goes: energies are known up to one.
    found = loss(lambda s: u[states_to_index(s)] + shift, x)
    p = torch.softmax(-u, dim=0).reshape(2, 2, 2)
    prices = sum(PRICES[loss](p / p.sum(dim=i, keepdim=True)) for i in range(3))
    want = (counts * prices.reshape(8)).sum() / counts.sum()
    assert torch.allclose(found, want, atol=1e-11)
    got, expected = (torch.autograd.grad(v, u)[0] for v in (found, want))
    assert torch.allclose(got, expected, atol=1e-11)


@each_loss
def test_closed_form_and_evaluation_agree(loss: Callable[..., torch.Tensor]) -> None:
    energy = Ising(normal(4, 4), normal(4, seed=1), learnable=True)
    x = enumerate_states(4)
    values = loss(energy, x), loss(lambda s: energy(s), x)
    assert torch.allclose(*values, atol=1e-12)
    slopes = [torch.autograd.grad(v, list(energy.parameters())) for v in values]
    for one, two in zip(*slopes, strict=True):
        assert torch.allclose(one, two, atol=1e-12)


def test_impossible_data_cost_one_a_bit_where_ratios_are_matched() -> None:
    field = torch.full((4,), 1e4).double()
    energy = Ising(torch.zeros(4, 4).double(), field)
    assert float(ratio_matching_loss(energy, torch.zeros(2, 4).double())) == 4
    assert float(ratio_matching_loss(energy, torch.ones(2, 4).double())) == 0
