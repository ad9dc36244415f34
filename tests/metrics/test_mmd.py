"""Distances of samples: the MMD by brute force, Fréchet and Inception distances."""

import hashlib
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from torch import nn

from ebmtut import metrics
from ebmtut.checks import InputError
from ebmtut.metrics import (
    InceptionFeatures,
    class_score,
    fid,
    frechet_distance,
    gaussian_frechet_distance,
    hamming_distances,
    inception,
    inception_features,
    mmd,
    mmd_of_fresh_sample,
    nearest_neighbors,
    negative_log_rmse,
    precision_recall,
    rmse,
)
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import enumerate_states
from tests.shared import normal


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
    drawn = [x[torch.randint(len(x), (n,), generator=g)] for _ in range(repeats)]
    squares = torch.tensor([metrics.covariance_error(y, truth) ** 2 for y in drawn])
    expected = metrics.covariance_error_of_fresh_sample(x, n) ** 2
    # Five standard errors, and a part 2 / n that the leading order leaves out.
    error = 5 * squares.std().item() / repeats**0.5 + 2 / n * expected
    assert abs(squares.mean().item() - expected) < error
    found = metrics.covariance_error_of_fresh_sample(x, 4 * n)
    assert found == pytest.approx(expected**0.5 / 2)


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


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6))
def test_commuting_covariances_add_by_axis(seed: int, n: int) -> None:
    turn, _ = torch.linalg.qr(normal(n, n, seed=seed))
    scale1, scale2 = normal(2, n, seed=seed + 1).exp()
    mean1, mean2 = normal(2, n, seed=seed + 2)
    found = gaussian_frechet_distance(
        mean1, (turn * scale1**2) @ turn.T, mean2, (turn * scale2**2) @ turn.T
    )
    want = ((mean1 - mean2) ** 2).sum() + ((scale1 - scale2) ** 2).sum()
    assert found == pytest.approx(float(want), rel=1e-9)


def test_general_covariances_against_the_optimal_map() -> None:
    # If x ~ N(0, C) and y = A x with A symmetric positive, A is optimal:
    # the distance is E |x - A x|^2 = tr((1 - A) C (1 - A)).
    root, factor = normal(5, 5), normal(5, 5, seed=1)
    covariance, map_ = root @ root.T, factor @ factor.T + torch.eye(5)
    rest = torch.eye(5).double() - map_
    found = gaussian_frechet_distance(
        torch.zeros(5), covariance, torch.zeros(5), map_ @ covariance @ map_
    )
    assert found == pytest.approx(float((rest @ covariance @ rest).trace()), rel=1e-9)


def test_invariances_and_zero() -> None:
    x, y = normal(60, 7), 1.5 * normal(80, 7, seed=1) + 0.3
    turn, _ = torch.linalg.qr(normal(7, 7, seed=2))
    distance = frechet_distance(x, y)
    assert frechet_distance(x, x) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(x.flip(0), x) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(y, x) == pytest.approx(distance)
    assert frechet_distance(x @ turn + 5, y @ turn + 5) == pytest.approx(distance)
    assert frechet_distance(2 * x, 2 * y) == pytest.approx(4 * distance)


def test_fewer_samples_than_features_are_no_trouble() -> None:
    x = normal(5, 20)
    assert frechet_distance(x, x + 1.0) == pytest.approx(20.0)


def test_the_class_score_from_one_to_the_number_of_classes() -> None:
    sure = torch.eye(4).repeat(3, 1)
    assert class_score(sure) == pytest.approx(4.0)
    assert class_score(sure[:1].repeat(9, 1)) == pytest.approx(1.0)
    assert class_score(torch.full((5, 4), 0.25)) == pytest.approx(1.0)
    # Two classes, each told with probability q: exp of the mutual information.
    q = 0.9
    told = torch.tensor([[q, 1 - q], [1 - q, q]], dtype=torch.float64)
    want = math.log(2) + q * math.log(q) + (1 - q) * math.log(1 - q)
    assert class_score(told) == pytest.approx(math.exp(want))


def test_precision_and_recall_on_constructed_sets() -> None:
    left = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    right = left + 100
    both = torch.cat([left, right])
    assert precision_recall(both, both + 0.01, 1) == (1.0, 1.0)
    # Samples of one half: all look like data, half of the data are reached.
    assert precision_recall(both, left + 0.01, 1) == (1.0, 0.5)
    assert precision_recall(left, both + 0.01, 1) == (0.5, 1.0)
    assert precision_recall(left, right, 1) == (0.0, 0.0)
    # Exact copies of one point have balls of radius 0.
    assert precision_recall(left, left[:1].repeat(4, 1), 1) == (1.0, 0.25)


def test_nearest_neighbors_find_copies() -> None:
    data = normal(30, 4, 4)
    index = torch.tensor([3, 3, 17])
    found = nearest_neighbors(data[index], data, block=2)
    assert torch.equal(found.place, index)
    assert torch.equal(found.distance, torch.zeros(3).double())
    moved = nearest_neighbors(data[index] + 0.01, data)
    assert torch.allclose(moved.distance, torch.full((3,), 0.04).double())


