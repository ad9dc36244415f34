"""Learning densities of the plane, evaluated on a grid: what two experiments share."""

import copy
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, OneOf, Positive, Range, checked
from ebmtut.data import DENSITIES, density_log_prob, sample_density
from ebmtut.energies import FourierEnergy, LevelEnergy, at_level
from ebmtut.experiments.facts import lookup
from ebmtut.experiments.jobs import Outcome
from ebmtut.losses import DenoisingScoreMatching, RecoveryLikelihood
from ebmtut.metrics import PlaneGrid, log_partition_chain, log_partition_particles
from ebmtut.metrics.level_partition import ratio_log_weights
from ebmtut.noise import NoiseLevels, geometric_noise
from ebmtut.random import make_generator, normal
from ebmtut.samplers import ConditionalChain, progressive_samples
from ebmtut.training import CpuClock, TrainConfig, train


class PlaneMethod(NamedTuple):
    """How a method learns, and how the pages call it."""

    printed: str
    objective: str
    n_levels: int
    first_ratio: float
    many: bool
    adjusted: bool = True
    longer: float = 1.0
    fewer: float = 1.0


#: Chains with one initial point need small steps of noise; resampling allows wide ones.
METHODS: Mapping[str, PlaneMethod] = {
    "recovery": PlaneMethod("six levels", "recovery", 6, 0.25, False),
    "short-run": PlaneMethod("one level, 9 steps", "marginal", 1, 4.0, False, False),
    "short-run, longer": PlaneMethod(
        "one level, 29 steps", "marginal", 1, 4.0, False, True, 3.2, 0.43
    ),
    "recovery, many starts": PlaneMethod(
        "four levels, resampled", "recovery", 4, 0.7, True
    ),
    "short-run, many starts": PlaneMethod(
        "one level, resampled", "marginal", 1, 4.0, True
    ),
    "score matching": PlaneMethod("score matching", "score", 6, 0.1, True),
}

#: The densities divided by this have about unit variance.
SCALE = 2.3
#: Where densities are evaluated, in those units: well beyond all data.
PLANE = PlaneGrid(3.2, 200)
#: Step size (where nothing adapts it), learning rate and weight of the squared
#: energies of the short run with one start: the values with which it converged. See
#: `book/drl/notes.ipynb` for its longer chains.
SHORT_STEP, SHORT_RATE, SHORT_REGULARISER = 0.1, 5e-4, 1e-3
#: A square of the checkerboard is 2 long: a sample this near to it is on it.
MARGIN = 0.02 * 2


@checked
@dataclass(frozen=True)
class PlaneConfig:
    """How a density of the plane is learned."""

    n_steps: Count = 600
    n_levels: Annotated[int, Range(low=2)] | None = None
    first_ratio: Positive | None = None
    n_langevin: Count = 1
    n_starts: Count = 16
    hidden: Count = 128
    n_features: Count = 64
    bandwidth: Positive = 5.0
    batch_size: Count = 256
    learning_rate: Positive = 2e-3
    score_factor: Count = 3
    n_samples: Annotated[int, Range(low=2)] = 4000


#: What the paper prints for all of its experiments: T = 6, K = 30, Adam at 0.0001. Of
#: the plane it says no more, and its code has images only: the network, the batch, the
#: noise, the Metropolis test and the number of steps are our choices.
PAPER = PlaneConfig(
    n_steps=100_000,
    n_levels=6,
    first_ratio=0.25,
    n_langevin=30,
    n_starts=1,
    learning_rate=1e-4,
    n_samples=40_000,
)


def plane_noise(method: str, config: PlaneConfig | None = None) -> NoiseLevels:
    """Return the forward chain of a method; a single sigma of 1 is the marginal."""
    how = lookup("method", method, METHODS)
    config = config or PlaneConfig()
    n_levels = config.n_levels or how.n_levels
    first = config.first_ratio or how.first_ratio
    if how.objective == "marginal":
        return NoiseLevels((1.0,))
    if how.objective == "score":
        return geometric_noise(n_levels, first, 4.0)
    ratios = geometric_noise(n_levels, first, 4.0, noisy_data=False)
    return NoiseLevels((*ratios.sigmas[:-1], 1.0))


