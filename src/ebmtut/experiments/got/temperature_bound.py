"""Experiment got/temperature-bound: Eq. 24 along runs, Theorem A.2 by simulation."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.experiments.experiment import Cells, Experiment, Outcome
from ebmtut.experiments.got.lines import LineProblem, Method, two_modes
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Result

K_LARGEST = 3.0  # of the tails, in units of the root of the sum of a_n^2
_SIDES = {"below": "Eq. 25", "above": "Eq. 26"}


@dataclass(frozen=True)
class TemperatureBoundConfig:
    """Which runs are watched, and how the martingale is simulated."""

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


def methods_of(config: Mapping[str, Any]) -> list[Method]:
    """Return the schedules of a configuration; 0 follows no bound."""
    names = [(f"followed, {f:g}", f"η = {f:g}", f) for f in config["fractions"]]
    names.append(("geometric", "geometric", 0.0))
    return [Method(key, label, "Gibbs-OT", f) for key, label, f in names]


def cells(config: TemperatureBoundConfig) -> Cells:
    """Name a cell for every schedule and every budget."""
    alone = replace(config, budgets=(), fractions=(), n_seeds=1)
    return {
        (m.key, str(n)): {"fraction": m.parameter, "budget": n, "config": alone}
        for m in methods_of(asdict(config))
        for n in config.budgets
    }


def bound_job(
    fraction: float,
    budget: int,
    config: TemperatureBoundConfig,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Return the duality gap after a run that follows its bound, or is annealed."""
    problem = two_modes(config.n_points)
    exact = transport.exact_ot(*problem[1:])
    problem = problem.to(device)
    if not fraction:
        schedule, generator = annealing(budget, config), make_generator(seed, device)
        result = transport.gibbs_ot(*problem[1:], schedule, generator=generator)
    else:
        result = follow(problem, config, budget, fraction, seed).result
    value = float(transport.dual_value(*problem[1:], g=result.U))
    return Outcome({"dual": 1 - value / exact.value})


def bounds_and_tails(config: TemperatureBoundConfig, seed: int) -> Outcome:
    """Follow the bound along three kinds of run, and simulate the theorem."""
    problem = two_modes(config.n_points)
    hot = config.start / config.n_points
    n, every = config.n_iterations, config.every
    constant = transport.constant_temperatures(hot, n)
    schedules = {"constant": constant, "geometric": annealing(n, config)}
    arrays: dict[str, np.ndarray] = {}
    for name, schedule in schedules.items():
        seeds = range(seed, seed + config.n_seeds)
        runs = [
            bounds_along(problem, schedule, every=every, generator=make_generator(one))
            for one in seeds
        ]
        arrays[f"{name}/bound"] = torch.stack(runs).numpy()
        arrays[f"{name}/temperature"] = schedule[2 * every - 1 :: 2 * every].numpy()
    followed = follow(problem, config, n, config.fractions[0], seed)
    arrays["followed/bound"] = followed.bounds.numpy()[None]
    arrays["followed/temperature"] = followed.temperatures.numpy()[every - 1 :: every]
    strayed, simulated = simulate(config, seed)
    settled = {"equilibrium": equilibrium(problem, hot, config, seed)}
    return Outcome(settled | strayed, arrays | simulated)


def bounds_along(
    problem: LineProblem, schedule: Tensor, *, every: int, generator: torch.Generator
) -> Tensor:
    """Return the bound of Eq. 24 after every few iterations of a run."""
    _, p, q, cost = problem
    state, bounds = None, []
    for part in schedule.split(2 * every):
        result = transport.gibbs_ot(p, q, cost, part, state=state, generator=generator)
        state = result.state
        bounds.append(
            transport.temperature_bound(p, q, cost, result.U, result.L, float(part[-1]))
        )
    return torch.stack(bounds)


