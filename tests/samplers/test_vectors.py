"""Langevin, MALA and HMC on real vectors, against Gaussians in closed form."""

import math

import pytest
import torch

from ebmtut.energies import conditional_energy
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from ebmtut.samplers import adapt_step_size, hmc, langevin, mala, run_chain

SAMPLERS = {"langevin": langevin, "mala": mala, "hmc": hmc}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)

# A level of variance (0.25, 4), and its conditional given the state above:
# precision 1 / v + a^2 / sigma^2 and mean a above / sigma^2 over it.
VARIANCE = torch.tensor([0.25, 4.0], dtype=torch.float64)
SIGMA = 0.6
ABOVE = torch.tensor([0.8, -1.1], dtype=torch.float64)
PRECISION = 1 / VARIANCE + (1 - SIGMA**2) / SIGMA**2
MEAN = math.sqrt(1 - SIGMA**2) * ABOVE / SIGMA**2 / PRECISION


def gaussian(x, level=None):
    return (x**2 / (2 * VARIANCE.to(x))).sum(1)


def conditional(n):
    level = torch.zeros(n, dtype=torch.long)
    return conditional_energy(
        gaussian, NoiseLevels((SIGMA,)), ABOVE.expand(n, 2), level
    )


def test_the_conditional_energy_is_bayes_rule():
    """Up to a constant, minus log of prior times likelihood (Equation 5)."""
    x = torch.randn(7, 2, dtype=torch.float64, generator=make_generator(0))
    posterior = torch.distributions.Normal(MEAN, PRECISION**-0.5)
    total = conditional(7)(x) + posterior.log_prob(x).sum(1)
    assert total == pytest.approx(total[0].expand(7), abs=1e-12)


def test_a_last_sigma_of_one_leaves_the_marginal():
    x = torch.randn(5, 2, dtype=torch.float64, generator=make_generator(0))
    above = torch.full((5, 2), 3.0, dtype=torch.float64)
    level = torch.zeros(5, dtype=torch.long)
    energy = conditional_energy(gaussian, NoiseLevels((1.0,)), above, level)
    assert energy(x) - gaussian(x) == pytest.approx(torch.full((5,), 9.0).double())


@pytest.mark.parametrize(
    ("make", "n_steps"),
    [(lambda e: mala(e, 0.6), 60), (lambda e: hmc(e, 0.25, 3), 40)],
    ids=["mala", "hmc"],
)
def test_adjusted_chains_reach_the_exact_conditional(make, n_steps):
    n = 40_000
    start = torch.zeros(n, 2, dtype=torch.float64)
    x = run_chain(
        make(conditional(n)), start, n_steps, generator=make_generator(1)
    ).x_final
    error = 5 / math.sqrt(n)
    assert ((x.mean(0) - MEAN) * PRECISION.sqrt()).abs().max() < error
    assert (x.var(0) * PRECISION - 1).abs().max() < error * math.sqrt(2)


def test_langevin_is_biased_as_predicted():
    """Its distribution is Gaussian too, of variance 1 / (p (1 - p delta^2 / 4))."""
    n, delta = 40_000, 0.5
    start = torch.zeros(n, 2, dtype=torch.float64)
    x = run_chain(
        langevin(conditional(n), delta), start, 80, generator=make_generator(2)
    ).x_final
    predicted = 1 / (PRECISION * (1 - PRECISION * delta**2 / 4))
    error = 5 / math.sqrt(n)
    assert ((x.mean(0) - MEAN) / predicted.sqrt()).abs().max() < error
    assert (x.var(0) / predicted - 1).abs().max() < error * math.sqrt(2)
    # The bias is no noise: the exact variance is far outside.
    assert (predicted * PRECISION - 1).max() > 3 * error * math.sqrt(2)


def test_one_leapfrog_step_is_mala():
    generator = make_generator(4)
    x = torch.randn(50, 2, dtype=torch.float64, generator=generator)
    energy = conditional(50)
    runs = [
        run_chain(make(energy), x, 20, generator=make_generator(5))
        for make in (lambda e: mala(e, 0.7), lambda e: hmc(e, 0.7, 1))
    ]
    assert runs[0].x_final == pytest.approx(runs[1].x_final, abs=1e-9)
    assert runs[0].info == pytest.approx(runs[1].info)


def test_adapted_steps_are_accepted_as_asked():
    n = 1000
    found = adapt_step_size(
        lambda s: hmc(conditional(n), s),
        torch.zeros(n, 2, dtype=torch.float64),
        1e-3,
        generator=make_generator(0),
    )
    assert 0.6 <= found.acceptance <= 0.9
    again = run_chain(
        hmc(conditional(n), found.step_size), found.x, 20, generator=make_generator(1)
    )
    assert 0.55 <= again.info["acceptance"] <= 0.95


@every_sampler
def test_no_graph_is_kept(make):
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    sampler = make(lambda x: (weight * x**2).sum(1), 0.4)
    state = sampler.init(torch.ones(3, 2, dtype=torch.float64))
    state, info = sampler.step(state, generator=make_generator(0))
    assert not any(part.requires_grad for part in (*state, *info))
    assert weight.grad is None


@pytest.mark.parametrize("make", [mala, hmc])
def test_a_wall_of_nan_is_not_entered(make):
    def walled(x):
        return torch.where(x[:, 0] > 0.5, torch.nan, 0.0) + gaussian(x)

    x = torch.zeros(200, 2, dtype=torch.float64)
    result = run_chain(make(walled, 0.8), x, 30, generator=make_generator(0))
    assert (result.x_final[:, 0] <= 0.5).all()
    assert 0 < result.info["acceptance"] < 1