def plane_chain(method: str, config: PlaneConfig) -> ConditionalChain:
    """Return the chain of a method; equal cost with one start or with many."""
    how = lookup("method", method, METHODS)
    if how.many:
        return ConditionalChain(config.n_langevin, 0.3, n_starts=config.n_starts)
    # A start is an energy, a Langevin step an energy and its gradient.
    n_steps = round(how.longer * (config.n_langevin + config.n_starts // 2))
    step_size = 0.3 if how.adjusted else SHORT_STEP
    return ConditionalChain(n_steps, step_size, adjusted=how.adjusted)


@checked
def plane_job(
    method: str,
    density: Annotated[str, OneOf(DENSITIES)],
    config: PlaneConfig,
    seed: int,
    partition: bool = True,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn one density by one method and evaluate it on the grid."""
    how, noise = METHODS[method], plane_noise(method, config)
    generator = make_generator(seed, device)
    sizes = (config.hidden, 2, config.n_features, config.bandwidth)
    energy = FourierEnergy(2, noise.n_levels, *sizes, generator=generator)
    chain = plane_chain(method, config)
    fragile = how.objective == "marginal" and not how.many  # collapses easily
    recovery = RecoveryLikelihood(
        noise,
        chain,
        regulariser=SHORT_REGULARISER if fragile else 0.0,
        target_acceptance=0.7 if chain.adjusted else None,
    )
    scored = how.objective == "score"
    loss = DenoisingScoreMatching(noise) if scored else recovery

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return (sample_density(density, n, generator=generator) / SCALE).float()

    # Score matching runs no chains, and makes more steps in the same CPU time.
    factor = config.score_factor if scored else how.fewer
    rate = SHORT_RATE if fragile else config.learning_rate
    n_steps = max(1, round(factor * config.n_steps))
    made = {"method": method, "density": density, "config": asdict(config)}
    clock = CpuClock()
    try:
        trained = train(
            energy,
            loss,
            sample,
            TrainConfig(n_steps, config.batch_size, rate, precision="float32"),
            generator=generator,
            buffers={"step_sizes": recovery.step_sizes, "seconds": clock.seconds},
            on_step=clock.tick,
            checkpoint=checkpoint,
            identity=made | {"seed": seed},
        ).energy
    except DivergenceError as error:
        return Outcome({"stopped": float(error.step), "kl": math.nan})

    steps = tuple(recovery.step_sizes.tolist())
    if not scored:
        chain = replace(chain, step_size=steps)
    start = normal(torch.empty(config.n_samples, 2, device=device), generator=generator)
    samples = progressive_samples(trained, noise, start, chain, generator=generator)
    on_cpu = copy.deepcopy(trained).cpu()  # as the grid is
    energies = [PLANE.energies(at_level(on_cpu, t)) for t in range(noise.n_levels)]
    scores = evaluate_plane(density, -energies[0], samples[0].cpu())
    arrays = {
        "density": torch.stack([PLANE.log_density(e) for e in energies]).half().numpy(),
        "samples": samples[:, :2000].half().cpu().numpy(),
        "step_sizes": np.array(steps),
    }
    if partition:
        exact = PLANE.log_partition(energies[0])
        chain_of_ratios = log_partition_chain(trained, samples)
        of = {"n_particles": max(2, samples.shape[1] // 20), "n_runs": 40}
        weighted = log_partition_particles(trained, noise, 2, generator=generator, **of)
        for estimate, by in ((chain_of_ratios, ""), (weighted, " by particles")):
            scores[f"log Z error{by}"] = estimate.levels[0].value - exact
            scores[f"log Z stderr{by}"] = estimate.levels[0].stderr
        arrays["log Z bias"] = partition_bias(trained, samples, exact)
    return Outcome(scores | {"seconds": float(clock.seconds)}, arrays)


def partition_bias(
    energy: LevelEnergy, samples: Tensor, exact: float, n_largest: int = 256
) -> np.ndarray:
    """How far the chain of ratios is off, on average, over the number of samples."""
    each = [ratio_log_weights(energy, samples, t) for t in range(len(samples) - 1)]
    weights, rows, size = torch.stack(each).double(), [], 16
    start = 0.5 * samples[0, 0].numel() * math.log(2 * math.pi) - exact
    while samples.shape[1] >= 8 * size:
        groups = weights[:, : samples.shape[1] // size * size].unflatten(1, (-1, size))
        ratios = groups[:, :n_largest].logsumexp(2) - math.log(size)
        found = start + ratios.sum(0)
        rows.append((size, float(found.mean()), float(found.std()) / len(found) ** 0.5))
        size *= 4
    return np.array(rows).reshape(-1, 3)


def evaluate_plane(density: str, log_q: Tensor, samples: Tensor) -> dict[str, float]:
    """Distances of a density on the grid, and of samples, from a density."""
    log_p = exact_log_density(density)
    scores = {"kl": PLANE.kl(log_p, log_q), "tv": PLANE.total_variation(log_p, log_q)}
    if density == "checkerboard":
        scores["on support"] = PLANE.mass(log_q, log_p > -math.inf)
        scores["samples on support"] = float(on_board(samples).double().mean())
    return scores


def exact_log_density(density: str) -> Tensor:
    """Log density on the grid, in the grid's units."""
    log_p = density_log_prob(density, PLANE.points * SCALE) + 2 * math.log(SCALE)
    return log_p.reshape(PLANE.n, PLANE.n)


def noised_log_density(density: str, noise: NoiseLevels, level: int = 0) -> Tensor:
    """Log density on the grid of the data with the noise of a level."""
    signal, width = noise.signals[level], noise.noises[level]
    log_p = density_log_prob(density, PLANE.points * SCALE / signal)
    p = log_p.exp().reshape(PLANE.n, PLANE.n).numpy()
    cell = 2 * PLANE.extent / PLANE.n
    blurred = gaussian_filter(p, width / cell, mode="constant", truncate=8)
    scale = 2 * math.log(SCALE / signal)
    return torch.from_numpy(blurred).clamp(min=0).log() + scale


def gaussian_with_moments_of(log_p: Tensor) -> Tensor:
    """Log density on the grid of the Gaussian with a density's mean and covariance."""
    p = log_p.exp().flatten() / log_p.exp().sum()
    mean = p @ PLANE.points
    away = PLANE.points - mean
    fit = torch.distributions.MultivariateNormal(mean, away.T @ (p[:, None] * away))
    return fit.log_prob(PLANE.points).reshape(log_p.shape)


def on_board(samples: Tensor) -> Tensor:
    """Which samples lie on the checkerboard, or a fiftieth of a square beside it."""
    points = samples.double() * SCALE
    shifts = MARGIN * torch.tensor(
        [[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64
    )
    near = [density_log_prob("checkerboard", points + s) > -math.inf for s in shifts]
    return torch.stack(near).any(0)


def gaussian_fit(density: str, seed: int, n: int) -> dict[str, float]:
    """Evaluate the baseline: the Gaussian with the mean and covariance of data."""
    generator = make_generator(seed)
    data = sample_density(density, 20_000, generator=generator) / SCALE
    fit = torch.distributions.MultivariateNormal(data.mean(0), data.T.cov())
    log_q = fit.log_prob(PLANE.points).reshape(PLANE.n, PLANE.n)
    white = normal(torch.empty(n, 2, dtype=torch.float64), generator=generator)
    return evaluate_plane(density, log_q, fit.loc + white @ fit.scale_tril.T)


def exact_row(density: str, seed: int, n: int) -> dict[str, float]:
    """Evaluate the density itself, and held-out data."""
    data = sample_density(density, n, generator=make_generator(seed)) / SCALE
    return evaluate_plane(density, exact_log_density(density), data)


#: Columns of the tables, and what they show.
METRICS = {
    "KL [nats]": "kl",
    "mass on the board": "on support",
    "samples on it": "samples on support",
}
