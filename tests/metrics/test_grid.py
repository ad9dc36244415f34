"""The 2-D histogram proposal against enumeration at 5 bits a coordinate."""

import math

import pytest
import torch

from ebmtut import metrics
from ebmtut.energies import EnergyFunction
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index

N_SITES = 10
STATES = enumerate_states(N_SITES)
DOUBLE = {"dtype": torch.float64}


@pytest.fixture(scope="module")
def table() -> torch.Tensor:
    """Energies of the 2**10 states: smooth in the leading bits, rough in the rest."""
    generator = make_generator(0)
    weights = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.3] * 2, dtype=torch.float64)
    noise = torch.randn(2**N_SITES, generator=generator, dtype=torch.float64)
    return STATES @ weights - 3.0 * STATES[:, 0] * STATES[:, 6] + 0.3 * noise


def energy_of(table: torch.Tensor) -> EnergyFunction:
    return lambda x: table[states_to_index(x)]


def grid_estimate(
    table: torch.Tensor, coarse_bits: int, n: int
) -> metrics.GridPartition:
    sizes = {"bits_per_coordinate": 5, "coarse_bits": coarse_bits, "n_samples": n}
    rng = make_generator(1)
    return metrics.grid_log_partition(
        energy_of(table), generator=rng, **sizes, **DOUBLE
    )


@pytest.mark.parametrize("coarse_bits", [1, 3, 5])
def test_finds_log_z(table: torch.Tensor, coarse_bits: int) -> None:
    exact = float((-table).logsumexp(0))
    found = grid_estimate(table, coarse_bits, 20_000)
    assert isinstance(found.log_partition, metrics.Estimate)
    assert abs(found.log_partition.value - exact) <= 5 * found.log_partition.stderr
    assert found.proposal.n_sites == N_SITES
    assert 0 < found.ess <= 1


def test_fit_is_exact_at_full_resolution(table: torch.Tensor) -> None:
    how = {"bits_per_coordinate": 5, "coarse_bits": 5, "uniform": 0.2} | DOUBLE
    rng = make_generator(0)
    proposal = metrics.HistogramProposal.fit(energy_of(table), generator=rng, **how)
    expected = 0.8 * (-table).softmax(0) + 0.2 / 2**N_SITES
    torch.testing.assert_close(proposal.log_prob(STATES).exp(), expected)


@pytest.mark.parametrize("coarse_bits", [1, 3, 5])
def test_proposal_is_normalised_and_sampled_as_stated(coarse_bits: int) -> None:
    side = 2**coarse_bits
    masses = torch.rand(side, side, generator=make_generator(3)) ** 3
    proposal = metrics.HistogramProposal(masses, bits_per_coordinate=5)
    q = proposal.log_prob(STATES).exp()
    assert float(q.sum()) == pytest.approx(1.0, abs=1e-6)
    z = proposal.sample(50_000, generator=make_generator(4))
    assert_follows(z, q)


def test_rejection_draws_the_models_distribution(table: torch.Tensor) -> None:
    what = energy_of(table), grid_estimate(table, 3, 1000).proposal, 50_000
    x = metrics.sample_by_proposal(*what, generator=make_generator(5), **DOUBLE)
    assert x.shape == (50_000, N_SITES)
    assert_follows(x, (-table).softmax(0))


def test_rejection_thins_when_the_bound_rises() -> None:
    """A rare state carries the highest weight and is met late."""
    table = torch.zeros(2**N_SITES, dtype=torch.float64)
    table[123] = -math.log(50.0)
    proposal = metrics.BernoulliProposal.uniform(N_SITES)
    how = {"generator": make_generator(0), "batch": 256, "min_draws": 256} | DOUBLE
    x = metrics.sample_by_proposal(energy_of(table), proposal, 2000, **how)
    p = 50.0 / (50.0 + 1023.0)
    found = float((states_to_index(x) == 123).double().mean())
    assert abs(found - p) <= 5 * math.sqrt(p * (1 - p) / 2000)


def assert_follows(x: torch.Tensor, p: torch.Tensor) -> None:
    """Chi-square of state frequencies, rare states pooled."""
    counts = torch.bincount(states_to_index(x), minlength=len(p)).double()
    expected = p.double() * len(x)
    often = expected >= 5
    observed = torch.cat([counts[often], counts[~often].sum()[None]])
    wanted = torch.cat([expected[often], expected[~often].sum()[None] + 1e-9])
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1]
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    freedom = len(wanted) - 1
    # Wilson and Hilferty: the cube root is nearly normal; four deviations.
    spread = 2 / (9 * freedom)
    assert (statistic / freedom) ** (1 / 3) < 1 - spread + 4 * math.sqrt(spread)
