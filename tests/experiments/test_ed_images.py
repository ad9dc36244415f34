"""Energies of binary images: sets, evaluation against exact answers, experiments."""

import math

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import MLPEnergy
from ebmtut.exact import exact_log_partition
from ebmtut.experiments import get_experiment
from ebmtut.experiments.ed import images
from ebmtut.experiments.ed.pages import HOW, nll_table
from ebmtut.metrics.nll import estimate_log_mean_exp
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import enumerate_states


def toy(n=400):
    """Two distributions of independent bits on four pixels, half of the images each."""
    distribution = torch.tensor([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])
    x = bernoulli(distribution.repeat(n // 2, 1), generator=make_generator(3))
    return images.BinaryImages(2, x[n // 4 :], x[: n // 4], "toy")


def test_sets_are_bits_and_divided_without_overlap():
    data = images.binary_images("digits 8x8")
    assert data.pixels.shape == (1497, 64) and data.held_out.shape == (300, 64)
    for bits in (data.pixels, data.held_out):
        assert bool(((bits == 0) | (bits == 1)).all())
    dynamic = images.binary_images("MNIST 14x14, dynamic")
    # Drawn anew in every batch: what is kept are probabilities.
    inner = (dynamic.pixels > 0) & (dynamic.pixels < 1)
    assert bool(inner.any()) and bool((dynamic.held_out % 1 == 0).all())
    with pytest.raises(InputError, match="data must be"):
        images.binary_images("digits 9x9")


def test_independent_bits_are_evaluated_by_their_distribution():
    data = toy()
    x = data.held_out
    p = data.means
    want = -(x * p.log() + (1 - x) * (1 - p).log()).sum(1).mean()
    assert data.independent_nll() == pytest.approx(float(want), rel=1e-5)


def test_a_mixture_finds_the_two_distributions():
    """EM of two components comes to the distribution of the images.

    The NLL of the truth on 100 held-out images differs from that of a fit to 300 by
    about the number of parameters over twice the images, 9 / 600 nats, and by noise of
    that size; one component is worth less by nearly ln 2.
    """
    data = toy()
    distribution = torch.tensor([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])
    log_prob = (
        torch.where(data.held_out[:, None] == 1, distribution, 1 - distribution)
        .log()
        .sum(2)
    )
    truth = -float((log_prob.logsumexp(1) - math.log(2)).mean())
    two = images.mixture_nll(data, 2, 100, generator=make_generator(0))
    one = images.mixture_nll(data, 1, 2, generator=make_generator(0))
    assert two == pytest.approx(truth, abs=0.06)
    assert one == pytest.approx(data.independent_nll(), abs=0.01)
    assert one - two > 0.5


def test_the_walk_finds_log_z():
    """Against enumeration, within five standard errors, for an energy that matters."""
    energy = MLPEnergy(
        9, 8, 3, base_probs=torch.linspace(0.05, 0.6, 9), generator=make_generator(1)
    )
    with torch.no_grad():
        for weight in energy.net.parameters():
            weight.mul_(2.5)
    energy = energy.requires_grad_(False)
    how = images.Annealing(2000, 40)
    x, weights = images.anneal(energy, how, 40, generator=make_generator(2))
    found = estimate_log_mean_exp(weights)
    want = float(exact_log_partition(energy, 9))
    start = float(torch.nn.functional.softplus(energy.base_logits).sum())
    assert abs(want - start) > 0.3  # the network has changed something
    assert abs(found.value - want) < 5 * found.stderr < 0.1
    states = enumerate_states(9).float()
    distribution = (-energy(states)).softmax(0)
    mean = weights.softmax(0).float() @ x
    # Weighted means of bits, of as many effective chains as there are at least.
    assert (
        float((mean - distribution @ states).abs().max()) < 5 * 0.5 / (2000 / 2) ** 0.5
    )


def test_variety_counts_pairs():
    x = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 0]]).float()
    pairs = [(0, 1), (0, 2), (1, 2)]
    want = sum(float((x[i] != x[j]).float().mean()) for i, j in pairs) / 3
    assert images.variety(x) == pytest.approx(want)
    assert images.variety(x[:1].expand(5, -1)) == 0


@pytest.mark.parametrize("method", images.METHODS)
@pytest.mark.parametrize("network", ["perceptron", "residual"])
def test_every_method_takes_steps_and_repeats_itself(method, network):
    model = images.ImageModel(
        method=method,
        network=network,
        hidden=4,
        n_steps=2,
        batch_size=4,
        n_negatives=3,
        n_backward=None,
    )
    one, again = (images.fit_images(model, seed=3) for _ in range(2))
    assert one.losses.tolist() == again.losses.tolist()
    assert len(one.losses) == 2


@pytest.mark.parametrize("id", ["ed/images", "ed/images-table"])
def test_presets_name_cells_and_chains_are_slower(id):
    row = get_experiment(id)
    for config in row.presets.values():
        cells = row.cells(config)
        assert {data for _, data in cells} == set(config.data)
        for (method, _), cell in cells.items():
            rate = cell["model"].learning_rate
            slow = method in images.CHAINS
            assert rate == config.model.learning_rate / (5 if slow else 1)


def test_the_rows_from_end_to_end():
    """Few steps: every number is there, and an untrained energy claims nothing."""
    row = get_experiment("ed/images-table")
    model = {"n_steps": 2, "hidden": 4, "batch_size": 8, "n_negatives": 2}
    how = {"n_chains": 16, "n_steps": 20}
    result = row.run("quick", model=model, annealing=how)
    null = result.scalars["null"]["digits 8x8"]["nll"]
    for method in images.METHODS:
        cell = result.scalars["table"][method]["digits 8x8"]
        # Two steps leave nearly the base, whose NLL is exact.
        assert cell["nll"][0] == pytest.approx(null, abs=0.5)
        assert result.arrays[f"samples/{method}/digits 8x8"].shape == (16, 8, 8)
    claims = {v.name: v for v in row.check(result) if not v.sanity}
    assert len(claims) == len(images.DISCREPANCIES)
    assert not any(v.verdict == "match" for v in claims.values())
    pictures = get_experiment("ed/images")
    baselines = list(pictures.check(images.independent_bits(result)))
    assert not any(v.verdict == "match" for v in baselines if not v.sanity)
    assert "mixture" in repr(nll_table(result))
    assert "independent bits" in repr(HOW(row.stored()))
    assert pictures.figure(result).axes and row.figure(result).axes
