"""Learning densities of the plane, judged on a grid: what two rows share."""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import DivergenceError, check_choice, check_range
from ebmtut.data import DENSITIES, density_log_prob, sample_density
from ebmtut.energies import FourierEnergy, at_level
from ebmtut.experiments.jobs import Outcome
from ebmtut.losses import DenoisingScoreMatching, RecoveryLikelihood
from ebmtut.metrics import PlaneGrid, log_partition_chain
from ebmtut.noise import NoiseLevels, geometric_noise
from ebmtut.random import make_generator, normal
from ebmtut.samplers import ConditionalChain, progressive_samples
from ebmtut.training import TrainConfig, train

__all__ = ["METHODS", "PLANE", "SCALE", "PlaneConfig", "plane_job", "plane_noise"]

METHODS = ("recovery", "short-run", "score matching")

#: The densities divided by this have about unit variance.
SCALE = 2.3
#: Where laws are judged, in those units: well beyond all data.
PLANE = PlaneGrid(3.2, 200)
#: A square of the checkerboard is 2 long: a sample this near to it is on it.
MARGIN = 0.02 * 2


@dataclass(frozen=True)
class PlaneConfig:
    """How a density of the plane is learned.

    Parameters
    ----------
    n_steps
        Optimiser steps.
    n_levels
        T.
    n_langevin
        K, steps of a training chain, for recovery likelihood and short-run alike.
    hidden, n_features
        Units of the two hidden layers; Fourier features.
    batch_size, learning_rate
        Of Adam.
    regulariser
        Weight of the mean squared energies.
    score_factor
        Steps of score matching, which runs no chains, for one of the others'.
    n_samples
        Samples by which the models are judged, of each level.
    """

    n_steps: int = 600
    n_levels: int = 6
    n_langevin: int = 10
    hidden: int = 64
    n_features: int = 32
    batch_size: int = 256
    learning_rate: float = 2e-3
    regulariser: float = 1e-3
    score_factor: int = 4
    n_samples: int = 4000

    def __post_init__(self) -> None:
        for name in ("n_steps", "n_langevin", "hidden", "n_features", "batch_size"):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("n_levels", self.n_levels, low=2, integer=True)
        check_range("score_factor", self.score_factor, low=1, integer=True)
        check_range("n_samples", self.n_samples, low=2, integer=True)
        check_range("learning_rate", self.learning_rate, low=0, include_low=False)
        check_range("regulariser", self.regulariser, low=0)


def plane_noise(method: str, n_levels: int) -> NoiseLevels:
    """Return the forward chain of a method; a single sigma of 1 is the marginal.

    Recovery likelihood learns the density itself; score matching needs noise, as
    little as a tenth of a standard deviation, on the level that is judged.
    """
    check_choice("method", method, METHODS)
    if method == "short-run":
        return NoiseLevels((1.0,))
    if method == "score matching":
        return geometric_noise(n_levels, 0.1, 4.0)
    ratios = geometric_noise(n_levels, 0.25, 4.0, noisy_data=False)
    return NoiseLevels((*ratios.sigmas[:-1], 1.0))


