"""Row dnfs/ising-learning (Figure 7, Table 4): couplings learned with the sampler.

The data are those of the row ed/ising-rmse: the same lattices, samples and score.
Source: Ou, Zhang and Li (2025), Section 4.2 and Appendix E.2.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import flows
from ebmtut.checks import Count, DivergenceError, OneOf, Positive, Range, checked
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments.ed.couplings import PROBLEMS, cells, column_name, edge_precision
from ebmtut.experiments.experiment import Experiment, Outcome, with_cells
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pivot import range_of, ranges_of, table_of
from ebmtut.experiments.verdicts import Verdicts, claim, compare
from ebmtut.metrics import negative_log_rmse
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, OKABE_ITO, panel_size
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs
from ebmtut.training import FlowFollower, ResumableLoop, average_weights


class Method(NamedTuple):
    """Where the samples of the model come from, and what a table calls the method."""

    label: str
    sampler: Literal["flow", "annealing", "persistent chains"]
    #: Whether a DMALA step follows each time step of the flow.
    langevin: bool = False


METHODS = {
    "DNFS": Method("DNFS", "flow"),
    "AIS": Method("annealed chains", "annealing"),
    "DNFS+DMALA": Method("DNFS+DMALA", "flow", langevin=True),
    "PCD": Method("persistent chains", "persistent chains"),
}

#: Claimed: the printed numbers that exceed those of J = 0 by more than 0.5.
OURS = {"10x10, 0.1": 4.6, "10x10, 0.2": 3.9, "9x9, -0.1": 4.6, "9x9, -0.2": 3.9}

#: Methods in a picture: sign and colour.
MARKS = (
    ("DNFS", "o", COLORS["DNFS"]),
    ("DNFS+DMALA", "s", OKABE_ITO["green"]),
    ("AIS", "^", COLORS["Gibbs"]),
)


@checked
@dataclass(frozen=True)
class LearningConfig:
    """Which lattices, and how couplings and sampler are learned together."""

    #: Pairs (side, sigma): J is sigma times the adjacency of the periodic lattice.
    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = ("DNFS", "AIS")
    n_seeds: Count = 1
    n_data: Count = 2000
    #: Gibbs sweeps of each sample of the data.
    n_sweeps: Count = 10_000
    n_steps: Count = 600
    learning_rate: Positive = 2e-3
    #: Weight of the l1 norm of J in the mean energy.
    penalty: Annotated[float, Range(0)] = 0.05
    #: Of the flow, for each step of the couplings.
    n_flow_steps: Count = 3
    flow_learning_rate: Positive = 2e-3
    n_time_steps: Count = 16
    n_samples: Annotated[int, Range(16)] = 128
    #: leTF has the published recipe: one-way rates, clipped ratios, no sweeps.
    network: Annotated[str, OneOf(("odd lattice", "leTF"))] = "odd lattice"
    width: Count = 16
    n_hidden: Count = 32
    #: Of the DMALA steps, in the training of the flow and in AIS.
    step_size: Positive = 0.3


class LearnedCouplings(NamedTuple):
    """Averaged couplings, the ESS at every step, and CPU seconds."""

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
    """Learn couplings by maximum likelihood from weighted samples (Equation 44)."""
    generator = make_generator(seed, x.device)
    start = torch.zeros(side**2, side**2, device=x.device)
    energy = Ising(start, learnable=True)
    path = AnnealingPath(energy)
    kernel = flows.dmala_kernel(path, config.step_size)
    sizes = config.n_samples, config.n_time_steps
    follower, recipe = None, METHODS[method]
    if recipe.sampler == "flow":
        follower = _follower(path, kernel, side, config, seed, x.device)
    adam = torch.optim.Adam(energy.parameters(), config.learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    held = {
        "averaged": torch.zeros_like(energy.coupling),
        "shares": torch.zeros(config.n_steps, device=x.device),
    }
    if recipe.sampler == "persistent chains":
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
        if recipe.sampler == "persistent chains":
            drawn = ising_gibbs(energy, held["chains"], 1, generator=generator)
            held["chains"], log_weights = drawn, torch.zeros_like(drawn[:, 0])
        elif follower is None:
            annealed = annealed_importance_sampling(
                path, kernel, *sizes, generator=generator
            )
            drawn, log_weights = annealed.x, annealed.log_weights.float()
        else:
            refine = kernel if recipe.langevin else None
            try:
                follower.fit(config.n_flow_steps, generator=generator)
                rollout = flows.simulate(
                    follower.flow, *sizes, refine=refine, generator=generator
                )
            except DivergenceError as error:
                message = f"the couplings diverged at step {step}: {error}"
                raise DivergenceError(message, step) from error
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
        held["shares"][step] = flows.effective_sample_size(log_weights)
        average_weights([held["averaged"]], [energy.coupling], step, 0.98)
    learned = (held["averaged"] + held["averaged"].T) / 2
    return LearnedCouplings(learned, held["shares"].cpu(), loop.seconds)


def _follower(
    path: AnnealingPath,
    kernel: flows.Kernel,
    side: int,
    config: LearningConfig,
    seed: int,
    device: torch.device,
) -> FlowFollower:
    """Begin with a flow that has learned nothing."""
    refine: flows.Kernel | None = kernel
    if config.network == "leTF":
        network = flows.HollowTransformer(
            side**2, width=config.width, generator=make_generator(seed)
        )
        flow = flows.Flow(path, network.to(device), rates="one_way", max_log_ratio=5.0)
        refine = None
    else:
        odd = flows.OddLatticeNetwork(
            side, width=config.width, n_hidden=config.n_hidden
        )
        flow = flows.Flow(path, odd.to(device))
    return FlowFollower(
        flow,
        refine,
        n_trajectories=config.n_samples,
        n_time_steps=config.n_time_steps,
        learning_rate=config.flow_learning_rate,
    )


def magnet(
    side: int, sigma: float, n_data: int, n_sweeps: int, *, seed: int
) -> tuple[Float[Tensor, "n_data n_sites"], Float[Tensor, "n_sites n_sites"]]:
    """Draw data of a periodic lattice."""
    generator = make_generator(seed)
    x = ising_samples(side, sigma, n_data, n_sweeps=n_sweeps, generator=generator)
    return x, sigma * lattice_adjacency(side).to(x)


def coupling_scores(
    learned: Float[Tensor, "n_sites n_sites"], truth: Float[Tensor, "n_sites n_sites"]
) -> dict[str, float]:
    """Score couplings against the true ones."""
    return {
        "nlr": negative_log_rmse(learned, truth),
        "null": negative_log_rmse(torch.zeros_like(truth), truth),
        "precision": edge_precision(learned, truth),
    }


def learning_job(
    side: int,
    sigma: float,
    method: str,
    config: LearningConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw data of one lattice and learn its couplings."""
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


