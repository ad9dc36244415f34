import pytest
import torch

from ebmtut.samplers import balancing_function, gwg_log_proposal
from ebmtut.samplers.metropolis import metropolis_log_acceptance

CLOSED_FORMS = {
    "sqrt": torch.sqrt,
    "barker": lambda t: t / (1 + t),
    "min": lambda t: t.clamp(max=1),
    "max": lambda t: t.clamp(min=1),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_balancing_functions(name):
    log_t = torch.linspace(-5, 5, 41, dtype=torch.float64)
    log_g = balancing_function(name)
    torch.testing.assert_close(log_g(log_t).exp(), CLOSED_FORMS[name](log_t.exp()))
    torch.testing.assert_close(log_g(log_t), log_t + log_g(-log_t))


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_proposals_are_normalised_at_extreme_ratios(name):
    ratios = torch.tensor([[1e30, -1e30, 0.0], [-1e30, -1e30, -1e30]])
    log_q = gwg_log_proposal(ratios, name)
    assert not log_q.isnan().any()
    torch.testing.assert_close(log_q.exp().sum(1), torch.ones(2))


def test_square_root_proposal_is_the_softmax_of_half_the_ratios():
    ratios = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.softmax(ratios / 2, 1)
    torch.testing.assert_close(gwg_log_proposal(ratios).exp(), expected)


def test_metropolis_acceptance():
    got = metropolis_log_acceptance(
        torch.tensor([1.0, -1.0]),
        torch.tensor([-2.0, -0.5]),
        torch.tensor([-1.0, -3.0]),
    )
    assert got.tolist() == [0, -3.5]
