"""Exact transition matrix of every kernel: reversible, stationary, as sampled.

The matrices are built from the samplers' own proposal and acceptance
functions; then one step from every state is counted against its row, which
ties the sampling code to the matrix that was tested.
"""

from typing import NamedTuple

import pytest
import torch

from ebmtut import samplers
from ebmtut.exact import exact_probabilities
from ebmtut.neighbors import neighbor_log_ratios, taylor_log_ratios
from ebmtut.random import make_generator
from ebmtut.samplers.discrete_langevin import (
    langevin_flip_logits,
    langevin_log_proposal,
)
from ebmtut.samplers.gibbs import flip_sites
from ebmtut.samplers.informed import balancing_function, gwg_log_proposal
from ebmtut.states import enumerate_states, states_to_index
from tests.samplers.systems import cubic_energy, distribution_p, path_ising
from tests.transition_matrix import kernel_matrix

RATIOS = {"taylor": taylor_log_ratios, "exact": neighbor_log_ratios}
STEP_SIZE = 0.6


class Kernel(NamedTuple):
    """A sampler, the reversible factors of a step, and how to aim at one."""

    sampler: object
    factors: list
    aim: object = lambda state, _: state


def single_flip_matrix(flip_probability, n_sites):
    """Matrix of a kernel that moves x to flip_i x with probability f(x)_i."""

    def rows(x):
        probability = flip_probability(x)
        out = x.new_zeros(len(x), 2**n_sites)
        for i in range(n_sites):
            target = states_to_index(flip_sites(x, torch.full((len(x),), i)))
            out[torch.arange(len(x)), target] = probability[:, i]
        stay = (1 - out.sum(1)).clamp(min=0)  # rounding may leave -1e-17
        out[torch.arange(len(x)), states_to_index(x)] = stay
        return out

    return kernel_matrix(rows, n_sites)


def site_matrix(energy, n_sites, site):
    only = torch.eye(n_sites, dtype=torch.float64)[site]
    return single_flip_matrix(
        lambda x: torch.sigmoid(neighbor_log_ratios(energy, x)) * only, n_sites
    )


def random_gibbs_kernel(energy, n_sites):
    matrix = sum(site_matrix(energy, n_sites, i) for i in range(n_sites)) / n_sites
    return Kernel(samplers.gibbs(energy), [matrix])


def systematic_gibbs_kernel(energy, n_sites):
    return Kernel(
        samplers.gibbs(energy, "systematic"),
        [site_matrix(energy, n_sites, i) for i in range(n_sites)],
        lambda state, i: state._replace(site=i),
    )


def gwg_kernel(energy, n_sites, balancing, ratios):
    def flip_probability(x):
        forward = samplers.gwg_log_proposal(RATIOS[ratios](energy, x), balancing)
        columns = []
        for i in range(n_sites):
            y = flip_sites(x, torch.full((len(x),), i))
            backward = samplers.gwg_log_proposal(RATIOS[ratios](energy, y), balancing)
            accept = samplers.metropolis_log_acceptance(
                energy(x) - energy(y), forward[:, i], backward[:, i]
            )
            columns.append((forward[:, i] + accept).exp())
        return torch.stack(columns, 1)

    matrix = single_flip_matrix(flip_probability, n_sites)
    return Kernel(samplers.gwg(energy, balancing, ratios), [matrix])


def langevin_log_matrix(energy, n_sites, step_size, ratios):
    x = enumerate_states(n_sites)
    logits = langevin_flip_logits(RATIOS[ratios](energy, x), step_size)
    return langevin_log_proposal(x[:, None], x[None, :], logits[:, None])


def dula_matrix(energy, n_sites, step_size, ratios="taylor"):
    log_q = langevin_log_matrix(energy, n_sites, step_size, ratios)
    return kernel_matrix(lambda _: log_q.exp(), n_sites)


def dula_kernel(energy, n_sites):
    return Kernel(
        samplers.dula(energy, STEP_SIZE), [dula_matrix(energy, n_sites, STEP_SIZE)]
    )


def dmala_kernel(energy, n_sites, ratios):
    log_q = langevin_log_matrix(energy, n_sites, STEP_SIZE, ratios)
    value = energy(enumerate_states(n_sites))
    accept = samplers.metropolis_log_acceptance(value[:, None] - value, log_q, log_q.T)
    matrix = (log_q + accept).exp()
    matrix = matrix + torch.diag((1 - matrix.sum(1)).clamp(min=0))
    return Kernel(
        samplers.dmala(energy, STEP_SIZE, ratios),
        [kernel_matrix(lambda _: matrix, n_sites)],
    )


KERNELS = {
    "gibbs-random": random_gibbs_kernel,
    "gibbs-systematic": systematic_gibbs_kernel,
    "gwg-sqrt-taylor": lambda e, n: gwg_kernel(e, n, "sqrt", "taylor"),
    "gwg-barker-taylor": lambda e, n: gwg_kernel(e, n, "barker", "taylor"),
    "gwg-min-exact": lambda e, n: gwg_kernel(e, n, "min", "exact"),
    "gwg-max-exact": lambda e, n: gwg_kernel(e, n, "max", "exact"),
    "dmala-taylor": lambda e, n: dmala_kernel(e, n, "taylor"),
    "dmala-exact": lambda e, n: dmala_kernel(e, n, "exact"),
}