def draw_couplings(result: Result) -> Figure:
    """Draw the learned couplings of three lattices, and the scores of all."""
    table = result.scalars["table"]
    columns = list(table["DNFS"])
    sigmas = {
        column_name(*problem): problem[1] for problem in result.config["problems"]
    }
    shown = columns[:3]
    n = len(shown) + 1
    figure, axes = plt.subplots(1, n, figsize=panel_size(1, n, aspect=1.1))
    for column, ax in zip(shown, axes, strict=False):
        sigma = sigmas[column]
        learned = result.arrays[f"coupling/DNFS/{column}"]
        ax.imshow(learned, cmap="RdBu_r", vmin=-abs(sigma), vmax=abs(sigma))
        ax.set(title=column, xticks=[], yticks=[])
    ax, at = axes[-1], np.arange(len(columns))
    null = [table["DNFS"][column]["null"][0] for column in columns]
    ax.plot(at, null, "_", ms=12, color=COLORS["null"], label="J = 0")
    for shift, (method, mark, color) in zip((-0.25, 0, 0.25), MARKS, strict=True):
        for k, column in enumerate(columns if method in table else ()):
            values = table[method][column]["nlr"]
            name = _name(method) if k == 0 else None
            where = [k + shift] * len(values)
            ax.plot(where, values, mark, ms=4, color=color, label=name)
    ax.set_xticks(at, [f"{sigmas[column]:g}" for column in columns], rotation=60)
    ax.set(title="−ln RMSE", xlabel="coupling σ")
    figure.legend(ncols=4, loc="outside lower center")
    return figure


