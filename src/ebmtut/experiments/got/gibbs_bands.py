"""Experiment got/gibbs-bands (Figure 1): how wide the conditional distributions are."""

import math
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut import transport
from ebmtut.experiments.experiment import Experiment, Outcome, by_seed
from ebmtut.experiments.got.lines import SIDES, LineProblem, two_modes
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Result

LEVEL = 0.95


@dataclass(frozen=True)
class BandsConfig:
    """A Coulomb problem, annealed to 2 / (N l^power) at the last snapshot l."""

    n_points: int = 128
    snapshots: tuple[int, ...] = (20, 40, 60)
    power: float = 2.0
    n_seeds: int = 1


def chain_job(config: BandsConfig, seed: int, device: str = "cpu") -> Outcome:
    """Anneal one chain of a Coulomb problem and keep it at the snapshots."""
    problem = two_modes(config.n_points, "coulomb")
    exact = transport.exact_ot(*problem[1:]).value
    problem = problem.to(device)
    schedule = transport.annealed_temperatures(
        config.snapshots[-1], config.n_points, power=config.power
    )
    generator = make_generator(seed, device)
    seen, state, done = Outcome({"table": {}}), None, 0
    for n in config.snapshots:
        part = schedule[2 * done : 2 * n]
        result = transport.gibbs_ot(
            *problem[1:], part, state=state, generator=generator
        )
        state, done = result.state, n
        found = measure(result, problem, exact, float(part[-1]))
        seen.scalars["table"][str(n)] = found
        parts = {"g": state.g, "h": state.h, "U": result.U, "L": result.L}
        seen.arrays |= {f"{n}/{name}": z.cpu().numpy() for name, z in parts.items()}
    return seen


def measure(
    result: transport.GibbsOTResult,
    problem: LineProblem,
    exact: float,
    temperature: float,
) -> dict[str, float]:
    """Return what a snapshot shows; the bands hold 95 percent of each conditional."""
    _, p, q, cost = problem
    gaps = torch.cat([result.U - result.state.g, result.state.h - result.L])
    reach = -math.log(1 - LEVEL) * temperature / torch.cat([p, q])
    V = float(transport.chain_value(p, q, result.U, result.L))
    return {
        "temperature": temperature,
        "inside": float((gaps <= reach).double().mean()),
        "gap": float(gaps.quantile(LEVEL)),
        "V": V / exact - 1,
        "dual": float(transport.dual_value(p, q, cost, g=result.U)) / exact - 1,
        "range": float(torch.cat([result.U, result.L]).abs().max()),
    }


def the_problem(config: BandsConfig, seed: int) -> Outcome:
    """Return points and masses, and the exact cost."""
    x, p, q, cost = two_modes(config.n_points, "coulomb")
    arrays = {"x": x.numpy(), "p": p.numpy(), "q": q.numpy()}
    exact = transport.exact_ot(p, q, cost).value
    return Outcome({"exact": exact, "level": LEVEL}, arrays)


def draw_bands(result: Result) -> Figure:
    """Draw early samples and c-transforms over the c-transforms at the end."""
    z, table = result.arrays, result.scalars["table"]
    first, *_, last = table
    reach = -math.log(1 - result.scalars["level"]) * table[first]["temperature"][0]
    figure, axes = plt.subplots(1, 2, figsize=(4.6, 3.1), sharey=True)
    tops = [np.concatenate([z[f"{n}/U"], z[f"{n}/L"]]) for n in table]
    low, high = min(map(np.min, tops)), max(map(np.max, tops))
    margin = 0.5 * (high - low)
    for ax, name, edge, sign, mass in (
        (axes[0], "g", "U", -1, "p"),
        (axes[1], "h", "L", 1, "q"),
    ):
        limit, value = z[f"{first}/{edge}"], z[f"{first}/{name}"]
        far = limit + sign * reach / z[mass]
        ax.fill_between(z["x"], limit, far, color="#E6E6E6", lw=0)
        ax.plot(z["x"], z[f"{last}/{edge}"], color="#A6CEE3", lw=6)
        ax.plot(z["x"], limit, color=COLORS["exact"], lw=1.2)
        ax.plot(z["x"], value, ".", ms=3, color=SIDES[mass])
        ax.set(ylim=(low - margin, high + margin), xticks=[0, 0.5, 1])
        ax.set(xlabel="position x", title=f"samples {name}, c-transform {edge}")
    axes[0].set_ylabel("potential")
    for ax, edge, free in ((axes[0], "U", 0.97), (axes[1], "L", 0.17)):
        of: dict[str, Any] = {"transform": ax.transAxes, "ha": "right", "va": "top"}
        for k, (n, color) in enumerate(((first, COLORS["exact"]), (last, "#5A9BC4"))):
            text = f"{edge} after {n} iterations"
            ax.text(0.97, free - 0.09 * k, text, color=color, **of)
    return figure


def check_bands(result: Result) -> Verdicts:
    """Bands hold what they should, and get thinner; U and L stay bounded."""
    table = result.scalars["table"]
    first, *_, last = table.values()
    n_seeds = len(last["inside"])
    inside = float(np.mean([cell["inside"] for cell in table.values()]))
    n_draws = 2 * result.config["n_points"] * n_seeds * len(table)
    level = result.scalars["level"]
    error = math.sqrt(level * (1 - level) / n_draws)
    shrunk = float(np.mean(last["gap"]) / np.mean(first["gap"]))
    reach = max(max(cell["range"]) for cell in table.values())
    off, reach = abs(inside - level) / error, reach / result.scalars["exact"]
    within = "fraction of samples in the 95 percent bands: deviation in standard errors"
    gap = "distance from U or L that holds 95 percent of samples, last over first"
    widest = "largest |U| or |L|, in units of the cost"
    of: dict[str, Any] = {"n_seeds": n_seeds}
    # At whatever temperature the conditionals are those of theory.
    yield claim(within, off, "at most", 5, sanity=True, **of)
    yield claim(gap, shrunk, "at most", 0.01, **of)
    yield claim(widest, reach, "at most", 10, sanity=True, **of)  # no overflow


def before_annealing(result: Result) -> Result:
    """Return the chain as its first snapshot has it, at every snapshot."""
    table = result.scalars["table"]
    same = dict.fromkeys(table, next(iter(table.values())))
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="got/gibbs-bands",
    title="Bands of the chain",
    presets={
        "quick": BandsConfig(),
        "full": BandsConfig(n_seeds=20),
        # One chain; the paper prints neither N nor the annealing of this figure, which
        # are those of its other figures on a line.
        "paper": BandsConfig(),
    },
    # A job is a chain; the table has a row for each snapshot of it.
    cells=lambda config: {"chain": {"config": replace(config, n_seeds=1)}},
    job=chain_job,
    devices=("cpu", "cuda"),
    gather=by_seed,
    extras=the_problem,
    baseline=before_annealing,
    figure=draw_bands,
    check=check_bands,
    parallel=False,  # seconds of work
)
