"""Experiment pmp/persistent (Appendix A): noise that changes slowly, and its effect.

The paper describes persistent PMP and reports no experiment. Here random spin glasses
are learned from samples with new noise at every step, or with noise kept in part.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import (
    Count,
    Number,
    Positive,
    Probability,
    Range,
    check_range,
    checked,
)
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, with_cells
from ebmtut.experiments.jobs import timed_loop
from ebmtut.experiments.pmp.chains import Chains, log_mmd2, start_samples, sweep_samples
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.losses import bit_moments, persistent_match_moments
from ebmtut.message_passing import (
    PersistentState,
    persistent_perturb_and_max_product,
    perturb_and_max_product,
    start_persistent,
)
from ebmtut.plotting import COLORS, DENSITY_CMAP, panel_size, plain_log
from ebmtut.random import generator_on, make_generator
from ebmtut.results import Result
from ebmtut.states import enumerate_states
from ebmtut.training import CpuClock


def spin_glass(
    n_sites: int, strength: float, *, generator: torch.Generator
) -> BoltzmannMachine:
    """Draw a glass: couplings N(0, strength^2 / n_sites), fields N(0, 0.01)."""
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    coupling = torch.randn(n_sites, n_sites, **options).triu(1)
    coupling = strength / n_sites**0.5 * (coupling + coupling.T) / 2
    field = 0.1 * torch.randn(n_sites, **options)
    return BoltzmannMachine.from_ising(Ising(coupling, field))


def sample_truth(
    truth: BoltzmannMachine, n: int, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw exact samples of a glass; also return its second moments E[x_i x_j]."""
    states = enumerate_states(truth.n_sites, dtype=torch.float64)
    probs = exact_probabilities(truth, truth.n_sites).exp()
    drawn = torch.multinomial(probs, n, replacement=True, generator=generator)
    moments = states.T @ (probs[:, None] * states)
    return states[drawn].float(), moments.float()


def moment_error(second: Tensor, moments: Tensor) -> float:
    """Root mean square difference of E[x_i x_j] over i <= j."""
    i, j = torch.triu_indices(*moments.shape)
    return float((second - moments)[i, j].square().mean().sqrt())


@checked
@dataclass(frozen=True)
class PersistentConfig:
    """Which glasses, how they are learned, how the result is evaluated."""

    sizes: tuple[Annotated[int, Range(1, 16)], ...] = (12,)
    strength: Number = 1.0
    rhos: tuple[Probability, ...] = (0.0, 0.9, 0.99, 0.999, 1.0)
    sweeps: tuple[Count, ...] = (1, 5, 25)
    n_steps: Count = 400
    learning_rate: Positive = 0.02
    n_chains: Count = 100
    n_data: Count = 20_000
    n_judged: int = 10_000
    judged_sweeps: Count = 100
    n_seeds: Count = 3

    def __post_init__(self) -> None:
        check_range("n_judged", self.n_judged, low=self.n_chains, integer=True)


def start_noise(
    rho: float | None, n_chains: int, n_sites: int, *, generator: torch.Generator
) -> Chains | PersistentState:
    """Initialise the samples of learning: PMP's if ``rho`` is None, else persistent."""
    if rho is None:
        return start_samples("PMP", n_chains, n_sites, generator=generator)
    free = BoltzmannMachine(torch.zeros(n_sites, n_sites), torch.zeros(n_sites))
    free = free.to(generator.device)
    return start_persistent(free, n_chains, init="zero", generator=generator)


def keep_noise(
    state: Chains | PersistentState,
    model: BoltzmannMachine,
    *,
    rho: float | None,
    n_sweeps: int,
    generator: torch.Generator,
) -> Chains | PersistentState:
    """Take a negative phase: PMP if ``rho`` is None, else persistent PMP."""
    of: dict[str, Any] = {"n_sweeps": n_sweeps, "generator": generator}
    if isinstance(state, Chains):
        return sweep_samples(state, model, method="PMP", **of)
    assert rho is not None
    return persistent_perturb_and_max_product(model, state, rho=rho, **of)


