"""What metrics refuse beyond the ranges that their signatures declare."""

import math

import torch

from ebmtut.metrics import (
    BernoulliProposal,
    Estimate,
    HistogramProposal,
    ImageClassifier,
    PlaneGrid,
    bits_per_dimension,
    class_score,
    covariance_error,
    frechet_distance,
    gaussian_frechet_distance,
    hamming_distances,
    log_partition_annealed,
    log_partition_chain,
    log_partition_uniform,
    mmd,
    nll,
    pair_covariances,
    precision_recall,
    rmse,
    sample_by_proposal,
    train_image_classifier,
)
from ebmtut.random import make_generator
from tests.shared import refusals

G = make_generator(0)
X = torch.zeros(5, 8)
GRID, PLANE = torch.zeros(2, 2), PlaneGrid(9.0, 4)
COVARIANCES = pair_covariances(torch.eye(8).repeat(2, 1))


def energy(x):
    return x.sum(1)


def masses(value, *shape):
    return HistogramProposal(torch.full(shape or (2, 2), value), 4)


def rejection(energy):
    uniform = BernoulliProposal.uniform(8)
    sample_by_proposal(energy, uniform, 500, generator=G, max_draws=70_000)


def flat(energy=energy, n_sites=8, **how):
    log_partition_uniform(energy, n_sites, 5, generator=G, **how)


def judged(images, labels=5):
    train_image_classifier(images, torch.zeros(labels).long(), generator=G)


CASES = {
    "sides": (lambda: masses(1.0, 2, 4), r".*power of 2 a side, got shape \(2, 4\)"),
    "no mass": (lambda: masses(0.0), "masses must be >= 0 and not all 0"),
    "few bits": (lambda: masses(1.0, 32, 32), "bits_per_coordinate must be"),
    "spins": (lambda: masses(1.0).log_prob(X - 1), "x must hold only 0 and 1, got -1"),
    "gives up": (lambda: rejection(lambda x: 1e3 * x.sum(1)), ".*of 500 samples after"),
    "nan": (lambda: flat(lambda x: x.sum(1) * math.nan), ".*must be finite"),
    "column": (lambda: flat(lambda x: x), r"energy\(x\) must have shape \(5,\)"),
    "sites": (lambda: flat(n_sites=None), "n_sites must"),
    "chains": (
        lambda: log_partition_annealed(energy, 5, 5, generator=G),
        "n_sites must be given",
    ),
    "one state": (lambda: nll(energy, X[:1], 0.0), r"len\(x\) must be .* >= 2, got 1"),
    "lost energies": (
        lambda: nll(lambda x: energy(x) * math.nan, X, 0.0),
        ".*got 5 non-f",
    ),
    "log Z": (lambda: nll(energy, X, Estimate(math.nan, 0.0)), "log_partition must be"),
    "probs": (lambda: BernoulliProposal(torch.tensor([0.0, 0.5])), r"probs must lie"),
    "density": (lambda: PLANE.kl(GRID, GRID), "log_p must have shape"),
    "no density": (
        lambda: PLANE.kl(*[torch.full((4, 4), -math.inf)] * 2),
        "log_p must have finite mass on the grid, got -inf",
    ),
    "samples": (
        lambda: log_partition_chain(lambda x, t: energy(x), torch.zeros(4, 1, 2)),
        "samples of a level .*>= 2, got 1",
    ),
    "features": (lambda: frechet_distance(X, X[:, :2]), r"features2 must have shape"),
    "turned": (
        lambda: gaussian_frechet_distance(
            X[0, :2], torch.tensor([[1.0, 0.5], [0, 1]]), X[0, :2], torch.eye(2)
        ),
        ".*symmetric",
    ),
    "classes": (lambda: class_score(torch.ones(3, 3)), ".*rows of sum 1"),
    "neighbours": (lambda: precision_recall(X, X[:3], 3), ".*got 3"),
    "one": (lambda: mmd(X, X[:1]), r"len\(y\) must be an integer >= 2, got 1"),
    "kernel": (lambda: mmd(X, X, "gauss"), r"kernel must be one of .* got 'gauss'"),
    "no bits": (lambda: hamming_distances(X - 1, X), "x must hold only 0 and 1, got"),
    "independent": (lambda: covariance_error(X, 0 * COVARIANCES), "truth must have a"),
    "energies": (lambda: bits_per_dimension(X[0] / 0, 1), "energies must be"),
    "estimate": (lambda: rmse(X, GRID), r"estimate must have shape \(2, 2\)"),
    "image": (lambda: ImageClassifier(8).features(torch.zeros(3, 9, 9)), "images must"),
    "labels": (lambda: judged(torch.zeros(5, 8, 8), 2), "labels must"),
    "bytes": (lambda: judged(torch.full((5, 8, 8), 255.0)), "images must"),
}


test_refusals = refusals(CASES)
