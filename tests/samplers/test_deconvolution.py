"""Gibbs sampling of binary deconvolution against the posterior by listing."""

import math

import torch
from scipy import stats

from ebmtut.message_passing import binary_convolution
from ebmtut.random import make_generator
from ebmtut.samplers.deconvolution import deconvolution_gibbs
from ebmtut.states import enumerate_states, states_to_index

# One strip of four pixels, one feature of two: three places, five bits.
STRIP = torch.tensor([[[1.0, 1.0, 0.0, 1.0]]], dtype=torch.float64)
PRIORS = {"location_prior": 0.3, "feature_prior": 0.6}
EVIDENCE = 0.8


def posterior():
    logits = [math.log(p / (1 - p)) for p in PRIORS.values()]
    states = enumerate_states(5)
    s, w = states[:, :3].view(-1, 1, 1, 3), states[:, 3:].view(-1, 1, 2)
    made = torch.cat(
        [binary_convolution(a[None], b[None]) for a, b in zip(s, w, strict=True)]
    )
    score = EVIDENCE * ((2 * STRIP - 1) * made).sum(dim=(1, 2))
    score += logits[0] * states[:, :3].sum(1) + logits[1] * states[:, 3:].sum(1)
    return score.softmax(0)


def test_stationary_distribution():
    """Many images would share W: chains are run one after the other instead."""
    distribution = posterior()
    generator = make_generator(0)
    s = torch.zeros(1, 1, 1, 3, dtype=torch.float64)
    w = torch.zeros(1, 1, 2, dtype=torch.float64)
    counts = torch.zeros(32)
    n_draws = 3000
    for _ in range(n_draws):
        # Six sweeps between draws: what correlation is left is far below noise.
        s, w = deconvolution_gibbs(
            STRIP, s, w, 6, evidence=EVIDENCE, generator=generator, **PRIORS
        )
        state = torch.cat([s.flatten(), w.flatten()])[None]
        counts[states_to_index(state)] += 1
    test = stats.chisquare(counts.numpy(), n_draws * distribution.numpy())
    assert test.pvalue > 1e-4


def test_two_images_share_their_feature():
    x = torch.tensor([[[1.0, 1, 0, 0]], [[0, 0, 1, 1]]])
    s, w = torch.zeros(2, 1, 1, 3), torch.ones(1, 1, 2)
    s, w = deconvolution_gibbs(x, s, w, 5, evidence=50.0, generator=make_generator(0))
    assert s[:, 0, 0].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert torch.equal(binary_convolution(s, w), x)
