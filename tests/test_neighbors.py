"""Ratios against the table of all log-probabilities."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import Ising, LatticeIsing, MLPEnergy
from ebmtut.neighbors import neighbor_log_ratios, taylor_log_ratios
from ebmtut.states import enumerate_states, states_to_index
from tests.shared import normal


def random_ising(n_sites, seed=0):
    return Ising(normal(n_sites, n_sites, seed=seed), normal(n_sites, seed=seed))


ENERGIES = {
    "ising": random_ising(6),
    "lattice": LatticeIsing(3, 0.3, -0.2),
    "mlp": MLPEnergy(6, hidden=16, base_probs=torch.full((6,), 0.3)).double(),
}


def brute_force(energy, n_sites):
    x = enumerate_states(n_sites)
    log_p = torch.log_softmax(-energy(x), dim=0)
    flipped = (x[:, None] - torch.eye(n_sites)).abs().double()
    at = torch.stack([states_to_index(y) for y in flipped])
    return log_p[at] - log_p[:, None]


@pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)
def test_flips_against_enumeration(energy):
    with torch.no_grad():
        want = brute_force(energy, energy.n_sites)
        x = enumerate_states(energy.n_sites)
        assert torch.allclose(neighbor_log_ratios(energy, x), want, atol=1e-12)
        # A plain function hides the closed form: every neighbour is evaluated.
        got = neighbor_log_ratios(lambda z: energy(z), x, chunk=100)
        assert torch.allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_only_the_asked_sites_are_evaluated(n_states):
    table, sites = normal(n_states**4), torch.tensor([1, 3])
    seen = []

    def energy(x):
        seen.append(len(x))
        return table[states_to_index(x, n_states=n_states)]

    x = enumerate_states(4, n_states=n_states)
    full = neighbor_log_ratios(energy, x, n_states=n_states)
    n_full, seen = sum(seen), []
    part = neighbor_log_ratios(energy, x, n_states=n_states, sites=sites)
    assert torch.equal(part[:, sites], full[:, sites])
    assert not part[:, [0, 2]].any()
    assert sum(seen) == len(x) * (1 + 2 * (n_states - 1))
    assert n_full == len(x) * (1 + 4 * (n_states - 1))


def test_gradients_flow_to_parameters():
    energy = random_ising(4)
    energy.coupling.requires_grad_()
    x = enumerate_states(4)
    by_form = torch.autograd.grad(
        neighbor_log_ratios(energy, x).square().sum(), energy.coupling
    )
    by_evaluation = torch.autograd.grad(
        neighbor_log_ratios(lambda z: energy(z), x).square().sum(), energy.coupling
    )
    assert torch.allclose(by_form[0], by_evaluation[0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_many_states_against_enumeration(dtype):
    n_sites, n_states = 3, 4
    table = normal(n_states**n_sites)

    def energy(x):
        return table[states_to_index(x, n_states)]

    x = enumerate_states(n_sites, n_states, dtype=dtype)
    ratios = neighbor_log_ratios(energy, x, n_states=n_states, chunk=17)
    assert ratios.shape == (n_states**n_sites, n_sites, n_states)
    for site in range(n_sites):
        for value in range(n_states):
            y = x.clone()
            y[:, site] = value
            want = energy(x) - energy(y)
            assert torch.allclose(ratios[:, site, value], want)
    current = ratios.gather(2, x.long()[..., None])
    assert (current == 0).all()


@pytest.mark.parametrize("name", ["ising", "lattice"])
def test_taylor_is_exact_on_quadratic_energies(name):
    energy = ENERGIES[name]
    x = enumerate_states(energy.n_sites)
    exact = neighbor_log_ratios(energy, x)
    with torch.no_grad():  # as inside a sampler
        taylor = taylor_log_ratios(energy, x)
    assert not taylor.requires_grad
    assert torch.allclose(taylor, exact, atol=1e-12)


def test_taylor_is_first_order_only():
    def squares(x):
        return (x * x * 3.0).sum(1)

    x = enumerate_states(3)
    # E = 3 x^2 has slope 0 at 0 and 6 at 1, where the true step is 3.
    assert torch.equal(taylor_log_ratios(squares, x), x * 6)
    assert torch.equal(neighbor_log_ratios(squares, x), 6 * x - 3)


@given(st.integers(2, 6), st.integers(0, 10_000), st.floats(-50, 50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_constants_and_flips_of_flips(n_sites, seed, constant):
    energy = random_ising(n_sites, seed)
    x = enumerate_states(n_sites)

    def shifted(z):
        return energy(z) + constant

    ratios = neighbor_log_ratios(energy, x)
    assert torch.allclose(neighbor_log_ratios(shifted, x), ratios, atol=1e-11)
    assert torch.allclose(taylor_log_ratios(shifted, x), ratios, atol=1e-11)
    # Flipping back undoes the ratio.
    for site in range(n_sites):
        y = x.clone()
        y[:, site] = 1 - y[:, site]
        back = neighbor_log_ratios(energy, y)[:, site]
        assert torch.allclose(back, -ratios[:, site], atol=1e-11)
