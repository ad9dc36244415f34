"""Partition functions by annealing, and the dtype that is nobody's business."""

import pytest
import torch

from ebmtut import metrics
from ebmtut.energies import BoltzmannMachine, Ising, MLPEnergy, dtype_of_states
from ebmtut.exact import exact_log_partition, exact_mean, exact_probabilities
from ebmtut.random import make_generator
from tests.shared import normal


def network():
    return MLPEnergy(6, 16, 2, generator=make_generator(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BoltzmannMachine(normal(6, 6), normal(6)),
        lambda: Ising(0.3 * normal(6, 6, dtype=torch.float32)),
        network,
    ],
)
def test_log_z_within_five_standard_errors(make):
    energy = make()
    exact = float(exact_log_partition(energy, 6))
    found = metrics.log_partition_annealed(
        energy, 2000, 20, generator=make_generator(0)
    )
    assert 0 < found.stderr < 0.05
    assert abs(found.value - exact) < 5 * found.stderr
    assert found == metrics.log_partition_annealed(
        energy, 2000, 20, generator=make_generator(0)
    )


def test_one_default_dtype_for_all():
    energies = (network(), network().double(), Ising(normal(6, 6).float()))
    wanted = (torch.float32, torch.float64, torch.float64)
    for energy, dtype in zip(energies, wanted, strict=True):
        assert dtype_of_states(energy) == dtype
        g = make_generator(0)
        coins = metrics.BernoulliProposal.uniform(6)
        exact = float(exact_log_partition(energy, 6))
        assert exact_probabilities(energy, 6).dtype == torch.float64
        assert exact_mean(energy, lambda x: x).shape == (6,)
        for found in (
            metrics.log_partition_uniform(energy, 6, 5000, generator=g),
            metrics.log_partition_importance(energy, coins, 5000, generator=g),
        ):
            assert abs(found.value - exact) < 5 * found.stderr
        weights = metrics.log_weights(energy, coins, 10, generator=make_generator(0))
        given = metrics.log_weights(
            energy, coins, 10, generator=make_generator(0), dtype=dtype
        )
        assert torch.equal(weights, given)
    net = torch.nn.Linear(6, 1)
    assert dtype_of_states(net) == torch.float32
    assert dtype_of_states(lambda x: x.sum(1)) == torch.float64
    assert dtype_of_states(torch.nn.Identity()) == torch.float64


def test_two_estimates_and_the_truth_beside_them():
    energy = BoltzmannMachine(normal(6, 6), normal(6))
    coins = metrics.BernoulliProposal.uniform(6)
    found = metrics.log_partitions(energy, coins, generator=make_generator(0))
    assert found.exact == pytest.approx(float(exact_log_partition(energy, 6)))
    assert found.best == (found.exact, 0.0)
    for estimate in (found.importance, found.annealed):
        assert abs(estimate.value - found.exact) < 5 * estimate.stderr
    assert 0 < found.share < 1
    many = metrics.log_partitions(
        lambda x: x.sum(1),
        metrics.BernoulliProposal.uniform(21),
        n_draws=10,
        n_chains=50,
        n_steps=5,
        generator=make_generator(0),
    )
    assert many.exact is None and many.best == many.annealed