def test_precision_and_recall_far_from_the_origin() -> None:
    """0..39 against 20..59: what lies within three steps of the other set counts."""
    x, y = (torch.arange(k, k + 40).double()[:, None] for k in (0, 20))
    want = pytest.approx((0.575, 0.575))
    assert precision_recall(x, y) == want
    assert precision_recall(x + 1.6e9, y + 1.6e9) == want
    few, far = y[:7], 2.0**52
    want = pytest.approx(frechet_distance(x, few))
    assert frechet_distance(x + far, few + far) == want


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 99),
    st.integers(-100, 100).map(lambda e: 2.0**e),
    st.sampled_from([0.0, 1.0, -1e9]),
)
def test_invariance_under_scale_shift_and_order(seed, scale, shift) -> None:
    """On multiples of 1/8 and powers of two, which nothing here rounds: ties stay."""
    x, y = ((8 * normal(30, 3, seed=seed + k)).round() / 8 for k in (0, 1))
    order = torch.randperm(30, generator=make_generator(seed))
    moved = [(z[order] + shift) * scale for z in (x, y)]
    assert precision_recall(*moved) == precision_recall(x, y)
    near, other = nearest_neighbors(y, x), nearest_neighbors(moved[1], moved[0])
    far = near.distance[order] * scale
    torch.testing.assert_close(other.distance, far, rtol=1e-6, atol=0)
    want = frechet_distance(x, y) * scale**2
    assert frechet_distance(*moved) == pytest.approx(want, rel=1e-6)


class Stub(nn.Module):
    """In place of the library's network: features that can be told by hand."""

    def __init__(self, name, features, *, feature_extractor_weights_path):
        super().__init__()
        assert (name, features) == ("inception-v3-compat", ["2048", "logits_unbiased"])
        state = torch.load(feature_extractor_weights_path, weights_only=True)
        self.register_buffer("scale", state["scale"])
        self.sizes: list[int] = []

    def forward(self, pixels):
        assert pixels.dtype == torch.uint8 and pixels.shape[1] == 3
        means = pixels.float().mean((2, 3))
        return self.scale * means, torch.log(1 + means)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """Publish weights for the stub: a file that carries its hash in its name."""
    path = tmp_path / "weights.pth"
    torch.save({"scale": torch.tensor(2.0)}, path)
    digits = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    published = f"https://somewhere/weights-2015-12-05-{digits}.pth"
    monkeypatch.setattr(inception, "INCEPTION_WEIGHTS", published)
    monkeypatch.setattr(inception, "_library", lambda: Stub)
    return path


def test_images_reach_the_network_as_bytes_in_order(weights) -> None:
    images = torch.rand(7, 3, 4, 5, generator=make_generator(0))
    found = inception_features(images, weights, batch_size=3)
    means = (images * 255).round().mean((2, 3)).double()
    assert found.pooled.dtype == found.probabilities.dtype == torch.float64
    assert torch.allclose(found.pooled, 2 * means)
    want = (1 + means) / (1 + means).sum(1, keepdim=True)
    assert torch.allclose(found.probabilities, want, atol=1e-6)


def some_features(n: int, shift: float, seed: int) -> InceptionFeatures:
    generator = make_generator(seed)
    mix = torch.randn(5, 5, dtype=torch.float64, generator=make_generator(9))
    pooled = torch.randn(n, 5, dtype=torch.float64, generator=generator) @ mix + shift
    logits = 2 * torch.randn(n, 6, dtype=torch.float64, generator=generator)
    return InceptionFeatures(pooled, logits.softmax(1))


def test_the_distance_is_the_literatures() -> None:
    """The literature takes the root of the covariances' product, of the same trace."""
    data, samples = some_features(300, 0.0, 1), some_features(200, 0.4, 2)
    moments = [
        (f.pooled.numpy().mean(0), np.cov(f.pooled.numpy(), rowvar=False))
        for f in (data, samples)
    ]
    (mean1, cov1), (mean2, cov2) = moments
    root = linalg.sqrtm(cov1 @ cov2).real
    want = ((mean1 - mean2) ** 2).sum() + np.trace(cov1 + cov2 - 2 * root)
    assert fid(data, samples) == pytest.approx(want, rel=1e-9)
    assert fid(data, data) == pytest.approx(0, abs=1e-9)


def test_the_distance_is_the_librarys() -> None:
    try:
        from torch_fidelity.metric_fid import (
            fid_features_to_statistics,
            fid_statistics_to_metric,
        )
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torch-fidelity is not at hand: {error}")
    data, samples = some_features(300, 0.0, 4), some_features(200, 0.4, 5)
    moments = [fid_features_to_statistics(f.pooled) for f in (data, samples)]
    (theirs,) = fid_statistics_to_metric(*moments, verbose=False).values()
    assert fid(data, samples) == pytest.approx(theirs, rel=1e-9)


def test_other_weights_are_refused_in_one_line(weights, tmp_path) -> None:
    images = torch.zeros(2, 3, 8, 8)
    with pytest.raises(InputError, match=r"got no file at .* published at") as refused:
        inception_features(images, tmp_path / "nowhere.pth")
    assert "\n" not in str(refused.value)
    weights.write_bytes(b"another content")
    with pytest.raises(InputError, match="SHA-256 must start with") as refused:
        inception_features(images, weights)
    assert "\n" not in str(refused.value)


def test_without_the_library_the_message_names_the_extra(monkeypatch) -> None:
    name = "torch_fidelity.feature_extractor_inceptionv3"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'ebmtut\[fid\]'") as refused:
        inception_features(torch.zeros(2, 3, 8, 8), "weights.pth")
    assert "\n" not in str(refused.value)
