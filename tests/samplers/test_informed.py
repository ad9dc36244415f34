import pytest
import torch

from ebmtut.samplers.informed import balancing_function, gwg_log_proposal

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