def plane_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn one density by one method and judge it on the grid.

    Scalars: ``kl`` to the exact density, ``tv``, ``on support`` (mass of the model
    on the checkerboard's squares), ``samples on support`` (share of the progressive
    samples there), ``log Z`` by the grid less that by the chain of ratios,
    ``log Z stderr``, and CPU ``seconds`` of training. Those of a run that diverged
    are NaN. Arrays: ``density`` (levels, n, n) and ``samples`` (levels, n, 2).
    """
    check_choice("density", density, DENSITIES)
    noise = plane_noise(method, config.n_levels)
    generator = make_generator(seed)
    energy = FourierEnergy(
        2,
        noise.n_levels,
        config.hidden,
        2,
        config.n_features,
        3.0,
        generator=generator,
    )
    recovery = RecoveryLikelihood(
        noise,
        # Short-run chains cannot be adjusted: from white noise, a test would let
        # them stand still.
        ConditionalChain(config.n_langevin, 0.7 if method == "recovery" else 0.1)
        if method != "short-run"
        else ConditionalChain(config.n_langevin, 0.2, adjusted=False),
        regulariser=config.regulariser,
        target_acceptance=0.7 if method == "recovery" else None,
    )
    loss = DenoisingScoreMatching(noise) if method == "score matching" else recovery

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return (sample_density(density, n, generator=generator) / SCALE).float()

    # Score matching runs no chains: the same CPU time is worth more steps.
    factor = config.score_factor if method == "score matching" else 1
    n_steps = factor * config.n_steps
    started = time.process_time()
    try:
        trained = train(
            energy,
            loss,
            sample,
            TrainConfig(
                n_steps,
                config.batch_size,
                config.learning_rate,
                precision="float32",
            ),
            generator=generator,
            buffers={"step_sizes": recovery.step_sizes},
            checkpoint=checkpoint,
            identity={
                "method": method,
                "density": density,
                "config": asdict(config),
                "seed": seed,
            },
        ).energy
    except DivergenceError as error:
        return Outcome({"stopped": float(error.step), "kl": math.nan})
    seconds = time.process_time() - started

    steps = tuple(recovery.step_sizes.tolist())
    if method == "score matching":
        chain = ConditionalChain(config.n_langevin, 0.3)
    else:
        chain = ConditionalChain(
            config.n_langevin, steps, adjusted=method == "recovery"
        )
    start = normal(torch.empty(config.n_samples, 2), generator=generator)
    samples = progressive_samples(trained, noise, start, chain, generator=generator)
    energies = [PLANE.energies(at_level(trained, t)) for t in range(noise.n_levels)]
    judged = judge_plane(density, -energies[0], samples[0])
    bound = log_partition_chain(trained, samples).levels[0]
    return Outcome(
        judged
        | {
            "log Z error": bound.value - PLANE.log_partition(energies[0]),
            "log Z stderr": bound.stderr,
            "seconds": seconds,
        },
        {
            "density": torch.stack([PLANE.log_density(e) for e in energies])
            .half()
            .numpy(),
            "samples": samples[:, :2000].half().numpy(),
            "step_sizes": np.array(steps),
        },
    )


def judge_plane(density: str, log_q: Tensor, samples: Tensor) -> dict[str, float]:
    """Distances of a law on the grid, and of samples, from a density."""
    log_p = exact_log_density(density)
    judged = {"kl": PLANE.kl(log_p, log_q), "tv": PLANE.total_variation(log_p, log_q)}
    if density == "checkerboard":
        judged["on support"] = PLANE.mass(log_q, log_p > -math.inf)
        judged["samples on support"] = float(on_board(samples).double().mean())
    return judged


def exact_log_density(density: str) -> Tensor:
    """Log density on the grid, in the grid's units."""
    log_p = density_log_prob(density, PLANE.points * SCALE) + 2 * math.log(SCALE)
    return log_p.reshape(PLANE.n, PLANE.n)


def on_board(samples: Tensor) -> Tensor:
    """Which samples lie on the checkerboard, or a fiftieth of a square beside it."""
    points = samples.double() * SCALE
    shifts = MARGIN * torch.tensor(
        [[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64
    )
    near = [density_log_prob("checkerboard", points + s) > -math.inf for s in shifts]
    return torch.stack(near).any(0)


def gaussian_fit(density: str, seed: int, n: int) -> dict[str, float]:
    """Judge the null: the Gaussian with the mean and covariance of data."""
    generator = make_generator(seed)
    data = sample_density(density, 20_000, generator=generator) / SCALE
    law = torch.distributions.MultivariateNormal(data.mean(0), data.T.cov())
    log_q = law.log_prob(PLANE.points).reshape(PLANE.n, PLANE.n)
    white = normal(torch.empty(n, 2, dtype=torch.float64), generator=generator)
    return judge_plane(density, log_q, law.loc + white @ law.scale_tril.T)


def exact_row(density: str, seed: int, n: int) -> dict[str, float]:
    """Judge the truth: the density itself, and fresh data."""
    data = sample_density(density, n, generator=make_generator(seed)) / SCALE
    return judge_plane(density, exact_log_density(density), data)
