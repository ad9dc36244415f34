"""The MMD against brute force; errors of couplings and of covariances of pairs."""

import math

import pytest
import torch

from ebmtut import metrics
from ebmtut.metrics import (
    hamming_distances,
    mmd,
    mmd_of_fresh_sample,
    negative_log_rmse,
    rmse,
)
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import enumerate_states


def bits(n: int, n_sites: int, seed: int, p: float = 0.5) -> torch.Tensor:
    probs = torch.full((n, n_sites), p, dtype=torch.float64)
    return bernoulli(probs, generator=make_generator(seed))


def brute_force(x: torch.Tensor, y: torch.Tensor, rate: float, statistic: str) -> float:
    x, y = x.tolist(), y.tolist()

    def k(a: list[float], b: list[float]) -> float:
        return math.exp(-rate * sum(i != j for i, j in zip(a, b, strict=True)))

    def within(z: list[list[float]]) -> float:
        own = statistic == "v"
        pairs = [
            k(a, b) for i, a in enumerate(z) for j, b in enumerate(z) if own or i != j
        ]
        return sum(pairs) / len(pairs)

    between = sum(k(a, b) for a in x for b in y) / (len(x) * len(y))
    return within(x) + within(y) - 2 * between


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize(
    ("kernel", "rate"), [("exponential_hamming", 0.3), ("average_hamming", 1 / 6)]
)
def test_is_the_sum_over_pairs(kernel: str, rate: float, statistic: str) -> None:
    x, y = bits(7, 6, 0), bits(5, 6, 1, p=0.8)
    found = mmd(x, y, kernel, bandwidth=0.3, statistic=statistic)
    expected = brute_force(x, y, rate, statistic)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_do_not_matter(dtype: torch.dtype) -> None:
    x, y = bits(50, 9, 0).to(dtype), bits(33, 9, 1).to(dtype)
    whole = mmd(x, y)
    assert mmd(x, y, block=8) == pytest.approx(whole, abs=1e-7)
    assert whole == pytest.approx(brute_force(x, y, 0.1, "u"), abs=1e-7)


def test_distances_count_differing_sites() -> None:
    x = enumerate_states(4)
    distance = hamming_distances(x, x)
    for i in range(16):
        for j in range(16):
            assert int(distance[i, j]) == (i ^ j).bit_count()


def test_u_is_unbiased_and_v_biased_by_the_diagonal() -> None:
    """Samples of one distribution: E[U] = 0, E[V] = (1 - mean kernel) (1/n + 1/m)."""
    n, m, n_sites, rate = 20, 30, 8, 0.1
    # Independent fair bits: E exp(-rate H) = ((1 + exp(-rate)) / 2)**n_sites.
    mean_kernel = ((1 + math.exp(-rate)) / 2) ** n_sites
    us, vs = [], []
    for seed in range(400):
        x, y = bits(n, n_sites, 2 * seed), bits(m, n_sites, 2 * seed + 1)
        us.append(mmd(x, y, bandwidth=rate))
        vs.append(mmd(x, y, bandwidth=rate, statistic="v"))
    u, v = torch.tensor(us), torch.tensor(vs)
    root = math.sqrt(len(us))
    bias = (1 - mean_kernel) * (1 / n + 1 / m)
    assert abs(float(u.mean())) <= 5 * float(u.std()) / root
    assert abs(float(v.mean()) - bias) <= 5 * float(v.std()) / root
    assert float(v.min()) >= 0
    assert float(u.min()) < 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_counts_as_exactly(dtype: torch.dtype) -> None:
    x, y = bits(20, 5000, 0), bits(20, 5000, 1)
    exact = (x[:, None] != y).sum(-1)
    assert torch.equal(hamming_distances(x.to(dtype), y.to(dtype)).long(), exact)
    assert mmd(x[:, :9].to(dtype), y[:, :9].to(dtype)) == mmd(
        x[:, :9].float(), y[:, :9].float()
    )


@pytest.mark.parametrize("kernel", ["average_hamming", "exponential_hamming"])
def test_a_fresh_sample_scores_what_is_expected(kernel: str) -> None:
    n, m = 40, 60
    pairs = [(bits(n, 12, s, p=0.3), bits(m, 12, 100 + s, p=0.3)) for s in range(99)]
    expected = torch.tensor([mmd_of_fresh_sample(y, n, kernel) for _, y in pairs])
    error = torch.tensor([mmd(x, y, kernel, statistic="v") for x, y in pairs])
    error -= expected
    stderr = float(error.std()) / math.sqrt(len(error))
    assert abs(float(error.mean())) <= 4 * stderr
    assert stderr < 0.05 * float(expected.mean())


def correlated(n: int, seed: int = 0) -> torch.Tensor:
    """Bits in pairs that agree three times in four."""
    g = make_generator(seed)
    one = torch.rand(n, 4, generator=g) < 0.3
    flip = torch.rand(n, 4, generator=g) < 0.25
    return torch.cat([one, one ^ flip], dim=1).float()


def test_covariances_one_by_one() -> None:
    x = correlated(50)
    found = metrics.pair_covariances(x)
    for i in range(8):
        for j in range(8):
            a, b = x[:, i].double(), x[:, j].double()
            truth = (a * b).mean() - a.mean() * b.mean() if i != j else 0.0
            assert found[i, j].item() == pytest.approx(float(truth), abs=1e-12)


def test_zero_for_the_data_and_one_for_independent_sites() -> None:
    x = correlated(1000)
    truth = metrics.pair_covariances(x)
    assert metrics.covariance_error(x, truth) == 0.0
    # All states once: no pair has a covariance, whatever the means of the data.
    assert metrics.covariance_error(enumerate_states(8), truth) == pytest.approx(1.0)


def test_noise_of_a_fresh_sample() -> None:
    x, n, repeats = correlated(2000), 100, 200
    truth = metrics.pair_covariances(x)
    g = make_generator(1)
    squares = torch.tensor(
        [
            metrics.covariance_error(x[torch.randint(len(x), (n,), generator=g)], truth)
            ** 2
            for _ in range(repeats)
        ]
    )
    expected = metrics.covariance_error_of_fresh_sample(x, n) ** 2
    # Five standard errors, and a part 2 / n that the leading order leaves out.
    error = 5 * squares.std().item() / repeats**0.5 + 2 / n * expected
    assert abs(squares.mean().item() - expected) < error
    assert metrics.covariance_error_of_fresh_sample(x, 4 * n) == pytest.approx(
        expected**0.5 / 2
    )


def test_all_entries_count() -> None:
    truth = torch.zeros(3, 3)
    estimate = truth.clone()
    estimate[0, 1] = 3.0
    assert rmse(estimate, truth) == pytest.approx(1.0)
    assert negative_log_rmse(10 * estimate, truth) == pytest.approx(-math.log(10.0))
    assert negative_log_rmse(truth, truth) == math.inf


def test_what_is_not_finite_is_no_perfect_score() -> None:
    truth = torch.zeros(2, 2)
    for entry in (math.nan, math.inf):
        estimate = truth.clone()
        estimate[0, 0] = entry
        score = negative_log_rmse(estimate, truth)
        assert score == -math.inf if entry == math.inf else math.isnan(score)