def score_table(result: Result, *studies: Result, seconds: bool = False) -> Table:
    """Negative log-RMSE by lattice, beside the printed numbers and J = 0."""
    found = dict(result.scalars["table"])
    lattices = list(found["DNFS"])
    nothing = [found["DNFS"][c]["null"][:1] for c in lattices]
    for study in studies:
        found |= study.scalars["table"]
    rows: list[list[Cell]] = [
        ["J = 0", *(range_of(v, decimals=2) for v in nothing), None]
    ]
    kinds = ["null"]
    for method, row in found.items():
        scores = [row[c]["nlr"] if c in row else None for c in lattices]
        spent = [s for cell in row.values() for s in cell["cpu s"]]
        cells: list[Cell] = [range_of(v, decimals=2) if v else None for v in scores]
        rows.append([_name(method), *cells, range_of(spent, decimals=0)])
        kinds.append(_kind(method))
    facts = {"DNFS": "dnfs/ising-learning", "EB-GFN": "ed/ising-rmse"}
    for method, row_id in facts.items():
        if method in found:
            paper = get_fact(row_id).table("negative log-RMSE")
            printed = [paper.number(method, c) for c in lattices]
            rows.append([f"{method}, paper", *printed, None])
            kinds.append("paper")
    heads = ["−ln RMSE", *lattices, *(["CPU s"] if seconds else [])]
    return table_of(
        heads,
        [row[: len(heads)] for row in rows],
        caption="−ln RMSE of the couplings, by lattice and σ: higher is better."
        + ranges_of(result),
        kinds=kinds,
    )


def ess_table(result: Result) -> Table:
    """ESS of the samples at the end of training, by method and lattice."""
    table = result.scalars["table"]
    lattices = list(table["DNFS"])
    return table_of(
        ("ESS", *lattices),
        [
            [_name(method), *(range_of(row[c]["ESS"], decimals=2) for c in lattices)]
            for method, row in table.items()
        ],
        caption="ESS of the samples at the end of training, by path weights."
        + ranges_of(result),
        kinds=[_kind(method) for method in table],
    )


def _name(method: str) -> str:
    """Return what a table calls a method, also one of another experiment."""
    return METHODS[method].label if method in METHODS else method


def _kind(method: str) -> str:
    """Mark what learns no sampler as a baseline."""
    return "null" if method in METHODS and METHODS[method].sampler != "flow" else ""


def check_couplings(result: Result) -> Verdicts:
    """Compare with the paper's numbers, and claim them where there is much to learn.

    The claims are about the flow with DMALA steps, where it is run.
    """
    table = result.scalars["table"]
    asked = "DNFS+DMALA" if "DNFS+DMALA" in table else "DNFS"
    for method in dict.fromkeys(("DNFS", asked)):
        for column, cell in table[method].items():
            if method == "DNFS":
                where = ("dnfs/ising-learning", "negative log-RMSE", "DNFS", column)
                yield compare(*where, cell["nlr"])
            if method == asked and column in OURS:
                name = f"{method}, {column}: negative log-RMSE"
                yield claim(name, cell["nlr"], "at least", OURS[column])


def no_coupling(result: Result) -> Result:
    """Return J = 0 in the place of what was learned."""
    return with_cells(result, lambda cell, *names: {"nlr": cell["null"]})


EXPERIMENT = Experiment(
    id="dnfs/ising-learning",
    title="Couplings and sampler, learned together",
    presets={
        "quick": LearningConfig(
            problems=((10, 0.1),), n_sweeps=500, n_steps=120, learning_rate=3e-3
        ),
        # DMALA steps after the flow's own were chosen in a trial on another seed.
        "full": LearningConfig(methods=("DNFS", "DNFS+DMALA", "AIS"), n_seeds=2),
        # Section E.2: data, network, rates of learning, batch, penalty and ten steps of
        # the flow to one of the couplings. It prints no number of steps. That is a
        # choice, as are the cosine to which the couplings' rate falls, their average
        # and the loss of the flow, whose c_t is the mean of a batch.
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
    baseline=no_coupling,
    figure=draw_couplings,
    check=check_couplings,
)
