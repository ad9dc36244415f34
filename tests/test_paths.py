"""Annealing paths: distributions, derivatives, ratios; times outside are refused."""

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import LatticeIsing, MLPEnergy
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.paths import AnnealingPath, BasePath
from ebmtut.random import make_generator
from ebmtut.samplers import dmala, run_chain
from ebmtut.states import enumerate_states
from tests.flows.systems import random_energy

PATH = AnnealingPath(LatticeIsing(3, 0.2))


def test_derivative_is_that_of_the_log_density():
    x = enumerate_states(9)[::7]
    step = 1e-4
    rise = PATH.log_density(x, 0.5 + step) - PATH.log_density(x, 0.5 - step)
    torch.testing.assert_close(rise / (2 * step), PATH.time_derivative(x))


def test_the_path_starts_uniform_and_ends_at_the_target():
    x = enumerate_states(9)
    found = float(PATH.log_density(x, 0.0).logsumexp(0))
    assert found == pytest.approx(PATH.log_partition_start)
    torch.testing.assert_close(PATH.log_density(x, 1.0), -PATH.target(x))


@pytest.mark.parametrize("n_states", [2, 3])
def test_ratios_are_differences_of_the_log_density(n_states):
    path = AnnealingPath(random_energy(3, n_states), n_states=n_states)
    x = enumerate_states(3, n_states)
    t = torch.linspace(0, 1, len(x), dtype=torch.float64)
    got = path.log_ratios(x, t)
    for row in range(len(x)):
        energy = path.at(float(t[row]))
        want = neighbor_log_ratios(energy, x[row : row + 1], n_states=n_states)
        torch.testing.assert_close(got[row : row + 1], want)


def test_taylor_ratios_are_exact_for_a_quadratic_energy_alone():
    x = torch.randint(2, (5, 9)).double()
    taylor = AnnealingPath(LatticeIsing(3, 0.2), ratios="taylor")
    torch.testing.assert_close(taylor.log_ratios(x, 0.5), PATH.log_ratios(x, 0.5))
    deep = MLPEnergy(9, 8, 2).double()
    apart = AnnealingPath(deep, ratios="taylor").log_ratios(x, 1.0)
    apart = apart - AnnealingPath(deep).log_ratios(x, 1.0)
    assert float(apart.abs().max()) > 1e-4


def test_samplers_take_the_energy_of_a_time():
    """At t = 0 p_t is uniform: a Langevin step of any size is accepted."""
    x = torch.randint(2, (50, 9)).double()
    found = run_chain(dmala(PATH.at(0.0), 0.3), x, 3, generator=make_generator(0))
    assert found.info["acceptance"] == pytest.approx(1)
    assert hasattr(PATH.at(0.5), "flip_log_ratios")
    assert not hasattr(AnnealingPath(random_energy(3)).at(0.5), "flip_log_ratios")


@pytest.mark.parametrize("t", [-0.1, 1.1, float("nan"), torch.tensor([0.2, 1.5])])
def test_a_time_outside_is_refused(t):
    x = torch.ones(2, 9)
    for call in (PATH.log_density, PATH.log_ratios):
        with pytest.raises(InputError, match=r"^t must"):
            call(x, t)


def test_a_path_from_a_base_starts_there_and_ends_at_the_target():
    logits = torch.linspace(-2, 1, 6, dtype=torch.float64)
    path = BasePath(MLPEnergy(6, hidden=4).double(), logits)
    x = enumerate_states(6)
    start = -path.at(0.0)(x)
    assert float(start.logsumexp(0)) == pytest.approx(path.log_partition_start)
    # Its mean is that of independent bits.
    mean = start.softmax(0) @ x
    torch.testing.assert_close(mean, logits.sigmoid())
    torch.testing.assert_close(path.at(1.0)(x), path.target(x))
    step = 1e-4
    rise = path.at(0.5 - step)(x) - path.at(0.5 + step)(x)
    torch.testing.assert_close(rise / (2 * step), path.time_derivative(x))
    drawn = path.sample_start(20_000, generator=make_generator(0)).mean(0)
    # Five standard errors of a mean of so many bits.
    assert float((drawn - logits.sigmoid()).abs().max()) < 5 * 0.5 / 20_000**0.5
    with pytest.raises(InputError, match="base_logits"):
        BasePath(path.target, logits * float("inf"))
