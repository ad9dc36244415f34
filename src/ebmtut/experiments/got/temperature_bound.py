"""Row got/temperature-bound: Eq. 24 along runs, and Theorem A.2 by simulation."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from ebmtut.experiments.got.couplings import Scalars, note
from ebmtut.experiments.got.lines import LineProblem, two_modes
from ebmtut.experiments.got.martingale import K_LARGEST, tails
from ebmtut.experiments.got.temperature_bound_reports import (
    check_temperature_bound,
    draw_temperature_bound,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.transport import (
    BoundedRun,
    bounded_gibbs_ot,
    constant_temperatures,
    dual_value,
    exact_ot,
    gibbs_ot,
    paper_cooling,
    simulate_martingale,
    temperature_bound,
)

__all__ = [
    "TEMPERATURE_BOUND",
    "TemperatureBoundConfig",
    "bounds_along",
    "run_temperature_bound",
]


@dataclass(frozen=True)
class TemperatureBoundConfig:
    """Which runs are watched, and how the martingale is simulated.

    Parameters
    ----------
    n_points
        N, points of the line, two laws of two modes.
    n_iterations
        Of the runs whose bound is followed.
    every
        Iterations between two looks at the bound.
    n_long
        Iterations at constant T over which the bound is averaged.
    start
        The first temperature, in units of 1 / N.
    budgets
        Iterations of the runs that are judged.
    fractions
        eta: the temperature follows this part of the bound; the first is
        drawn.
    n_seeds
        Runs of each kind.
    chain_points, chain_iterations, n_chains
        Points, iterations and chains of the martingale.
    epsilon
        Of Eq. 26.
    """

    n_points: int = 128
    n_iterations: int = 200
    every: int = 5
    n_long: int = 2000
    start: float = 2.0
    budgets: tuple[int, ...] = (50, 200, 1000)
    fractions: tuple[float, ...] = (0.5, 0.1, 0.9)
    n_seeds: int = 2
    chain_points: int = 16
    chain_iterations: int = 20
    n_chains: int = 2000
    epsilon: float = 0.01


def bounds_along(
    problem: LineProblem, schedule: Tensor, *, every: int, generator: torch.Generator
) -> Tensor:
    """Return the bound of Eq. 24 after every few iterations of a run.

    Parameters
    ----------
    problem
        A problem on the line.
    schedule
        T^(1), ..., T^(2N).
    every
        Iterations between two looks.
    generator
        Of the chain.

    Returns
    -------
    Tensor
        Shape ``(N // every,)``.
    """
    _, p, q, cost = problem
    state, bounds = None, []
    for part in schedule.split(2 * every):
        result = gibbs_ot(p, q, cost, part, state=state, generator=generator)
        state = result.state
        bounds.append(
            temperature_bound(p, q, cost, result.U, result.L, float(part[-1]))
        )
    return torch.stack(bounds)


def run_temperature_bound(
    config: TemperatureBoundConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
) -> Result:
    """Follow the bound, let the temperature follow it, simulate the theorem.

    Returns
    -------
    Result
        ``scalars["table"][cooling][budget]`` lists over the seeds what the
        dual value lacks; ``scalars["equilibrium"]`` the mean bound over T in
        long runs at constant T; ``scalars["drift"]`` the mean
        of r^n - r^1 in standard errors, the largest over n;
        ``scalars["spread"]`` the deviation of r^2N - r^1 over the scale of
        its bound. Arrays: temperatures and bounds of three kinds of run,
        forty paths ``r``, and what `tails` returns.
    """
    problem = two_modes(config.n_points)
    hot = config.start / config.n_points
    n, every = config.n_iterations, config.every
    schedules = {
        "constant": constant_temperatures(hot, n),
        "geometric": cooling(n, config),
    }
    arrays: dict[str, np.ndarray] = {}
    for name, schedule in schedules.items():
        runs = [
            bounds_along(
                problem, schedule, every=every, generator=make_generator(seed + k)
            )
            for k in range(config.n_seeds)
        ]
        arrays[f"{name}/bound"] = torch.stack(runs).numpy()
        arrays[f"{name}/temperature"] = schedule[2 * every - 1 :: 2 * every].numpy()
    followed = follow(problem, config, n, config.fractions[0], seed)
    arrays["followed/bound"] = followed.bounds.numpy()[None]
    arrays["followed/temperature"] = followed.temperatures.numpy()[every - 1 :: every]
    moves, simulated = simulate(config, seed)
    arrays |= simulated
    error = moves.std(0) / config.n_chains**0.5
    scalars = {
        "table": judged(problem, config, seed),
        "equilibrium": equilibrium(problem, hot, config, seed),
        "drift": float((moves.mean(0) / error).abs().max()),
        "spread": float(moves[:, -1].std()) / float(arrays["K"][-1] / K_LARGEST),
    }
    return Result("got/temperature-bound", "quick", asdict(config), scalars, arrays)


def equilibrium(
    problem: LineProblem, hot: float, config: TemperatureBoundConfig, seed: int
) -> list[float]:
    """Return the mean bound over T in the second half of long runs at constant T."""
    schedule = constant_temperatures(hot, config.n_long)
    means = []
    for k in range(config.n_seeds):
        generator = make_generator(seed + k)
        bounds = bounds_along(problem, schedule, every=2, generator=generator)
        means.append(float(bounds[len(bounds) // 2 :].mean()) / hot)
    return means


def cooling(n: int, config: TemperatureBoundConfig) -> Tensor:
    """Return n iterations of the geometric cooling that the followers rival."""
    return paper_cooling(n, config.n_points, start=config.start, power=2.0)


def follow(
    problem: LineProblem,
    config: TemperatureBoundConfig,
    n: int,
    fraction: float,
    seed: int,
) -> BoundedRun:
    """Let the temperature follow the bound for n iterations."""
    return bounded_gibbs_ot(
        *problem[1:],
        n,
        start=config.start / config.n_points,
        fraction=fraction,
        every=config.every,
        generator=make_generator(seed),
    )


def judged(
    problem: LineProblem, config: TemperatureBoundConfig, seed: int
) -> dict[str, dict[str, Scalars]]:
    """Return what the dual value lacks, by cooling and budget."""
    _, p, q, cost = problem
    optimum = exact_ot(p, q, cost).value
    table: dict[str, dict[str, Scalars]] = {}
    for n in config.budgets:
        for k in range(config.n_seeds):
            runs = {
                f"followed, {f:g}": follow(problem, config, n, f, seed + k).result
                for f in config.fractions
            }
            generator = make_generator(seed + k)
            geometric = cooling(n, config)
            runs["geometric"] = gibbs_ot(p, q, cost, geometric, generator=generator)
            for name, result in runs.items():
                cell = table.setdefault(name, {}).setdefault(str(n), {})
                value = float(dual_value(p, q, cost, g=result.U))
                note(cell, {"dual": 1 - value / optimum})
    return table


def simulate(
    config: TemperatureBoundConfig, seed: int
) -> tuple[Tensor, dict[str, np.ndarray]]:
    """Simulate the martingale: r^n - r^1, and its tails with some of its paths."""
    small = two_modes(config.chain_points)
    schedule = paper_cooling(
        config.chain_iterations, config.chain_points, start=config.start, power=1.0
    )
    martingale = simulate_martingale(
        *small[1:],
        schedule,
        n_chains=config.n_chains,
        generator=make_generator(seed),
    )
    arrays = tails(martingale, schedule, config.chain_points, config.epsilon)
    arrays["r"] = martingale.r[:40].numpy().astype(np.float32)
    return martingale.r[:, 1:] - martingale.r[:, :1], arrays


TEMPERATURE_BOUND = Experiment(
    id="got/temperature-bound",
    title="The bound on the temperature",
    presets={
        "quick": TemperatureBoundConfig(),
        "full": TemperatureBoundConfig(n_seeds=20, n_chains=20_000),
    },
    run=run_temperature_bound,
    figure=draw_temperature_bound,
    check=check_temperature_bound,
)
