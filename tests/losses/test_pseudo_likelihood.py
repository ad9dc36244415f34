"""Pseudo-likelihood against conditional laws by enumeration."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.energies import Ising
from ebmtut.losses import pseudo_likelihood_loss
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=make_generator(seed))


def by_enumeration(u: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Sum the conditionals of a law on three bits out of its full table."""
    p = torch.softmax(-u, dim=0).reshape(2, 2, 2)
    logs = sum((p / p.sum(dim=i, keepdim=True)).log() for i in range(3))
    return -(weight * logs.reshape(8)).sum()


@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100))
def test_value_and_gradient_by_enumeration(seed: int, shift: float) -> None:
    u = normal(8, seed=seed).requires_grad_()
    counts = torch.randint(0, 4, (8,), generator=make_generator(seed))
    counts[seed % 8] += 1
    x = enumerate_states(3).repeat_interleave(counts, dim=0)
    # The constant goes: energies are known up to one.
    loss = pseudo_likelihood_loss(lambda s: u[states_to_index(s)] + shift, x)
    want = by_enumeration(u, counts.double() / counts.sum())
    assert torch.allclose(loss, want, atol=1e-11)
    got, expected = (torch.autograd.grad(v, u)[0] for v in (loss, want))
    assert torch.allclose(got, expected, atol=1e-11)


def test_the_data_law_is_a_minimum() -> None:
    """The gradient vanishes there, and nowhere near."""
    counts = torch.tensor([1, 9, 4, 14, 6, 2, 25, 3])
    u = -(counts.double() / counts.sum()).log().requires_grad_()
    x = enumerate_states(3).repeat_interleave(counts, dim=0)

    def slope(v: torch.Tensor) -> float:
        v = v.detach().requires_grad_()
        loss = pseudo_likelihood_loss(lambda s: v[states_to_index(s)], x)
        return torch.autograd.grad(loss, v)[0].abs().max().item()

    assert slope(u) < 1e-14
    assert slope(u + 0.1 * normal(8)) > 1e-3


def test_closed_form_and_evaluation_agree() -> None:
    energy = Ising(normal(4, 4), normal(4, seed=1), learnable=True)
    x = enumerate_states(4)
    loss = pseudo_likelihood_loss(energy, x)
    other = pseudo_likelihood_loss(lambda s: energy(s), x)
    assert torch.allclose(loss, other, atol=1e-12)
    for one, two in zip(
        torch.autograd.grad(loss, list(energy.parameters())),
        torch.autograd.grad(other, list(energy.parameters())),
        strict=True,
    ):
        assert torch.allclose(one, two, atol=1e-12)


def test_states_must_be_bits() -> None:
    with pytest.raises(InputError, match="x must hold only 0 and 1, got 2"):
        pseudo_likelihood_loss(lambda s: s.sum(1), torch.full((1, 3), 2.0))
    with pytest.raises(InputError, match=r"len\(x\) must be an integer >= 1, got 0"):
        pseudo_likelihood_loss(lambda s: s.sum(1), torch.zeros(0, 3))
