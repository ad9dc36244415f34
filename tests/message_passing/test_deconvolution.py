"""Binary deconvolution: the kernel against the plain version, both against truth."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ebmtut.data.shapes import SHAPES, shape_images, shapes
from ebmtut.message_passing import (
    binary_convolution,
    deconvolution_samples,
    deconvolve,
    deconvolve_reference,
    factors,
    sample_deconvolution,
)
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states


def small_problem(dtype=torch.float64):
    generator = make_generator(3)
    s = (torch.rand(3, 2, 4, 5, generator=generator) < 0.1).to(dtype)
    w = (torch.rand(2, 3, 2, generator=generator) < 0.6).to(dtype)
    return binary_convolution(s, w)


def test_convolution_by_its_definition():
    generator = make_generator(0)
    s = (torch.rand(2, 3, 4, 5, generator=generator) < 0.2).double()
    w = (torch.rand(3, 2, 3, generator=generator) < 0.5).double()
    x = torch.zeros(2, 5, 7, dtype=torch.float64)
    sizes = (range(k) for k in (2, 3, 4, 5, 2, 3))
    for n, f, r, c, i, j in itertools.product(*sizes):
        x[n, r + i, c + j] = max(x[n, r + i, c + j], s[n, f, r, c] * w[f, i, j])
    assert torch.equal(binary_convolution(s, w), x)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("n_sweeps", [0, 1, 2, 20])
def test_kernel_sends_the_messages_of_the_plain_version(n_sweeps, damping):
    x, g = small_problem(), make_generator(1)
    s_unaries = torch.randn(3, 3, 4, 5, generator=g).double() - 4
    w_unaries, start = torch.randn(2, 3, 3, 2, generator=g).double() - 1
    ours, plain = (
        run(x, s_unaries, w_unaries, n_sweeps, damping=damping, start=start)
        for run in (deconvolve, deconvolve_reference)
    )
    for name in ("location_beliefs", "feature_beliefs", "changes"):
        # Beliefs reach some hundreds: 1e-9 is ten digits of them.
        assert torch.allclose(getattr(ours, name), getattr(plain, name), atol=1e-9)


def rounding(s_unaries, w_unaries, n_sweeps, evidence, damping=0.5):
    """Largest error of a belief in single precision, by following each step.

    Of every number of a sweep, the largest it can be and how wrong it can be: a
    sum of k terms by k units more than these, and a choice of two by no more.
    """
    unit = 2.0**-24
    n_inputs = w_unaries.numel()  # of a pixel's OR, at most
    # Messages that a bit of S or of W hears.
    n_heard = max(w_unaries[0].numel(), s_unaries[:, 0].numel())
    given = float(max(s_unaries.abs().max(), w_unaries.abs().max()))
    size = error = 0.0
    for _ in range(n_sweeps + 1):
        belief = given + n_heard * size
        belief_error = n_heard * error + (n_heard + 1) * unit * belief
        entry = belief + size
        entry_error = belief_error + error + unit * entry
        up, up_error = 2 * entry, 2 * (entry_error + unit * entry)
        down = evidence + n_inputs * up
        down_error = n_inputs * up_error + (n_inputs + 2) * unit * down
        new, new_error = down + entry, down_error + entry_error + unit * (down + entry)
        size = max(size, new)
        error = damping * error + (1 - damping) * new_error + 3 * unit * size
    return belief_error


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_single_precision_is_as_near_as_rounding_lets_it(n_sweeps):
    x = torch.tensor([[[1.0, 1, 0, 1]]]).double()
    g = make_generator(0)
    s = torch.randn(1, 1, 1, 3, generator=g).double() - 1
    w = torch.randn(1, 1, 2, generator=g).double()
    want = deconvolve_reference(x, s, w, n_sweeps, evidence=5.0)
    got = deconvolve(x.float(), s.float(), w.float(), n_sweeps, evidence=5.0)
    bound = rounding(s, w, n_sweeps, 5.0)
    for name in ("location_beliefs", "feature_beliefs"):
        one, other = getattr(got, name), getattr(want, name)
        assert one.dtype == torch.float32
        assert (one.double() - other).abs().max() < bound
        # Tight enough to tell half precision, whose unit is 2^-11, from single.
        assert bound < 2**-11 * other.abs().max()


def best_score(x, s_unaries, w_unaries, evidence):
    n_s, n_w = s_unaries.numel(), w_unaries.numel()
    best = -torch.inf
    for bits in itertools.product((0.0, 1.0), repeat=n_s + n_w):
        flat = torch.tensor(bits, dtype=torch.float64)
        s, w = flat[:n_s].view(s_unaries.shape), flat[n_s:].view(w_unaries.shape)
        best = max(best, score(x, s, w, s_unaries, w_unaries, evidence))
    return best


def score(x, s, w, s_unaries, w_unaries, evidence):
    pixels = evidence * ((2 * x - 1) * binary_convolution(s, w)).sum()
    return float(pixels + (s * s_unaries).sum() + (w * w_unaries).sum())


def test_messages_find_the_best_state_where_none_do_not():
    """A shape of two pixels on a strip: nine unknown bits."""
    x = torch.tensor([[[1.0, 1, 0, 1, 1, 0, 0, 0]]]).double()
    best = {0: [], 200: []}
    for seed in range(30):
        generator = make_generator(seed)
        s_unaries = torch.randn(1, 1, 1, 6, generator=generator).double() - 3
        w_unaries = torch.randn(1, 1, 3, generator=generator).double() - 1
        exact = best_score(x, s_unaries, w_unaries, 20.0)
        for n_sweeps, found in best.items():
            run = deconvolve(x, s_unaries, w_unaries, n_sweeps, evidence=20.0)
            ours = score(x, run.locations, run.features, s_unaries, w_unaries, 20.0)
            assert ours <= exact + 1e-9
            found.append(ours > exact - 1e-9)
    # A sign test, over the problems that only one of the two solves.
    wins = sum(b and not a for a, b in zip(*best.values(), strict=True))
    losses = sum(a and not b for a, b in zip(*best.values(), strict=True))
    assert binomtest(wins, wins + losses, alternative="greater").pvalue < 1e-4


def test_known_features_are_placed_right():
    """With W given, S of well separated shapes is found exactly."""
    w = shapes(torch.float64)
    s = torch.zeros(2, 4, 12, 12, dtype=torch.float64)
    s[0, 0, 1, 1] = s[0, 2, 7, 7] = s[1, 1, 0, 6] = s[1, 3, 10, 2] = 1
    result = deconvolve(
        binary_convolution(s, w), torch.full_like(s, -4.6), (2 * w - 1) * 1e4, 50
    )
    assert torch.equal(result.features, w)
    assert torch.equal(result.locations, s)


def test_prior_and_noise_of_unconstrained_bits():
    """Without a sweep a sample is the prior's: the noise is logistic."""
    x = torch.zeros(40, 20, 20, dtype=torch.float64)
    result = sample_deconvolution(
        x, 30, (3, 3), 0, location_prior=0.1, generator=make_generator(0)
    )
    n = result.locations.numel()
    error = (0.1 * 0.9 / n) ** 0.5
    assert abs(float(result.locations.mean()) - 0.1) < 5 * error


