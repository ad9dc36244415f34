"""Row dnfs/ebm-training (Figures 6, 16): an energy and its sampler, learned together.

With eight bits likelihoods and distances are sums over 256 states.
Source: Ou, Zhang and Li (2025), Section 4.2; EB-GFN: Zhang et al. (2022).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, InputError, OneOf, Range, checked
from ebmtut.data import DENSITIES
from ebmtut.energies import MLPEnergy
from ebmtut.experiments.dnfs.captions import range_of, ranges_of
from ebmtut.experiments.dnfs.planes import METHODS as SAMPLERS
from ebmtut.experiments.dnfs.planes import (
    TableEnergy,
    draw_pictures,
    entropy,
    independent_bits,
    new_flow,
    plane_distribution,
    plane_picture,
    scores,
    shown_densities,
)
from ebmtut.experiments.dnfs.wide_planes import BITS, LISTED, wide_joint
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    Kernel,
    flow_distributions,
    gibbs_kernel,
    reverse_elbo,
    simulate,
    terminal_distribution,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.schedules import cosine
from ebmtut.states import enumerate_states
from ebmtut.training import (
    EBGFNConfig,
    FlowFollower,
    ResumableLoop,
    average_weights,
    train_eb_gfn,
)

METHODS = ("DNFS", "EB-GFN")


#: Claimed of the energy: the KL from the data, in nats.
GAP = 0.05


@checked
@dataclass(frozen=True)
class JointConfig:
    """How an energy and its sampler are learned together."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = DENSITIES
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    #: Bits per coordinate: 2 to 6; or 16, by `wide_joint` and with "DNFS" alone.
    n_bits: Annotated[int, Range(2, BITS)] = 4
    n_seeds: Count = 1
    n_steps: Count = 1100
    #: Of the flow for each step of the energy.
    n_flow_steps: Count = 1
    #: Of the flow alone, for the averaged energy.
    n_last: Count = 1000
    n_time_steps: Count = 16
    n_samples: Count = 512
    #: Steps of the energy for which one set of samples serves.
    n_reused: Count = 5
    width: int = 32
    n_layers: int = 1
    learning_rate: float = 3e-3
    energy_learning_rate: float = 2e-2
    gflownet: EBGFNConfig = field(default_factory=EBGFNConfig)

    def __post_init__(self) -> None:
        if LISTED < self.n_bits < BITS:
            raise InputError(
                f"n_bits must be 2 to {LISTED}, or {BITS}, got {self.n_bits}"
            )
        if self.n_bits == BITS and (self.n_reused > 1 or "EB-GFN" in self.methods):
            raise InputError(
                f"n_bits must be at most {LISTED} with n_reused > 1 or EB-GFN, "
                f"got {BITS}"
            )


@runtime_checkable
class Sampler(Protocol):
    """Where the energy's negative samples come from."""

    def learn(self, n_steps: int, share: float, *, generator: torch.Generator) -> None:
        """Take some steps at a fraction of the learning rate."""

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states and log-weights for the energy as it is."""

    def state_dict(self) -> dict[str, Any]:
        """Return what has been learned."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it back."""


S = TypeVar("S", bound=Sampler)


