"""What the losses refuse beyond the ranges that their signatures declare."""

import pytest
import torch

from ebmtut import losses
from ebmtut.checks import InputError
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain
from ebmtut.states import enumerate_states, states_to_index
from tests.losses.gaussian_family import NOISE, Parabola, pairs
from tests.shared import refusals

BITS = torch.zeros(2, 8)
X, _, LEVEL = pairs(4)
STEADY = ConditionalChain(adjusted=False)


def discrepancy(energy, x):
    return losses.energy_discrepancy_loss(
        energy, x, losses.Grid(), generator=make_generator(0)
    )


def pool(window, shape=None):
    losses.Pool(window, shape).negatives(BITS, 4, generator=make_generator(0))


def directed(*neighbors):
    losses.DirectedNeighborhood(enumerate_states(2), neighbors, states_to_index)


def recovery(x, **how):
    loss = losses.RecoveryLikelihood(NOISE, ConditionalChain(), **how)
    loss(Parabola(1.0), x, generator=make_generator(0))


def advance(data):
    chains = losses.PersistentChains(BITS, n_steps=1, restart_probability=0.5)
    chains.advance(None, data, generator=make_generator(0))


def column(x):
    return x.sum(1, keepdim=True)


ONE_EACH = r"energy\(x\) must have shape .*, 1\)$"
LOSSES = {
    "discrepancy": discrepancy,
    "contrastive divergence": lambda f, x: losses.contrastive_divergence_loss(f, x, x),
    "pseudo-likelihood": losses.pseudo_likelihood_loss,
    "ratio matching": losses.ratio_matching_loss,
    "moments": lambda f, x: losses.bit_moments(x),
}
REFUSALS = {
    "shape of energies": (lambda: discrepancy(column, BITS), ONE_EACH),
    "model": (
        lambda: losses.contrastive_divergence_loss(column, BITS, BITS[:, 1:]),
        r"x_model must have shape \(any, 8\)",
    ),
    "width of chains": (lambda: advance(BITS[:, :1]), r"data must have shape \(any,"),
    "restarts": (lambda: advance(BITS[:0]), r"len\(data\) must be an integer >= 1,"),
    "window": (lambda: pool(3), "window=3 does not divide the 8 sites"),
    "sites": (lambda: pool((1, 2), (3, 4)), r"image_shape=\(3, 4\) has 12 sites, but"),
    # One site is its own mean: nothing is lost, and nothing to be learned.
    "one site": (lambda: pool((1, 1), (4, 4)), "window must hold two sites or more"),
    "dimensions": (lambda: pool((2, 2)), r"window=\(2, 2\) with image_shape=None:"),
    "neighbours": (lambda: directed((1,), (), (0,), (0,)), r"neighbors\[1\] is empty"),
    "state": (lambda: directed((1,), (4,), (0,), (0,)), r"neighbors\[1\] must be"),
    "couplings": (
        lambda: losses.coupling_discrepancy_losses(
            torch.zeros(2, 3, 3),
            BITS,
            losses.Bernoulli(0.1),
            generator=make_generator(0),
        ),
        "coupling must have shape",
    ),
    # Spins were matched without a word, and gave +0.6 for -0.9.
    "spins": (
        lambda: losses.match_moments(BITS, lambda model: BITS - 1, n_steps=1),
        "samples must hold only 0 and 1, got -1",
    ),
    "samples": (
        lambda: losses.recovery_likelihood_loss(Parabola(1.0), X, X[:2], LEVEL),
        r"x_model must have shape \(4, 1\), got \(2, 1\)",
    ),
    "bytes": (lambda: recovery(X * 0 + 255, data_range=(-1.0, 1.0)), r"x must be in"),
    "no step": (
        lambda: losses.RecoveryLikelihood(NoiseLevels((1.0,)), ConditionalChain(0)),
        "n_steps must be >= 1",
    ),
    "adapted": (
        lambda: losses.RecoveryLikelihood(NOISE, STEADY, target_acceptance=0.7),
        "target_acceptance needs adjusted=True",
    ),
    "weights": (lambda: recovery(X, weighted=(1.0, 1.0)), r"len\(weighted\) must be 1"),
    "no noise": (
        lambda: losses.DenoisingScoreMatching(NOISE),
        "noise must have a noisy",
    ),
    "level": (
        lambda: losses.denoising_score_matching_loss(
            Parabola(1.0), NOISE, X, LEVEL + 1, generator=make_generator(0)
        ),
        r"level must lie in \[0, 0\], got 1",
    ),
}


test_refusals = refusals(REFUSALS)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (BITS - 1, "x must hold only 0 and 1, got -1"),
        (BITS[:0], r"len\(x\) must be .* 0"),
    ],
)
def test_data_must_be_bits_and_some(loss, x, words):
    def energy(x):
        raise AssertionError("the energy was evaluated")

    with pytest.raises(InputError, match=f"^{words}"):
        loss(energy, x)