def test_more_starts_never_score_less(monkeypatch):
    """The best of four runs is kept, and the first is that of a single start."""
    x = small_problem()
    runs = []

    def watched(images, s_unaries, w_unaries, *args, **options):
        run = deconvolve(images, s_unaries, w_unaries, *args, **options)
        value = score(
            x, run.locations, run.features, s_unaries, w_unaries, options["evidence"]
        )
        runs.append((value, run))
        return run

    monkeypatch.setattr(deconvolution_samples, "deconvolve", watched)
    better = 0
    for seed in range(8):
        for n_starts in (1, 4):
            kept = sample_deconvolution(
                x, 3, (3, 2), 20, n_starts=n_starts, generator=make_generator(seed)
            )
        (alone, _), (first, _), *others = runs
        assert first == alone and len(others) == 3
        assert kept is max(runs[1:], key=lambda pair: pair[0])[1]
        better += any(value > first for value, _ in others)
        runs.clear()
    assert better > 0


def test_a_start_acts_in_the_first_sweep_and_is_forgotten():
    x = torch.ones(1, 1, 1, dtype=torch.float64)
    s, w = torch.full((1, 1, 1, 1), -1.0).double(), torch.zeros(1, 1, 1).double()
    runs = [
        deconvolve(x, s, w, n, damping=0.0, start=torch.full_like(w, value))
        for n in (0, 60)
        for value in (0.0, 3.0)
    ]
    beliefs = [float(run.feature_beliefs) for run in runs]
    assert beliefs[:2] == [0.0, 3.0]
    assert beliefs[2] == pytest.approx(beliefs[3])


