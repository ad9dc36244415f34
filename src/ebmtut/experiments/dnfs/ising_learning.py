"""Row dnfs/ising-learning (Figure 7, Table 4): couplings learned with the sampler.

Source: Ou, Zhang and Li (2025), Section 4.2 and Appendix E.2. The data are those of
the row ed/ising-rmse: the same lattices, samples and score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, OneOf, Positive, Range, checked
from ebmtut.energies import Ising
from ebmtut.experiments.dnfs.captions import means_of
from ebmtut.experiments.dnfs.magnets import coupling_scores, magnet
from ebmtut.experiments.ed.couplings import PROBLEMS, column_name
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.flows import (
    Flow,
    HollowTransformer,
    Kernel,
    OddLatticeNetwork,
    dmala_kernel,
    effective_sample_size,
    simulate,
)
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs
from ebmtut.training import FlowFollower, ResumableLoop, average_weights

__all__ = [
    "EXPERIMENT",
    "LearnedCouplings",
    "LearningConfig",
    "learn_couplings",
    "score_table",
]

METHODS = ("DNFS", "AIS", "DNFS+DMALA", "PCD")

#: What we ask: the paper's numbers, where they are above those of J = 0 by more
#: than 0.5.
OURS = {"10x10, 0.1": 4.6, "10x10, 0.2": 3.9, "9x9, -0.1": 4.6, "9x9, -0.2": 3.9}


@checked
@dataclass(frozen=True)
class LearningConfig:
    """Which lattices, and how couplings and sampler are learned together.

    Parameters
    ----------
    problems
        Pairs (side, sigma): J is sigma times the adjacency of the periodic
        side x side lattice.
    methods
        "DNFS", the flow's weighted samples; "AIS", those of annealed importance
        sampling with as many steps, which learns no sampler; "DNFS+DMALA", the flow
        with one of those steps after each of its own; and "PCD", chains that go on from one step of the couplings to the next by a Gibbs sweep, unweighted.
    n_seeds
        Independent data sets and runs; run k has seed ``seed + k``.
    n_data, n_sweeps
        Samples of the data, and Gibbs sweeps that each of them takes.
    n_steps, learning_rate
        Of the couplings, by Adam with a cosine decay.
    penalty
        Weight of the l1 norm of J in the mean energy, the paper's 0.05.
    n_flow_steps, flow_learning_rate
        Of the flow, for each step of the couplings.
    n_time_steps, n_samples
        Of a simulation.
    network
        "odd lattice", ours, with reversible rates and DMALA steps in its rollouts; or
        "leTF", the paper's, with one-way rates, ratios cut at 5 and rollouts of the
        flow alone.
    width, n_hidden
        Size of the flow's network; leTF has no hidden width of its own.
    step_size
        Of the DMALA steps: between the time steps of the flow's training
        rollouts, and of AIS.
    """

    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = ("DNFS", "AIS")
    n_seeds: Count = 1
    n_data: Count = 2000
    n_sweeps: Count = 10_000
    n_steps: Count = 600
    learning_rate: Positive = 2e-3
    penalty: Annotated[float, Range(0)] = 0.05
    n_flow_steps: Count = 3
    flow_learning_rate: Positive = 2e-3
    n_time_steps: Count = 16
    n_samples: Annotated[int, Range(16)] = 128
    network: Annotated[str, OneOf(("odd lattice", "leTF"))] = "odd lattice"
    width: Count = 16
    n_hidden: Count = 32
    step_size: Positive = 0.3


class LearnedCouplings(NamedTuple):
    """What `learn_couplings` finds.

    Attributes
    ----------
    coupling
        Average of the last couplings, symmetric with a zero diagonal.
    shares
        ESS of the samples' weights at every step.
    cpu_seconds
        Of all goes.
    """

    coupling: Float[Tensor, "n_sites n_sites"]
    shares: Float[Tensor, " n_steps"]
    cpu_seconds: float


def learn_couplings(
    x: Float[Tensor, "n_data n_sites"],
    side: int,
    method: str,
    config: LearningConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
) -> LearnedCouplings:
    """Learn the couplings of bits on a lattice by maximum likelihood.

    The gradient is the difference of the second moments of the data and of the
    sampler's weighted draws (Equation 44). The couplings know nothing of the
    lattice; the flow's network, unless it is leTF, does know that sites lie on a torus.

    Parameters
    ----------
    x
        The data; couplings and sampler are learned where they lie.
    side
        Sites a side of the lattice.
    method, config
        See `LearningConfig`.
    seed
        Of all chains.
    checkpoint
        File for the state, which `ebmtut.training.ResumableLoop` keeps; None for none.

    Raises
    ------
    DivergenceError
        If couplings are not finite; names the step.
    OutOfTime, InputError
        As in `ebmtut.training.ResumableLoop`.
    """
    generator = make_generator(seed, x.device)
    start = torch.zeros(side**2, side**2, device=x.device)
    energy = Ising(start, learnable=True)
    path = AnnealingPath(energy)
    kernel = dmala_kernel(path, config.step_size)
    sizes = config.n_samples, config.n_time_steps
    follower = None
    if method.startswith("DNFS"):
        follower = _follower(path, kernel, side, config, seed, x.device)
    adam = torch.optim.Adam(energy.parameters(), config.learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    held = {
        "averaged": torch.zeros_like(energy.coupling),
        "shares": torch.zeros(config.n_steps, device=x.device),
    }
    if method == "PCD":
        held["chains"] = path.sample_start(config.n_samples, generator=generator)
    parts: dict[str, Any] = {"energy": energy, "adam": adam, "rate": rate}
    if follower is not None:
        parts["follower"] = follower
    loop = ResumableLoop(
        checkpoint,
        {"side": side, "method": method, "seed": seed, **asdict(config)},
        parts,
        generator=generator,
        held=held,
    )
    spins = 2 * x - 1
    wanted = spins.T @ spins / len(spins)
    for step in loop.steps(config.n_steps):
        if method == "PCD":
            drawn = ising_gibbs(energy, held["chains"], 1, generator=generator)
            held["chains"], log_weights = drawn, torch.zeros_like(drawn[:, 0])
        elif follower is None:
            annealed = annealed_importance_sampling(
                path, kernel, *sizes, generator=generator
            )
            drawn, log_weights = annealed.x, annealed.log_weights.float()
        else:
            follower.fit(config.n_flow_steps, generator=generator)
            refine = kernel if method == "DNFS+DMALA" else None
            rollout = simulate(
                follower.flow, *sizes, refine=refine, generator=generator
            )
            drawn, log_weights = rollout.x, rollout.log_weights
        spins = 2 * drawn - 1
        found = (spins.T * log_weights.softmax(0)) @ spins
        with torch.no_grad():
            slope = found - wanted + config.penalty * energy.coupling.sign()
        energy.coupling.grad = slope.fill_diagonal_(0)
        adam.step()
        rate.step()
        if not bool(energy.coupling.isfinite().all()):
            raise DivergenceError(f"the couplings diverged at step {step}", step)
        held["shares"][step] = effective_sample_size(log_weights)
        average_weights([held["averaged"]], [energy.coupling], step, 0.98)
    learned = (held["averaged"] + held["averaged"].T) / 2
    return LearnedCouplings(learned, held["shares"].cpu(), loop.seconds)


def _follower(
    path: AnnealingPath,
    kernel: Kernel,
    side: int,
    config: LearningConfig,
    seed: int,
    device: torch.device,
) -> FlowFollower:
    """Begin with a flow that has learned nothing."""
    refine: Kernel | None = kernel
    if config.network == "leTF":
        network = HollowTransformer(
            side**2, width=config.width, generator=make_generator(seed)
        )
        flow = Flow(path, network.to(device), rates="one_way", max_log_ratio=5.0)
        refine = None
    else:
        odd = OddLatticeNetwork(side, width=config.width, n_hidden=config.n_hidden)
        flow = Flow(path, odd.to(device))
    return FlowFollower(
        flow,
        refine,
        n_trajectories=config.n_samples,
        n_time_steps=config.n_time_steps,
        learning_rate=config.flow_learning_rate,
    )


def learning_job(
    side: int,
    sigma: float,
    method: str,
    config: LearningConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw data of one lattice and learn its couplings.

    Returns
    -------
    outcome
        As of `coupling_scores`; the last tenth's mean ESS; CPU seconds. The couplings.
    """
    x, truth = magnet(side, sigma, config.n_data, config.n_sweeps, seed=seed)
    learned = learn_couplings(
        x.to(device), side, method, config, seed=seed, checkpoint=checkpoint
    )
    coupling = learned.coupling.cpu()
    return Outcome(
        {
            **coupling_scores(coupling, truth),
            "ESS": float(learned.shares[-len(learned.shares) // 10 :].mean()),
            "cpu s": learned.cpu_seconds,
        },
        {"coupling": coupling.numpy()},
    )


def cells(config: LearningConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and lattice."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
    return {
        (method, column_name(side, sigma)): {
            "side": side,
            "sigma": sigma,
            "method": method,
            "config": alone,
        }
        for method in config.methods
        for side, sigma in config.problems
    }


def draw_couplings(result: Result) -> Figure:
    """Draw the learned couplings of three lattices, and the scores of all."""
    table = result.scalars["table"]
    columns = list(table["DNFS"])
    shown = columns[:3]
    figure, axes = plt.subplots(
        1, len(shown) + 1, figsize=panel_size(1, len(shown) + 1, aspect=1.1)
    )
    for column, ax in zip(shown, axes, strict=False):
        sigma = float(column.split(", ")[1])
        learned = result.arrays[f"coupling/DNFS/{column}"]
        ax.imshow(learned, cmap="RdBu_r", vmin=-abs(sigma), vmax=abs(sigma))
        ax.set(title=column, xticks=[], yticks=[])
    ax, at = axes[-1], np.arange(len(columns))
    null = [table["DNFS"][column]["null"][0] for column in columns]
    ax.plot(at, null, "_", ms=12, color=COLORS["null"], label="J = 0")
    for method, mark in (("DNFS", "o"), ("AIS", "^")):
        for k, column in enumerate(columns if method in table else ()):
            values = table[method][column]["nlr"]
            color = COLORS["DNFS" if method == "DNFS" else "Gibbs"]
            name = method if k == 0 else None
            ax.plot([k] * len(values), values, mark, color=color, label=name)
    ax.set_xticks(at, [c.split(", ")[1] for c in columns], rotation=60)
    ax.set(title="−ln RMSE", xlabel="coupling σ")
    ax.legend(fontsize=6)
    return figure


def score_table(result: Result, *rivals: Result) -> Table:
    """Negative log-RMSE by lattice: ours, the paper's, and J = 0.

    Parameters
    ----------
    result
        Of this row.
    rivals
        Of another method each, on some of its lattices; adds that column, and for
        EB-GFN the paper's, too.

    Returns
    -------
    table
        A row a lattice; "flow ESS" is that of the flow at the training's end.
    """
    table = result.scalars["table"]
    lattices = list(table["DNFS"])
    paper = get_fact("dnfs/ising-learning").table("negative log-RMSE")
    columns: dict[str, list[Cell]] = {"lattice, σ": list(lattices)}
    columns["J = 0"] = [table["DNFS"][c]["null"][0] for c in lattices]
    for method, row in table.items():
        columns[method] = [mean_and_stderr(row[c]["nlr"]) for c in lattices]
    for rival in rivals:
        ((method, row),) = rival.scalars["table"].items()
        columns[method] = [
            mean_and_stderr(row[c]["nlr"]) if c in row else None for c in lattices
        ]
    columns["the paper's"] = [paper.number("DNFS", c) for c in lattices]
    if "EB-GFN" in columns:
        same = get_fact("ed/ising-rmse").table("negative log-RMSE")
        columns["its EB-GFN"] = [same.number("EB-GFN", c) for c in lattices]
    columns["flow ESS"] = [mean_and_stderr(table["DNFS"][c]["ESS"]) for c in lattices]
    words = "−ln RMSE of the couplings: higher is better." + means_of(result)
    return Table(columns, caption=words)


def check_couplings(result: Result) -> list[Verdict]:
    """Compare with the paper's numbers; where there is something to learn, ask them."""
    verdicts = []
    for column, cell in result.scalars["table"]["DNFS"].items():
        mean, stderr = mean_and_stderr(cell["nlr"])
        of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(cell["nlr"])}
        where = ("dnfs/ising-learning", "negative log-RMSE", "DNFS", column)
        verdicts.append(compare(*where, mean, **of))
        if column in OURS:
            name = f"DNFS, {column}: negative log-RMSE"
            verdicts.append(claim(name, mean, "at least", OURS[column], **of))
    return verdicts


def no_coupling(result: Result) -> Result:
    """Return J = 0 in the place of what was learned."""
    table = {
        method: {c: cell | {"nlr": cell["null"]} for c, cell in row.items()}
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="dnfs/ising-learning",
    title="Couplings and sampler, learned together",
    presets={
        "quick": LearningConfig(
            problems=((10, 0.1),),
            n_sweeps=500,
            n_steps=120,
            learning_rate=3e-3,
        ),
        "full": LearningConfig(n_seeds=2),
        # Section E.2: data, network, rates of learning, batch, penalty and ten steps of
        # the flow to one of the couplings. It prints no number of steps: ours, as are
        # the cosine to which the couplings' rate falls, their average and the loss of
        # the flow, whose c_t is the mean of a batch.
        "paper": LearningConfig(
            methods=("DNFS",),
            n_steps=50_000,
            learning_rate=1e-4,
            n_flow_steps=10,
            flow_learning_rate=1e-3,
            n_time_steps=64,
            network="leTF",
            width=128,
        ),
    },
    cells=cells,
    job=learning_job,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{name}/{cell}"},
    null=no_coupling,
    figure=draw_couplings,
    check=check_couplings,
)