@pytest.mark.parametrize("n_sites", [3, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_detailed_balance(name, n_sites):
    energy = cubic_energy(n_sites)
    p = exact_probabilities(energy, n_sites).exp()
    for matrix in KERNELS[name](energy, n_sites).factors:
        flow = p[:, None] * matrix
        torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-15)
        assert not torch.allclose(matrix, matrix.T, atol=1e-3)


@pytest.mark.parametrize("n_sites", [3, 4])
def test_detailed_balance_of_color_classes(n_sites):
    energy = path_ising(n_sites)
    p = exact_probabilities(energy, n_sites).exp()
    for matrix in color_factors(energy, n_sites):
        flow = p[:, None] * matrix
        torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-15)


@pytest.mark.parametrize("n_sites", [3, 4])
def test_one_step_follows_its_matrix(n_sites):
    energy = cubic_energy(n_sites)
    generator = make_generator(3)
    for build in (*KERNELS.values(), dula_kernel):
        kernel = build(energy, n_sites)
        for which, matrix in enumerate(kernel.factors):
            for start, row in zip(enumerate_states(n_sites), matrix, strict=True):
                state = kernel.sampler.init(start.repeat(4000, 1))
                state = kernel.aim(state, which)
                new, info = kernel.sampler.step(state, generator=generator)
                # About 500 rows are tested in all.
                assert distribution_p(new.x, row) > 1e-6
                assert torch.equal(info.n_changed, (new.x != start).double().sum(1))


def color_factors(energy, n_sites):
    sites = [site_matrix(energy, n_sites, i) for i in range(n_sites)]
    even, odd = sites[0::2], sites[1::2]
    return [
        torch.linalg.multi_dot([*part, torch.eye(2**n_sites).double()])
        for part in (even, odd)
    ]


@pytest.mark.parametrize("n_sites", [3, 4])
def test_one_color_sweep_follows_its_matrix(n_sites):
    energy = path_ising(n_sites)
    even, odd = color_factors(energy, n_sites)
    sampler = samplers.color_gibbs(energy, torch.arange(n_sites) % 2)
    for start, row in zip(enumerate_states(n_sites), even @ odd, strict=True):
        new, _ = sampler.step(
            sampler.init(start.repeat(10_000, 1)), generator=make_generator(4)
        )
        assert distribution_p(new.x, row) > 1e-5


def stationary_distribution(matrix):
    """Solve p P = p and sum p = 1."""
    n = len(matrix)
    balance = torch.cat([matrix.T - torch.eye(n).double(), torch.ones(1, n).double()])
    target = torch.zeros(n + 1, 1, dtype=torch.float64)
    target[-1] = 1
    return torch.linalg.lstsq(balance, target, driver="gelsd").solution[:, 0]


def test_dula_formula():
    """Zhang et al. (2022), their softmax over the two values of each bit."""
    energy = cubic_energy(3)
    x = enumerate_states(3).requires_grad_()
    (gradient,) = torch.autograd.grad(-energy(x).sum(), x)
    x = x.detach()
    expected = torch.ones(8, 8, dtype=torch.float64)
    for i in range(3):
        move = torch.arange(2).double() - x[:, i, None]
        q = torch.softmax(
            gradient[:, i, None] * move / 2 - move**2 / (2 * STEP_SIZE), -1
        )
        expected *= q[:, x[:, i].long()]
    torch.testing.assert_close(dula_matrix(energy, 3, STEP_SIZE), expected)


def test_dula_bias_vanishes_with_the_step_size():
    """To first order the bias is in proportion to the odds exp(-1/(2 alpha))."""
    energy = path_ising(4)
    p = exact_probabilities(energy, 4).exp()
    bias = {
        alpha: (stationary_distribution(dula_matrix(energy, 4, alpha)) - p).abs().sum()
        / 2
        for alpha in (0.5, 0.1, 0.05, 0.04)
    }
    assert bias[0.5] > 0.01
    ratio = torch.exp(torch.tensor(1 / 0.08 - 1 / 0.1, dtype=torch.float64))
    assert bias[0.05] / bias[0.04] == pytest.approx(float(ratio), rel=1e-2)
    assert bias[0.04] < 1e-4


def test_dula_with_taylor_ratios_stays_biased_on_cubic_energies():
    """Slopes at both ends of a flip give its ratio up to quadratic terms only."""
    energy = cubic_energy(3)
    p = exact_probabilities(energy, 3).exp()

    def bias(ratios):
        distribution = stationary_distribution(dula_matrix(energy, 3, 0.04, ratios))
        return (distribution - p).abs().sum() / 2

    assert bias("exact") < 1e-4 < 0.01 < bias("taylor")


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