def persistent_job(
    n_sites: int,
    rho: float | None,
    n_sweeps: int,
    config: PersistentConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn a glass in one way, and evaluate what was learned."""
    # All runs have the same glass and the same data.
    generator = make_generator(seed)
    truth = spin_glass(n_sites, config.strength, generator=generator)
    x, moments = sample_truth(truth, config.n_data, generator=generator)
    x, moments = x.to(device), moments.to(device)
    generator = generator_on(generator, device)
    advance = partial(keep_noise, rho=rho, n_sweeps=n_sweeps, generator=generator)
    clock = CpuClock()
    which: dict[str, Any] = {"learned": [n_sites, rho, n_sweeps], "seed": seed}
    model, state = persistent_match_moments(
        x,
        advance,
        start_noise(rho, config.n_chains, n_sites, generator=generator),
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
        on_step=clock.tick,
        loop=timed_loop(checkpoint, config, clock, generator=generator, **which),
    )
    fresh = perturb_and_max_product(
        model, config.n_judged, config.judged_sweeps, init="zero", generator=generator
    )
    own = []
    for _ in range(config.n_judged // config.n_chains):
        state = advance(state, model)
        own.append(state.x)
    few = min(1000, len(fresh), len(x))
    n_messages = n_sites * (n_sites - 1) * config.n_chains
    mean = moments.diagonal()
    independent = torch.outer(mean, mean).diagonal_scatter(mean)  # bits of these means
    return Outcome(
        {
            "error": moment_error(bit_moments(fresh)[1], moments),
            "own error": moment_error(bit_moments(torch.cat(own))[1], moments),
            "log MMD^2": log_mmd2(fresh[:few], x[:few]),
            "updates": float(config.n_steps * n_sweeps * n_messages),
            "seconds": float(clock.seconds),
            "data error": moment_error(bit_moments(x)[1], moments),
            "null error": moment_error(independent, moments),
        }
    )


def cells(config: PersistentConfig) -> Cells:
    """Name a cell for every size, way of learning and number of sweeps."""
    ways = {"PMP": None} | {f"rho={rho:g}": rho for rho in config.rhos}
    alone = replace(config, sizes=(), rhos=(), sweeps=(), n_seeds=1)
    common = {"config": alone}
    return {
        (str(n), way, str(k)): {"n_sites": n, "rho": rho, "n_sweeps": k, **common}
        for n in config.sizes
        for k in config.sweeps
        for way, rho in ways.items()
    }


def draw_persistent(result: Result) -> Figure:
    """Draw the error of the moments over the cost, of new samples and of learning's."""
    (size, ways), *_ = result.scalars["table"].items()
    figure, axes = plt.subplots(1, 2, figsize=panel_size(1, 2, aspect=0.8))
    kept = [way for way in ways if way != "PMP"]
    shades = plt.get_cmap(DENSITY_CMAP)(np.linspace(0.9, 0.1, len(kept)))
    colors = {"PMP": COLORS["PMP"], **dict(zip(kept, shades, strict=True))}
    for ax, metric in zip(axes, ("error", "own error"), strict=True):
        for marker, (way, rows) in zip("so^Dv*", ways.items(), strict=False):
            cost = [np.mean(row["updates"]) / 1e6 for row in rows.values()]
            style = {"color": colors[way], "marker": marker}
            line = {"ls": "-", "lw": 2} if way == "PMP" else {"ls": "--", "lw": 1}
            curve = [np.mean(row[metric]) for row in rows.values()]
            label = way.replace("rho=", "ρ = ")
            ax.plot(cost, curve, ms=4, label=label, **style, **line)
            for at, row in zip(cost, rows.values(), strict=True):
                seeds = row[metric]
                ax.plot([at] * len(seeds), seeds, ls="", ms=2, **style)
        first = next(iter(ways["PMP"].values()))
        for name, text in (("data", "data"), ("null", "independent bits")):
            level = np.mean(first[f"{name} error"])
            ax.axhline(level, color=COLORS[name], lw=1, ls=":", label=text)
        plain_log(ax.xaxis)
        ax.set(yscale="log", xlabel="millions of message updates")
    axes[0].set_ylabel(f"{size} spins: error of moments")
    axes[0].set_title(f"new samples, {result.config['judged_sweeps']} sweeps")
    axes[1].set_title("samples of learning")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncol=3, loc="outside lower center")
    return figure


def check_persistent(result: Result) -> Verdicts:
    """What persistent noise is for, and what it costs."""
    for size, ways in result.scalars["table"].items():
        counts = [int(k) for k in ways["PMP"]]
        few, many = min(counts), max(counts)
        for k, above, below, name in (
            (few, "PMP", "rho=0.99", "with fresh noise over that at rho = 0.99"),
            (many, "rho=1", "PMP", "with frozen noise over that with fresh noise"),
        ):
            pair = (ways[way][str(k)]["error"] for way in (above, below))
            logs = [math.log(a / b) for a, b in zip(*pair, strict=True)]
            sweeps = "1 sweep" if k == 1 else f"{k} sweeps"
            label = f"{size} spins, {sweeps} a step: log of the error {name}"
            yield claim(label, logs, "at least", 0.0)


def independent_bits(result: Result) -> Result:
    """Return the error of independent bits for every way of learning."""
    return with_cells(result, lambda cell, *names: {"error": cell["null error"]})


EXPERIMENT = Experiment(
    id="pmp/persistent",
    title="Noise that is kept from step to step",
    presets={
        "quick": PersistentConfig(
            rhos=(0.0, 0.9, 0.99, 1.0), n_steps=200, n_judged=5000, n_seeds=1
        ),
        "full": PersistentConfig(n_seeds=2),
    },
    cells=cells,
    job=persistent_job,
    baseline=independent_bits,
    devices=("cpu", "cuda"),
    figure=draw_persistent,
    check=check_persistent,
    parallel=False,  # chains are spread over threads
)
