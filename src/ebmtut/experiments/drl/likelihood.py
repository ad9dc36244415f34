"""drl/likelihood (Table 4): bits per pixel of level 0, beside known densities."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, Range, checked
from ebmtut.energies import at_level
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Outcome, by_seed
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.metrics import bits_per_dimension, log_partition_chain
from ebmtut.metrics.frechet import pairwise_distances
from ebmtut.plotting import OKABE_ITO, figure_size
from ebmtut.random import make_generator
from ebmtut.results import Result

#: Smallest effective fraction of the samples of every ratio for which log Z is drawn.
ENOUGH = 0.01


@checked
@dataclass(frozen=True)
class LikelihoodConfig:
    """What is learned, and the samples behind log Z."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    n_samples: Annotated[int, Range(low=16)] = 2000
    n_seeds: Count = 1


def known_densities(recipe: shared.ImageRecipe, noisy: Tensor) -> dict[str, Tensor]:
    """Nats of each noisy held-out image under exactly known densities."""
    signal, noise = recipe.noise.signals[0], recipe.noise.noises[0]
    points = signal * shared.image_set(recipe.data).images.flatten(1).double()
    x, n = noisy.flatten(1).double(), points.shape[1]
    covariance = torch.cov(points.T) + noise**2 * torch.eye(n, dtype=torch.float64)
    gaussian = torch.distributions.MultivariateNormal(points.mean(0), covariance)
    # The training images with their noise: a mixture of as many Gaussians.
    mixture = torch.logsumexp(-(pairwise_distances(x, points) ** 2) / (2 * noise**2), 1)
    norm = math.log(len(points)) + n / 2 * math.log(2 * math.pi * noise**2)
    return {
        "Gaussian fit": -gaussian.log_prob(x),
        "noisy training images": norm - mixture,
    }


def likelihood_job(
    config: LikelihoodConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Estimate log Z from more and more samples, and evaluate held-out images."""
    recipe = config.recipe
    energy = shared.trained_once(recipe, seed, checkpoint, device).energy
    generator = make_generator(seed + 2, device)
    drawn = shared.draw_images(energy, recipe, config.n_samples, generator=generator)
    held_out = shared.image_set(recipe.data).held_out
    zeros = torch.zeros(len(held_out), dtype=torch.long)
    noisy = recipe.noise.perturb(held_out, zeros, generator=make_generator(seed + 3))
    with torch.no_grad():
        energies = at_level(energy, 0)(noisy).double()
    counts = [16 * 4**k for k in range(10) if 16 * 4**k < config.n_samples]
    counts.append(config.n_samples)
    found = [log_partition_chain(energy, drawn[1:, :n]) for n in counts]
    n_dims, log_z = held_out[0].numel(), found[-1].levels[0]
    bits = {"recovery likelihood": bits_per_dimension(energies, n_dims, log_z)}
    for name, nats in known_densities(recipe, noisy).items():
        bits[name] = bits_per_dimension(nats, n_dims)
    return Outcome(
        {
            "bits": {name: one.value for name, one in bits.items()},
            "effective": found[-1].effective,
            "counts": counts,
            "log Z": [f.levels[0].value for f in found],
            "log Z stderr": [f.levels[0].stderr for f in found],
        }
    )


def draw_likelihood(result: Result) -> Figure:
    """Draw the estimate over the samples, and the bits that follow from it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=figure_size("wide"))
    lines = (result.scalars[name] for name in ("counts", "log Z", "log Z stderr"))
    for counts, value, stderr in zip(*lines, strict=True):
        left.errorbar(counts, value, stderr, marker="o", capsize=2)
    left.set(xscale="log", xlabel="samples", ylabel="log Z of level 0, from below")
    bits = dict(result.scalars["bits"])
    if smallest_fraction(result) < ENOUGH:
        del bits["recovery likelihood"]  # an estimate from a few samples
    means = [mean_and_stderr(found)[0] for found in bits.values()]
    right.barh([*bits], means, color=OKABE_ITO["blue"])
    right.invert_yaxis()
    right.set_xlabel("bits per pixel, held-out, level 0")
    right.axvline(0, color="black", lw=0.8)
    return figure


def check_likelihood(result: Result) -> Verdicts:
    """Ask that the ratios rest on more than a few samples."""
    # Of the estimate: it says nothing of what was learned.
    of = ("smallest effective fraction of the samples", smallest_fraction(result))
    n_seeds = len(result.scalars["effective"])
    return [claim(*of, "at least", ENOUGH, n_seeds=n_seeds, sanity=True)]


def smallest_fraction(result: Result) -> float:
    """Smallest effective fraction of the samples, of all levels and seeds."""
    return min(min(levels) for levels in result.scalars["effective"])


EXPERIMENT = shared.image_row(
    id="drl/likelihood",
    title="Bits per pixel",
    presets={
        "quick": LikelihoodConfig(shared.LIVE, n_samples=1000),
        "full": LikelihoodConfig(shared.FULL, n_samples=10_000, n_seeds=3),
        # T1k. The largest number of samples in Figure 7 is not printed: as many
        # as 16 GB hold at all thousand levels.
        "paper": LikelihoodConfig(shared.T1K, n_samples=1000),
    },
    cells=lambda config: {"bits": {"config": replace(config, n_seeds=1)}},
    job=likelihood_job,
    gather=by_seed,
    figure=draw_likelihood,
    check=check_likelihood,
)