def equilibrium(
    problem: LineProblem, hot: float, config: TemperatureBoundConfig, seed: int
) -> list[float]:
    """Return the mean bound over T in the second half of long runs at constant T."""
    schedule = transport.constant_temperatures(hot, config.n_long)
    means = []
    for k in range(config.n_seeds):
        generator = make_generator(seed + k)
        bounds = bounds_along(problem, schedule, every=2, generator=generator)
        means.append(float(bounds[len(bounds) // 2 :].mean()) / hot)
    return means


def annealing(n: int, config: TemperatureBoundConfig) -> Tensor:
    """Return n iterations of the geometric schedule."""
    return transport.annealed_temperatures(
        n, config.n_points, start=config.start, power=2.0
    )


def follow(
    problem: LineProblem,
    config: TemperatureBoundConfig,
    n: int,
    fraction: float,
    seed: int,
) -> transport.BoundedRun:
    """Let the temperature follow the bound for n iterations, where the problem is."""
    return transport.bounded_gibbs_ot(
        *problem[1:],
        n,
        start=config.start / config.n_points,
        fraction=fraction,
        every=config.every,
        generator=make_generator(seed, problem.p.device),
    )


def draw_temperature_bound(result: Result) -> Figure:
    """Draw T and its bound along three runs, and the tails of the martingale."""
    z = result.arrays
    figure = plt.figure(figsize=(4.6, 6.6))
    grid = figure.add_gridspec(3, 2)
    first = None
    titles = ("constant T", "geometric annealing", "T follows the bound")
    names = ("constant", "geometric", "followed")
    for k, (name, title) in enumerate(zip(names, titles, strict=True)):
        ax = figure.add_subplot(grid[k // 2, k % 2], sharey=first)
        first = first or ax
        temperature, bounds = z[f"{name}/temperature"], z[f"{name}/bound"][0]
        n = result.config["every"] * np.arange(1, len(temperature) + 1)
        ax.plot(n, temperature, color=COLORS["exact"], label="T")
        seen = np.where(bounds > 0, bounds, np.nan)
        ax.plot(n, seen, ".", ms=3, color=COLORS["Gibbs-OT"], label="bound")
        ax.set(title=title, yscale="log", xlabel="iteration")
        if k % 2:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("temperature")
        if not k:
            ax.legend(markerscale=3, loc="lower left")
    draw_tails(result, figure.add_subplot(grid[1, 1]), figure.add_subplot(grid[2, :]))
    return figure


def check_temperature_bound(result: Result) -> Verdicts:
    """At equilibrium the bound is T; r is a martingale; tails lie below bounds.

    All of it is proved: these guard against a broken computation.
    """
    equilibrium = result.scalars["equilibrium"]
    off, n = abs(float(np.mean(equilibrium)) - 1), len(equilibrium)
    name = "deviation of the bound over T from one, at constant T"
    # An identity, which a chain that cools slowly keeps, too.
    yield claim(name, off, "at most", 0.1, n_seeds=n, sanity=True)
    z, n_chains = result.arrays, result.config["n_chains"]
    of: dict[str, Any] = {"n_seeds": n_chains, "sanity": True}
    name = "mean of r^n - r^1, in standard errors, the largest over n"
    yield claim(name, result.scalars["drift"], "at most", 5, **of)
    for side, equation in _SIDES.items():
        # At K = 0 every tail is about a half and its bound one.
        ratio = float((z[side] / z[f"{side}_bound"])[1:].max())
        name = f"tail of r^2N over its bound, the largest over K > 0, {equation}"
        # Far from sharp: a process that hardly moves keeps it, too.
        yield claim(name, ratio, "at most", 1, **of)


def simulate(
    config: TemperatureBoundConfig, seed: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Simulate the martingale of a chain that cools, on the line."""
    n_points, n_chains = config.chain_points, config.n_chains
    schedule = transport.annealed_temperatures(
        config.chain_iterations, n_points, start=config.start, power=1.0
    )
    how: Any = {"n_chains": n_chains, "generator": make_generator(seed)}
    task = *two_modes(n_points)[1:], schedule
    martingale = transport.simulate_martingale(*task, **how)
    arrays = tails(martingale, schedule, n_points, config.epsilon)
    arrays["r"] = martingale.r[:40].numpy().astype(np.float32)
    moves = martingale.r[:, 1:] - martingale.r[:, :1]
    error = moves.std(0) / n_chains**0.5
    scalars = {
        "drift": float((moves.mean(0) / error).abs().max()),
        "spread": float(moves[:, -1].std()) / float(arrays["K"][-1] / K_LARGEST),
    }
    return scalars, arrays


def tails(
    martingale: transport.Martingale, schedule: Tensor, n_largest: int, epsilon: float
) -> dict[str, np.ndarray]:
    """Tail probabilities of r^2N - r^1 beside Eqs. 25 and 26.

    The theorem takes its a_n as fixed beforehand. Here they are the largest
    C^n T^(n) of all simulated chains, the smallest that (25) allows.
    """
    steps = schedule[:-1]
    a = (martingale.c[:, :-1] * steps).amax(0)
    log_term = math.log(len(schedule) * n_largest / epsilon)
    gamma = float(((log_term * steps + martingale.d[:, :-1]).amax(0) / a).max())
    move = martingale.r[:, -1] - martingale.r[:, 0]
    scale = float(a.square().sum().sqrt())
    K = torch.linspace(0, K_LARGEST, 61, dtype=a.dtype) * scale
    bound = torch.exp(-((K / scale) ** 2) / 2)
    return {
        "K": K.numpy(),
        "below": (move < -K[:, None]).double().mean(1).numpy(),
        "below_bound": bound.numpy(),
        "above": (move > gamma * K[:, None]).double().mean(1).numpy(),
        "above_bound": (bound + epsilon).numpy(),
        "gamma": np.array(gamma),
    }


def draw_tails(result: Result, paths: Axes, ax: Axes) -> None:
    """Draw forty paths of the martingale, and its tails beside their bounds."""
    z = result.arrays
    r = z["r"] - z["r"][:, :1]
    paths.plot(np.arange(1, r.shape[1] + 1), r.T, color=COLORS["Gibbs-OT"], lw=0.5)
    paths.axhline(0, color=COLORS["exact"], lw=1)
    paths.set(xlabel="half step n", ylabel="$r^n - r^1$", title="forty martingales")
    for side, color in (("below", "Gibbs-OT"), ("above", "Sinkhorn")):
        label = _SIDES[side]
        chance = np.where(z[side] > 0, z[side], np.nan)
        ax.plot(z["K"], chance, color=COLORS[color], label=f"{label}, simulated")
        bound = z[f"{side}_bound"]
        ax.plot(z["K"], bound, "--", color=COLORS[color], label=f"{label}, bound")
    ax.set(yscale="log", xlabel="K", ylabel="probability", title="tails")
    ax.legend()


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
