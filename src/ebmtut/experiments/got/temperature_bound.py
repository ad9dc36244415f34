"""Row got/temperature-bound: Eq. 24 along runs, and Theorem A.2 by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.got.lines import LineProblem, two_modes
from ebmtut.experiments.got.martingale_tails import check_tails, draw_tails, simulate
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.random import make_generator
from ebmtut.results import Result, Table
from ebmtut.results.tables import Cell
from ebmtut.transport import (
    BoundedRun,
    bounded_gibbs_ot,
    constant_temperatures,
    dual_value,
    exact_ot,
    gibbs_ot,
    paper_cooling,
    temperature_bound,
)

__all__ = [
    "EXPERIMENT",
    "TemperatureBoundConfig",
    "bound_job",
    "bounds_along",
    "looks_table",
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


def cells(config: TemperatureBoundConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every way of cooling and every budget."""
    ways: dict[str, float | None] = {f"followed, {f:g}": f for f in config.fractions}
    ways["geometric"] = None
    alone = replace(config, budgets=(), fractions=(), n_seeds=1)
    return {
        (name, str(n)): {"fraction": fraction, "budget": n, "config": alone}
        for name, fraction in ways.items()
        for n in config.budgets
    }


def bound_job(
    fraction: float | None,
    budget: int,
    config: TemperatureBoundConfig,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Return what the dual value lacks after a run that follows its bound, or cools."""
    problem = two_modes(config.n_points)
    exact = exact_ot(*problem[1:])
    problem = problem.to(device)
    if fraction is None:
        schedule, generator = cooling(budget, config), make_generator(seed, device)
        result = gibbs_ot(*problem[1:], schedule, generator=generator)
    else:
        result = follow(problem, config, budget, fraction, seed).result
    value = float(dual_value(*problem[1:], g=result.U))
    return Outcome({"dual": 1 - value / exact.value})


def bounds_and_tails(config: TemperatureBoundConfig, seed: int) -> Outcome:
    """Follow the bound along three kinds of run, and simulate the theorem.

    Returns
    -------
    outcome
        ``equilibrium``, the mean bound over T in long runs at constant T; temperatures
        and bounds of the runs; what `simulate` returns.
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
    strayed, simulated = simulate(
        config.chain_points,
        config.chain_iterations,
        config.n_chains,
        start=config.start,
        epsilon=config.epsilon,
        seed=seed,
    )
    settled = {"equilibrium": equilibrium(problem, hot, config, seed)}
    return Outcome(settled | strayed, arrays | simulated)


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
    bounds
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
    """Let the temperature follow the bound for n iterations, where the problem is."""
    return bounded_gibbs_ot(
        *problem[1:],
        n,
        start=config.start / config.n_points,
        fraction=fraction,
        every=config.every,
        generator=make_generator(seed, problem.p.device),
    )


_TITLES = {
    "constant": "constant T",
    "geometric": "geometric cooling",
    "followed": "T follows the bound",
}


def draw_temperature_bound(result: Result) -> Figure:
    """Draw T and its bound along three runs, and the tails of the martingale."""
    z = result.arrays
    figure = plt.figure(figsize=(TEXT_WIDTH, 4.6))
    grid = figure.add_gridspec(2, 6)
    first = None
    for k, (name, title) in enumerate(_TITLES.items()):
        ax = figure.add_subplot(grid[0, 2 * k : 2 * k + 2], sharey=first)
        first = first or ax
        temperature, bounds = z[f"{name}/temperature"], z[f"{name}/bound"][0]
        n = result.config["every"] * np.arange(1, len(temperature) + 1)
        ax.plot(n, temperature, color=COLORS["exact"], label="T")
        seen = np.where(bounds > 0, bounds, np.nan)
        ax.plot(n, seen, ".", ms=3, color=COLORS["Gibbs-OT"], label="bound")
        ax.set(title=title, yscale="log", xlabel="iteration")
        if k:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("temperature")
            ax.legend(markerscale=3, loc="lower left")
    below = (figure.add_subplot(grid[1, :3]), figure.add_subplot(grid[1, 3:]))
    draw_tails(result, *below)
    return figure


def looks_table(
    problem: LineProblem,
    fractions: Sequence[float],
    looks: Sequence[int],
    *,
    n_iterations: int = 1000,
    n_seeds: int = 5,
    seed: int = 0,
) -> Table:
    """Write what prices lack whose temperature followed a fraction of its bound.

    Parameters
    ----------
    problem
        From a cold start at 2 / N.
    fractions
        Eta, a column each.
    looks
        Numbers of iterations between two looks at the bound, a row each.
    n_iterations
        In all.
    n_seeds, seed
        Chains, and the first one's seed.
    """
    _, p, q, cost = problem
    optimum = exact_ot(p, q, cost).value

    def lack(fraction: float, every: int, k: int) -> float:
        run = bounded_gibbs_ot(
            p,
            q,
            cost,
            n_iterations,
            start=2 / len(p),
            fraction=fraction,
            every=every,
            generator=make_generator(seed + k),
        )
        found = dual_value(p, q, cost, g=run.result.U)
        return 100 * (1 - float(found) / optimum)

    columns: dict[str, list[Cell]] = {"a look": [f"every {n}" for n in looks]}
    for fraction in fractions:
        columns[f"η = {fraction:g}"] = [
            float(np.median([lack(fraction, n, k) for k in range(n_seeds)]))
            for n in looks
        ]
    return Table(
        columns,
        caption=f"Lacking after {n_iterations} iterations, percent, "
        f"median of {n_seeds}",
    )


def check_temperature_bound(result: Result) -> list[Verdict]:
    """At equilibrium the bound is T; r is a martingale; tails lie below bounds."""
    equilibrium = result.scalars["equilibrium"]
    return [
        claim(
            "bound over T at constant T, off one",
            abs(float(np.mean(equilibrium)) - 1),
            "at most",
            0.1,
            n_seeds=len(equilibrium),
            sanity=True,  # an identity, which a chain that cools slowly keeps, too
        ),
        *check_tails(result),
    ]


EXPERIMENT = Experiment(
    id="got/temperature-bound",
    title="The bound on the temperature",
    presets={
        "quick": TemperatureBoundConfig(),
        "full": TemperatureBoundConfig(n_seeds=20, n_chains=20_000),
    },
    cells=cells,
    job=bound_job,
    devices=("cpu", "cuda"),
    extras=bounds_and_tails,
    figure=draw_temperature_bound,
    check=check_temperature_bound,
    parallel=False,  # seconds of work
)
