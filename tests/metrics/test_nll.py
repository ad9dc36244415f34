"""Log-likelihoods, partition functions and a proposal by histograms, by enumeration."""

import math

import pytest
import torch

from ebmtut import metrics
from ebmtut.energies import EnergyFunction, Ising
from ebmtut.exact import exact_log_partition, exact_probabilities
from ebmtut.metrics import Estimate, bits_per_dimension
from ebmtut.random import categorical, make_generator
from ebmtut.states import enumerate_states, states_to_index


@pytest.fixture
def energy() -> Ising:
    generator = make_generator(3)
    coupling = 0.2 * torch.randn(8, 8, generator=generator, dtype=torch.float64)
    bias = 0.5 * torch.randn(8, generator=generator, dtype=torch.float64)
    return Ising(coupling, bias)


def draws(energy: Ising, n: int) -> torch.Tensor:
    log_p = exact_probabilities(energy, 8).expand(n, -1)
    return enumerate_states(8)[categorical(log_p, generator=make_generator(0))]


def test_uniform_and_fitted_proposals_find_log_z(energy: Ising) -> None:
    exact = float(exact_log_partition(energy, 8))
    kwargs = {"n_samples": 20_000, "dtype": torch.float64, "batch": 3000}
    uniform = metrics.log_partition_uniform(
        energy, 8, generator=make_generator(1), **kwargs
    )
    proposal = metrics.BernoulliProposal.fit(draws(energy, 4000))
    fitted = metrics.log_partition_importance(
        energy, proposal, generator=make_generator(1), **kwargs
    )
    for estimate in (uniform, fitted):
        assert abs(estimate.value - exact) <= 5 * estimate.stderr
    assert fitted.stderr < 0.8 * uniform.stderr


def test_standard_error_covers(energy: Ising) -> None:
    exact = float(exact_log_partition(energy, 8))
    scores = []
    for seed in range(200):
        estimate = metrics.log_partition_uniform(
            energy, 8, 2000, generator=make_generator(seed), dtype=torch.float64
        )
        scores.append((estimate.value - exact) / estimate.stderr)
    z = torch.tensor(scores)
    # The bias of a log is half a variance, in units of the error: stderr / 2.
    assert abs(float(z.mean())) <= 5 / math.sqrt(200) + 0.05
    # The variance of 200 squared normals is 2 / 200; heavy tails double it.
    assert abs(float(z.var()) - 1) <= 5 * math.sqrt(4 / 200)


def test_exact_proposal_gives_equal_weights() -> None:
    logits = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    proposal = metrics.BernoulliProposal(logits.sigmoid())
    how = {"generator": make_generator(0), "dtype": torch.float64}
    w = metrics.log_weights(lambda x: -(x @ logits), proposal, 50, **how)
    exact = torch.nn.functional.softplus(logits).sum()
    torch.testing.assert_close(w, exact.expand(50))
    assert metrics.effective_sample_size(w) == pytest.approx(1.0)
    assert metrics.estimate_log_mean_exp(w).stderr == pytest.approx(0.0, abs=1e-12)


def test_bernoulli_proposal_is_normalised_and_sampled_as_stated() -> None:
    proposal = metrics.BernoulliProposal(torch.tensor([0.1, 0.5, 0.8]))
    log_q = proposal.log_prob(enumerate_states(3))
    assert float(log_q.logsumexp(0)) == pytest.approx(0.0, abs=1e-12)
    z = proposal.sample(40_000, generator=make_generator(0))
    for mean, p in zip(z.mean(dim=0).tolist(), [0.1, 0.5, 0.8], strict=True):
        assert abs(mean - p) <= 5 * math.sqrt(p * (1 - p) / 40_000)
    # One pseudo-count a side: never 0 or 1.
    assert metrics.BernoulliProposal.fit(torch.ones(8, 2)).probs.tolist() == [0.9, 0.9]


def test_log_mean_exp_of_large_numbers() -> None:
    weights = torch.tensor([1000.0, 1000.0 + math.log(3.0)], dtype=torch.float64)
    estimate = metrics.estimate_log_mean_exp(weights)
    assert estimate.value == pytest.approx(1000 + math.log(2))
    # Weights 1 and 3: mean 2, standard deviation sqrt 2.
    assert estimate.stderr == pytest.approx(math.sqrt(2) / 2 / math.sqrt(2))


def test_nll_of_the_model_is_its_entropy(energy: Ising) -> None:
    log_p = exact_probabilities(energy, 8)
    entropy = float(-(log_p.exp() * log_p).sum())
    exact = float(exact_log_partition(energy, 8))
    found = metrics.nll(energy, draws(energy, 20_000), exact, batch=999)
    assert abs(found.value - entropy) <= 5 * found.stderr
    spread = float((log_p.exp() * (log_p + entropy) ** 2).sum()) ** 0.5
    assert found.stderr == pytest.approx(spread / math.sqrt(20_000), rel=0.1)


def test_errors_of_data_and_partition_add_in_squares(energy: Ising) -> None:
    x = draws(energy, 100)
    alone = metrics.nll(energy, x, 2.0)
    both = metrics.nll(energy, x, metrics.Estimate(2.0, 0.3))
    assert both.value == alone.value
    assert both.stderr == pytest.approx(math.hypot(alone.stderr, 0.3))
    assert str(metrics.Estimate(1.0, 0.25)) == "1.0000 ± 0.2500"


def test_bits_of_a_gaussian_are_its_entropy():
    n, n_dims, width = 20_000, 5, 0.3
    x = width * torch.randn(n, n_dims, generator=make_generator(0)).double()
    energies = (x**2).sum(1) / (2 * width**2)
    log_z = n_dims * math.log(width * math.sqrt(2 * math.pi))
    found = bits_per_dimension(energies, n_dims, Estimate(log_z, 0.0))
    entropy = math.log2(width * math.sqrt(2 * math.pi * math.e))
    # An energy has the variance of half a chi-square: half its degrees of freedom.
    stderr = math.sqrt(n_dims / 2 / n) / n_dims / math.log(2)
    assert found.value == pytest.approx(entropy, abs=5 * stderr)
    # A sample's standard deviation has a relative error of about 1 / root n.
    assert found.stderr == pytest.approx(stderr, rel=0.05)
    per_dimension = bits_per_dimension(energies + log_z, n_dims)
    assert per_dimension.value == pytest.approx(found.value, rel=1e-12)


def test_errors_of_the_mean_and_of_log_z_add_in_squares():
    energies = torch.tensor([1.0, 3.0])  # a mean of 2, with a standard error of 1
    found = bits_per_dimension(energies, 2, Estimate(0.5, 0.75))
    bits = 2 * math.log(2)
    assert found.value == pytest.approx(2.5 / bits)
    assert found.stderr == pytest.approx(1.25 / bits)
    assert bits_per_dimension(energies[:1], 2).stderr == 0


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
