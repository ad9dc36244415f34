"""Distributions by the master equation, against solutions and against matrices."""

import pytest
import torch

from ebmtut.flows import Flow, chain_distribution, flow_distributions, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.states import states_to_index
from tests.flows.systems import SolvedNetwork, distributions, random_energy, rate_matrix
from tests.flows.test_rates import random_flow

TIMES = [k / 64 for k in range(65)]


@pytest.mark.parametrize("rates", ["one_way", "reversible"])
def test_a_perfect_flow_has_the_distribution_of_the_path_at_every_time(rates):
    path = AnnealingPath(random_energy(3, scale=0.7))
    flow = Flow(path, SolvedNetwork(path, rates), rates=rates)
    want, _ = distributions(path, TIMES)
    found = flow_distributions(flow, 64)
    assert (found - want).abs().max() < 1e-4
    # Reversed, it goes back the same way.
    back = flow_distributions(flow, 64, start=want[-1], reverse=True)
    assert (back.flip(0) - want).abs().max() < 1e-4


def test_any_flow_is_followed_as_by_its_rate_matrices():
    """Second order: four times the steps, a sixteenth of the error."""
    flow = random_flow("reversible", seed=4, scale=0.5)
    p = torch.full((2**flow.path.n_sites,), 2.0**-flow.path.n_sites).double()
    for k in range(512):
        p = torch.linalg.matrix_exp(rate_matrix(flow, (k + 0.5) / 512) / 512) @ p
    errors = [
        float((flow_distributions(flow, n)[-1] - p).abs().max()) for n in (16, 64)
    ]
    assert errors[1] < 1e-4
    assert 8 < errors[0] / errors[1] < 32


@pytest.mark.parametrize("method", ["euler", "tau_leaping"])
def test_the_chain_ends_in_the_distribution_of_its_steps(method):
    """As often as it was drawn; and nearer to continuous time by the step."""
    flow = random_flow("reversible", seed=4, scale=2)
    distribution = chain_distribution(flow, 5, method=method)
    assert float(distribution.sum()) == pytest.approx(1)
    n = 100_000
    drawn = simulate(flow, n, 5, method=method, generator=make_generator(0))
    assert not drawn.n_overflows
    found = torch.bincount(states_to_index(drawn.x), minlength=len(distribution)) / n
    assert ((found - distribution).abs() < 5 * (distribution / n).sqrt()).all()
    exact = flow_distributions(flow, 200)[-1]
    # Another number of steps would not pass as this one.
    assert ((exact - distribution).abs() > 5 * (distribution / n).sqrt()).any()
    errors = [
        float((chain_distribution(flow, k, method=method) - exact).abs().sum())
        for k in (16, 64)
    ]
    assert 3 < errors[0] / errors[1] < 5