class _FlowSampler:
    """A flow, with a Gibbs sweep after each of its steps."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.follower = _follower(energy, config, seed)
        self.config = config

    def learn(self, n_steps: int, share: float, *, generator: torch.Generator) -> None:
        self.follower.fit(n_steps, share=share, generator=generator)

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = simulate(
            self.follower.flow,
            self.config.n_samples,
            self.config.n_time_steps,
            refine=self.follower.refine,
            generator=generator,
        )
        return drawn.x, drawn.log_weights

    def state_dict(self) -> dict[str, Any]:
        return self.follower.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.follower.load_state_dict(state_dict)


def learned_jointly(
    data: Tensor,
    config: JointConfig,
    seed: int,
    make: Callable[[TableEnergy, JointConfig, int], S],
    checkpoint: Path | None,
    *,
    generator: torch.Generator,
) -> tuple[TableEnergy, S, float]:
    """Return the averaged energy, its sampler and the CPU seconds."""
    x_all = enumerate_states(2 * config.n_bits).float().to(data.device)
    energy = MLPEnergy(2 * config.n_bits, 128, 3, generator=make_generator(seed))
    energy = energy.to(data.device)
    averaged = copy.deepcopy(energy)
    adam = torch.optim.Adam(energy.parameters(), config.energy_learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    n = config.n_samples
    with torch.no_grad():
        known = TableEnergy(energy(x_all), 2 * config.n_bits)
    sampler = make(known, config, seed)
    held: dict[str, Tensor] = {}
    parts: dict[str, Any] = {
        "energy": energy,
        "averaged": averaged,
        "adam": adam,
        "rate": rate,
        "sampler": sampler,
    }
    loop = ResumableLoop(
        checkpoint,
        {"sampler": make.__name__, "seed": seed, **asdict(config)},
        parts,
        generator=generator,
        held=held,
    )
    for step in loop.steps(config.n_steps):
        with torch.no_grad():
            known.table = energy(x_all)
        try:
            sampler.learn(config.n_flow_steps, 1.0, generator=generator)
            if is_due := step % config.n_reused == 0:
                drawn, log_weights = sampler.draw(generator=generator)
        except DivergenceError as error:
            message = f"the energy diverged at step {step}: {error}"
            raise DivergenceError(message, step) from error
        if is_due:
            held |= {"drawn": drawn, "weights": log_weights + known(drawn)}
        drawn = held["drawn"]
        x = x_all[torch.multinomial(data, n, True, generator=generator)]
        share = (held["weights"] - known(drawn)).softmax(0)
        loss = energy(x).mean() - share @ energy(drawn)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the energy diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        average_weights([*averaged.parameters()], [*energy.parameters()], step, 0.99)
    with torch.no_grad():
        known.table = averaged(x_all)
    falling = cosine(1.0, 0.0, config.n_last + 1)
    for step in loop.steps(config.n_last):
        sampler.learn(1, falling(step), generator=generator)
    return known, sampler, loop.seconds


def _follower(energy: TableEnergy, config: JointConfig, seed: int) -> FlowFollower:
    """An untrained flow that will follow the energy."""
    path = AnnealingPath(energy)
    flow = new_flow(
        path,
        SAMPLERS["DNFS"],
        width=config.width,
        n_layers=config.n_layers,
        seed=seed,
        device=energy.table.device,
    )
    return FlowFollower(
        flow,
        gibbs_sweep(path, energy),
        n_trajectories=128,
        n_time_steps=config.n_time_steps,
        learning_rate=config.learning_rate,
    )


def gibbs_sweep(path: AnnealingPath, energy: TableEnergy) -> Kernel:
    """A Gibbs sweep, site by site."""
    return gibbs_kernel(path, torch.arange(path.n_sites, device=energy.table.device))


def joint_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy with a flow's weighted samples; the scored flow has no sweeps."""
    data = plane_distribution(density, config.n_bits)
    there = data.to(device)
    generator = make_generator(seed, device)
    known, sampler, seconds = learned_jointly(
        there, config, seed, _FlowSampler, checkpoint, generator=generator
    )
    follower = sampler.follower
    distribution = (-known.table.double()).softmax(0).cpu()
    flowed = flow_distributions(follower.flow, 128, device=device)[-1].cpu()
    x_all = enumerate_states(2 * config.n_bits).float().to(device)
    held_out = torch.multinomial(there, 200, True, generator=generator)
    bound = _largest_rate(follower.flow, x_all)
    elbo = reverse_elbo(
        follower.flow, x_all[held_out], bound=2 * bound, generator=generator
    )
    # What the bound loses at each point: which points were drawn hardly matters.
    lost = flowed[held_out.cpu()].log() - elbo.cpu()
    null = independent_bits(data)
    scalars = {
        "entropy": entropy(data),
        "flow bound": scores(flowed, data)["KL"] + float(lost.mean()),
        "flow bound stderr": float(lost.std() / len(lost) ** 0.5),
    }
    for name, found in (("", distribution), ("flow ", flowed), ("null ", null)):
        scalars |= {name + k: v for k, v in scores(found, data).items()}
    pictures = {"data": data, "energy": distribution, "flow": flowed}
    return Outcome(
        {**scalars, "cpu s": seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )


def gflownet_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy with a GFlowNet that proposes its negative samples."""
    data = plane_distribution(density, config.n_bits)
    n_sites = 2 * config.n_bits
    x_all, distribution_there = (
        enumerate_states(n_sites).float().to(device),
        data.to(device),
    )
    energy = MLPEnergy(n_sites, 128, 3, generator=make_generator(seed)).to(device)
    policy = BitsGFlowNet(n_sites, 128, generator=make_generator(seed)).to(device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return x_all[
            torch.multinomial(distribution_there, n, True, generator=generator)
        ]

    found = train_eb_gfn(
        energy,
        policy,
        sample,
        config.gflownet,
        generator=make_generator(seed, device),
        checkpoint=checkpoint,
        identity={"density": density, "n_bits": config.n_bits, "seed": seed},
    )
    with torch.no_grad():
        distribution = (-found.energy(x_all).double()).softmax(0).cpu()
    drawn = terminal_distribution(policy.cpu()).double().exp()
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    scalars = {"entropy": entropy(data), "accepted": float(late.mean())}
    null = independent_bits(data)
    for name, judged_distribution in (
        ("", distribution),
        ("flow ", drawn),
        ("null ", null),
    ):
        scalars |= {name + k: v for k, v in scores(judged_distribution, data).items()}
    pictures = {"energy": distribution, "flow": drawn}
    return Outcome(
        {**scalars, "cpu s": found.cpu_seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )


@torch.no_grad()
def _largest_rate(flow: Flow, x: Tensor) -> float:
    """Largest total rate of all states, outward or inward, on a grid of times."""
    met = [flow.terms(x, k / 8)[:2] for k in range(9)]
    return max(float(rates.sum(1).max()) for pair in met for rates in pair)


def learning_job(
    method: str,
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy by one of the methods."""
    if config.n_bits == BITS:
        return wide_joint(
            density,
            n_steps=config.n_steps,
            n_flow_steps=config.n_flow_steps,
            n_last=config.n_last,
            n_time_steps=config.n_time_steps,
            n_samples=config.n_samples,
            width=config.width,
            n_layers=config.n_layers,
            learning_rate=config.learning_rate,
            energy_learning_rate=config.energy_learning_rate,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
        )
    job = gflownet_job if method == "EB-GFN" else joint_job
    return job(density, config, seed, checkpoint, device)


def cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {
        (method, density): {"method": method, "density": density, "config": alone}
        for method in config.methods
        for density in config.densities
    }


def draw_joint(result: Result) -> Figure:
    """Draw data, energy and flow, one density per line."""
    return draw_pictures(
        {
            density: {
                name: result.arrays[f"{name}/DNFS/{density}"]
                for name in ("data", "energy", "flow")
            }
            for density in shown_densities(result)
        }
    )


# Exact scores of energies and samplers beside independent bits.
_SCORES = {"KL [nats]": "KL", "TV": "TV", "MMD [1e-4]": "MMD"}


def score_table(result: Result) -> Table:
    """Exact scores of energies and samplers beside independent bits, a row each."""
    table = result.scalars["table"]
    lines = [("DNFS", "energy", ""), ("DNFS", "flow", "flow ")]
    if "EB-GFN" in table:
        lines += [("EB-GFN", "EB-GFN, energy", ""), ("EB-GFN", "GFlowNet", "flow ")]
    lines.append(("DNFS", "independent bits", "null "))
    rows = [
        (
            density,
            name,
            *(range_of(table[method][density][key + k]) for k in _SCORES.values()),
        )
        for density in table["DNFS"]
        for method, name, key in lines
    ]
    heads = ("density", "distribution", *_SCORES)
    return Table(
        {
            head: list(column)
            for head, column in zip(heads, zip(*rows, strict=True), strict=True)
        },
        caption=f"Distance from the data, summed over all states.{ranges_of(result)}",
        kinds=["null" if row[1] == "independent bits" else "" for row in rows],
    )


def check_gaps(result: Result) -> list[Verdict]:
    """The energy comes close to the entropy; so does the flow.

    So does that of EB-GFN, where it was run.
    """
    verdicts = []
    for density, cell in result.scalars["table"]["DNFS"].items():
        of: dict[str, Any] = {"n_seeds": len(cell["KL"])}
        for words, key in (("energy", "KL"), ("flow", "flow KL")):
            mean, stderr = mean_and_stderr(cell[key])
            name = f"{density}: likelihood of the {words} below the entropy, nats"
            bound = GAP if key == "KL" else 2 * GAP
            verdicts.append(claim(name, mean, "at most", bound, stderr=stderr, **of))
    for density, cell in result.scalars["table"].get("EB-GFN", {}).items():
        mean, stderr = mean_and_stderr(cell["KL"])
        name = f"{density}: likelihood of EB-GFN's energy below the entropy, nats"
        of = {"stderr": stderr, "n_seeds": len(cell["KL"])}
        verdicts.append(claim(name, mean, "at most", 2 * GAP, **of))
    return verdicts


def no_coupling(result: Result) -> Result:
    """Return independent bits in the place of energy and flow."""
    table = {
        method: {
            density: cell | {"KL": cell["null KL"], "flow KL": cell["null KL"]}
            for density, cell in row.items()
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="dnfs/ebm-training",
    title="Energy and sampler, learned together",
    presets={
        "quick": JointConfig(
            densities=("8gaussians",),
            n_steps=200,
            n_last=100,
            n_samples=128,
            width=24,
            gflownet=EBGFNConfig(n_steps=250, n_samples=128, n_last=150),
        ),
        "full": JointConfig(n_seeds=2),
        # Section E.2: 32 bits, an energy of four layers of 256, leTF of three layers of
        # 128, 64 steps of time, batches of 128, a rate of 0.0001 for both, ten steps of
        # the flow to one of the energy. The numbers of steps, which it does not print,
        # are ours, and so are the mean of the energy's weights, the c_t of the flow's
        # loss, a batch's mean, and the last steps of the flow alone.
        "paper": JointConfig(
            methods=("DNFS",),
            n_bits=BITS,
            n_steps=100_000,
            n_flow_steps=10,
            n_last=10_000,
            n_time_steps=64,
            n_samples=128,
            n_reused=1,
            width=128,
            n_layers=3,
            learning_rate=1e-4,
            energy_learning_rate=1e-4,
        ),
    },
    cells=cells,
    job=learning_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    null=no_coupling,
    figure=draw_joint,
    check=check_gaps,
)


def control_table(trained: Result, control: Result) -> Table:
    """Set the energies' distances from the data beside each other."""
    sweeps = control.scalars["table"]["sweeps"]
    found = {
        "flow and sweeps": trained.scalars["table"]["DNFS"],
        "sweeps alone": sweeps,
        "EB-GFN": trained.scalars["table"].get("EB-GFN"),
    }
    rows = {name: row for name, row in found.items() if row}
    columns: dict[str, list[Cell]] = {"density": list(sweeps)}
    columns |= {k: [range_of(row[d]["KL"]) for d in sweeps] for k, row in rows.items()}
    columns["independent bits"] = [range_of(c["null KL"]) for c in sweeps.values()]
    seconds = (
        f"{name} {fmean(fmean(cell['cpu s']) for cell in row.values()):.0f}"
        for name, row in rows.items()
    )
    words = f"KL of the energy from the data in nats.{ranges_of(trained)} "
    words += f"Mean CPU seconds of a run: {', '.join(seconds)}."
    return Table(columns, caption=words, digits=3)
