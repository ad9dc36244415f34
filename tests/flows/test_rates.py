"""Rate matrices against the Kolmogorov equation, by enumeration."""

import pytest
import torch

from ebmtut import losses
from ebmtut.flows import Flow
from ebmtut.paths import AnnealingPath
from ebmtut.states import enumerate_states
from tests.flows.systems import (
    SolvedNetwork,
    TableNetwork,
    distributions,
    random_energy,
    random_odd_tables,
    rate_matrix,
)

TIMES = [0.0, 0.3, 0.8, 1.0]
RATES = ["one_way", "reversible"]


def random_flow(rates, n_sites=3, n_states=2, seed=0, scale=1.0, **options):
    energy = random_energy(n_sites, n_states, seed, scale)
    path = AnnealingPath(energy, n_states=n_states)
    tables = random_odd_tables(n_sites, n_states, seed + 1)
    return Flow(path, TableNetwork(tables, n_sites, n_states), rates=rates, **options)


both_rates = pytest.mark.parametrize("rates", RATES)
both_sizes = pytest.mark.parametrize("n_states", [2, 3])


@both_rates
@both_sizes
@pytest.mark.parametrize("t", TIMES)
def test_weights_undo_what_the_rates_do_wrong(rates, n_states, t):
    """(R_t + diag xi_t) p~_t = d p~_t / dt: so the mean weight is Z_1 / Z_0.

    What a weighted chain expects at time t obeys this linear equation, and so
    does p~_t, from the same start.
    """
    flow = random_flow(rates, n_states=n_states)
    x = enumerate_states(3, n_states)
    p = flow.path.log_density(x, t).exp()
    terms = flow.terms(x, t)
    got = rate_matrix(flow, t) @ p + terms.xi * p
    torch.testing.assert_close(got, terms.derivative * p, rtol=1e-12, atol=1e-12)


@both_rates
@both_sizes
def test_stein_identity(rates, n_states):
    """What flows out less what flows in has mean zero under p_t."""
    flow = random_flow(rates, n_states=n_states)
    x = enumerate_states(3, n_states)
    p, _ = distributions(flow.path, [0.4])
    terms = flow.terms(x, 0.4)
    stein = (terms.outward - terms.inward).flatten(1).sum(1)
    assert float(stein.abs().max()) > 0.1
    assert float((p[0] * stein).sum()) == pytest.approx(0, abs=1e-12)


@both_rates
@both_sizes
def test_rates_are_one_way(rates, n_states):
    flow = random_flow(rates, n_states=n_states)
    matrix = rate_matrix(flow, 0.6)
    off = matrix - torch.diag(torch.diagonal(matrix))
    assert float((off * off.T).abs().max()) == 0
    assert float(off.max()) > 0
    assert float(off.min()) == 0


@both_rates
@pytest.mark.parametrize("t", TIMES)
def test_residual_of_a_solved_chain_is_zero(rates, t):
    path = AnnealingPath(random_energy(3))
    flow = Flow(path, SolvedNetwork(path, rates), rates=rates)
    x = enumerate_states(3)
    p, _ = distributions(path, [t])
    slope = float((p[0] * path.time_derivative(x)).sum())
    residual = losses.kolmogorov_residual(flow, x, t, slope)
    torch.testing.assert_close(residual, torch.zeros_like(residual), atol=1e-9, rtol=0)
    loss = losses.kolmogorov_variance_loss(flow, x[None], torch.tensor([t]).double())
    assert float(loss) == pytest.approx(0, abs=1e-18)


@both_rates
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 1.2])
def test_control_variate_reduces_the_spread_by_the_stated_factor(rates, factor):
    """Rates that are a times the perfect ones leave (1 - a) of the spread."""
    path = AnnealingPath(random_energy(3))
    flow = Flow(path, SolvedNetwork(path, rates, factor), rates=rates)
    x = enumerate_states(3)
    terms = flow.terms(x, 0.7)
    spread = abs(1 - factor) * float(terms.derivative.std())
    assert float(terms.xi.std()) == pytest.approx(spread, abs=1e-10)


def test_slope_is_the_mean_of_xi_or_of_the_derivative_alone():
    xi, derivative = torch.rand(3, 5), torch.rand(3, 5)
    torch.testing.assert_close(losses.log_partition_slope(xi), xi.mean(1))
    torch.testing.assert_close(
        losses.log_partition_slope(xi, derivative), derivative.mean(1)
    )


def test_cut_ratios_are_counted_and_the_largest_is_told():
    flow = random_flow("one_way", max_log_ratio=0.5)
    x = enumerate_states(3)
    ratios = flow.path.log_ratios(x, 1.0)
    terms, info = flow.evaluate(x, 1.0)
    assert info.n_clipped == int((ratios > 0.5).sum()) > 0
    assert info.n_ratios == ratios.numel()
    assert float(info.largest) == pytest.approx(float(ratios.max()))
    cut = (-flow.network(x, x.new_ones(8))).relu() * ratios.clamp(max=0.5).exp()
    torch.testing.assert_close(terms.inward, cut)
    assert random_flow("one_way").evaluate(x, 1.0)[1].n_clipped == 0