def test_repeated_unaries_weigh_as_often():
    """The official program counts a location's log-odds once a pixel of W."""
    x = torch.zeros(5, 4, 4, dtype=torch.float64)
    once, thrice = (
        sample_deconvolution(
            x, 2, (2, 2), 0, location_copies=k, generator=make_generator(0)
        )
        for k in (1, 3)
    )
    assert torch.allclose(thrice.location_beliefs, 3 * once.location_beliefs)
    assert torch.equal(thrice.feature_beliefs, once.feature_beliefs)


def test_shape_images():
    data = shape_images(30, generator=make_generator(0))
    assert data.images.shape == (30, 14, 14)
    assert data.features.shape == (len(SHAPES), 5, 5)
    assert (data.locations.sum(dim=(1, 2, 3)) > 2).all()
    assert torch.equal(data.images, binary_convolution(data.locations, data.features))
    assert data.features.sum(dim=(1, 2)).tolist() == [16, 9, 12, 8]


def test_shapes_are_as_dense_as_asked():
    """Given more than two per image, the distribution is a truncated binomial."""
    data = shape_images(4000, generator=make_generator(1))
    distribution = torch.distributions.Binomial(400, torch.tensor(0.01)).log_prob
    counts = torch.arange(3.0, 60.0)
    weight = distribution(counts).exp()
    mean = float((weight * counts).sum() / weight.sum())
    drawn = data.locations.sum(dim=(1, 2, 3))
    assert abs(float(drawn.mean()) - mean) < 5 * float(drawn.std()) / 4000**0.5


messages = st.floats(-30, 30, allow_nan=False, width=64)
# Ties and zeros are where a largest-two rule goes wrong.
messages = st.one_of(messages, st.sampled_from([0.0, 1.0, -1.0]))


def brute_force(gate, parents, child):
    """Messages to all variables, the child last, by the definition."""
    states = enumerate_states(len(parents))
    output = gate(states.bool(), dim=1).to(states)
    x = torch.cat([states, output[:, None]], dim=1)
    incoming = torch.tensor([*parents, child], dtype=torch.float64)
    score = x @ incoming
    sent = []
    for i in range(x.shape[1]):
        on, off = (score[x[:, i] == value].max() for value in (1, 0))
        sent.append(on - off - incoming[i])
    return torch.stack(sent)


@settings(deadline=None)
@given(messages, messages, messages)
def test_and(first, second, child):
    exact = brute_force(torch.all, [first, second], child)
    t1, t2, b = (torch.tensor(v, dtype=torch.float64) for v in (first, second, child))
    ours = torch.stack(
        [*factors.and_to_parents(t1, t2, b), factors.and_to_child(t1, t2)]
    )
    assert torch.allclose(ours, exact, atol=1e-12)


@settings(deadline=None)
@given(st.lists(messages, min_size=1, max_size=6), messages)
def test_or(parents, child):
    exact = brute_force(torch.any, parents, child)
    t, b = (torch.tensor(v, dtype=torch.float64) for v in (parents, child))
    ours = torch.cat([factors.or_to_parents(t, b), factors.or_to_child(t)[None]])
    assert torch.allclose(ours, exact, atol=1e-12)


def test_observed_variables_are_infinite():
    inf = torch.inf
    # A black pixel: the only input that may be on must be on.
    sent = factors.or_to_parents(torch.tensor([-2.0, -inf]), torch.tensor(inf))
    assert sent[0] == inf
    # A white pixel forbids every input, and through AND what makes it.
    sent = factors.or_to_parents(torch.tensor([3.0, 1.0]), torch.tensor(-inf))
    assert (sent == -inf).all()
    to_first, to_second = factors.and_to_parents(
        torch.tensor(inf), torch.tensor(1.5), torch.tensor(-inf)
    )
    assert to_first == -1.5 and to_second == -inf
    assert factors.and_to_child(torch.tensor(inf), torch.tensor(-inf)) == -inf


def test_what_a_surely_on_input_spoils():
    inf = torch.inf
    parents = torch.tensor([inf, 1.0])
    sent = factors.or_to_parents(parents, torch.tensor(2.0))
    assert sent[0].isnan() and sent[1] == 0
    assert factors.or_to_parents(parents, torch.tensor(-inf)).isnan().all()


@pytest.mark.parametrize("large", [1e4, 1e8])
def test_small_messages_survive_large_ones_in_single_precision(large):
    small = torch.tensor(1e-3)
    to_first, _ = factors.and_to_parents(torch.tensor(0.0), torch.tensor(large), small)
    assert to_first == small
