"""Exact weights of flows whose networks are locally equivariant, or are not."""

import pytest
import torch

from ebmtut.energies import LatticeIsing
from ebmtut.experiments.dnfs.hollow import (
    draw_influences,
    draw_xi,
    exact_weights,
    influences,
)
from ebmtut.flows import Flow, HollowMLP
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator

PAIR = AnnealingPath(lambda x: -(2 * x - 1).prod(1), 2)


class TwoSpins(torch.nn.Module):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x, t):
        return -self.strength * (2 * x - 1).prod(1, keepdim=True).expand_as(x)


class Leaky(torch.nn.Module):
    """Adds a number of the site's own state to a hollow network."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, t):
        return self.network(x, t) + 0.5 * x


def hollow(d):
    return HollowMLP(d, width=4, generator=make_generator(1))


def test_a_perfect_flow_has_equal_weights():
    found = exact_weights(Flow(PAIR, TwoSpins(1.0)))
    assert found == pytest.approx((0, 1, 0), abs=1e-5)


@pytest.mark.parametrize("rates", ["reversible", "one_way"])
def test_any_locally_equivariant_network_has_the_right_log_z(rates):
    path = AnnealingPath(LatticeIsing(3, 0.1))
    found = exact_weights(Flow(path, hollow(9), rates=rates), 32)
    # The rates are float32; Runge-Kutta steps of 1 / 32 err by (rate / 32)^4, where the
    # rates of a state add up to a few.
    assert found.stein_mean == pytest.approx(0, abs=1e-5)
    assert found.log_z_error == pytest.approx(0, abs=2e-3)
    assert 0 < found.ess < 0.99


def test_a_leak_shows_in_the_stein_mean_and_in_log_z():
    path = AnnealingPath(LatticeIsing(3, 0.1))
    found = exact_weights(Flow(path, Leaky(hollow(9))), 32)
    assert abs(found.stein_mean) > 0.1
    assert abs(found.log_z_error) > 0.1


def test_influences_of_a_hollow_network_have_a_white_diagonal():
    x = torch.randint(2, (16, 9), generator=make_generator(2)).float()
    t = torch.rand(16, generator=make_generator(3))
    found = influences(hollow(9), x, t)
    assert found.diagonal().max() < 1e-6 < found.max()
    assert influences(Leaky(hollow(9)), x, t).diagonal().min() > 0.1
    figure = draw_influences({"a": hollow(9), "b": Leaky(hollow(9))}, x, t)
    *panels, bar = figure.axes
    assert [ax.get_title() for ax in panels] == ["a", "b"]
    assert bar.get_xlim() == (0, 1)


def test_xi_of_two_spins_differs_between_states_at_half_rates_only():
    ax = draw_xi(PAIR, TwoSpins(1.0)).axes[0]
    agree, disagree, *right = (torch.as_tensor(line.get_ydata()) for line in ax.lines)
    for t, *found in zip(torch.linspace(0, 1, 51), *right, strict=True):
        for x, value in zip(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), found, strict=True):
            xi = Flow(PAIR, TwoSpins(1.0)).terms(x[None], float(t)).xi
            assert float(value) == pytest.approx(float(xi), abs=1e-6)
            assert float(value) == pytest.approx(float(t.tanh()), abs=1e-6)
    # At half rates xi is (tanh t - E) / 2, and E differs by 2.
    torch.testing.assert_close(agree - disagree, torch.ones(51))
