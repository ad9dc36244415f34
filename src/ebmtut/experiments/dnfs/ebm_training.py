"""Row dnfs/ebm-training (Figures 6, 16): an energy and its sampler, learned together.

Source: Ou, Zhang and Li (2025), Section 4.2. With eight bits the likelihoods of
energy and flow, and every distance between laws, are sums over 256 states.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, OneOf, Range, checked
from ebmtut.data import DENSITIES
from ebmtut.energies import MLPEnergy
from ebmtut.experiments.dnfs.planes import (
    TableEnergy,
    distance,
    new_flow,
    plane_law,
    plane_picture,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    flow_laws,
    gibbs_kernel,
    reverse_elbo,
    simulate,
    terminal_law,
)
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Table
from ebmtut.samplers import annealed_importance_sampling
from ebmtut.states import enumerate_states
from ebmtut.training import EBGFNConfig, FlowFollower, train_eb_gfn

__all__ = [
    "EXPERIMENT",
    "JointConfig",
    "gflownet_job",
    "independent_bits",
    "joint_job",
    "judged",
    "learning_job",
    "score_table",
    "sweeps_job",
]

METHODS = ("DNFS", "EB-GFN")

#: What we ask of the energy: nats above the entropy of the data.
GAP = 0.05


@checked
@dataclass(frozen=True)
class JointConfig:
    """How an energy and its sampler are learned together.

    Parameters
    ----------
    densities
        Names, from `ebmtut.data.DENSITIES`.
    methods
        "DNFS", a flow beside the energy, or "EB-GFN", a GFlowNet.
    n_bits
        Bits a coordinate.
    n_seeds
        Independent runs.
    n_steps
        Steps of the energy.
    n_flow_steps
        Steps of the flow for each of the energy, the paper's 10.
    n_last
        Steps of the flow alone at the end, for the averaged energy.
    n_time_steps
        Steps of a simulation.
    n_samples
        Data, and samples of the flow, in a step of the energy.
    n_reused
        Steps of the energy for which one set of samples serves: their weights
        follow the energy as it changes.
    width, n_layers
        Of leTF.
    learning_rate, energy_learning_rate
        Of Adam, the energy's with a cosine decay.
    gflownet
        All that EB-GFN takes; its energy is the same network.
    """

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = DENSITIES
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    n_bits: Annotated[int, Range(2, 6)] = 4
    n_seeds: Count = 1
    n_steps: Count = 1100
    n_flow_steps: Count = 1
    n_last: Count = 1000
    n_time_steps: Count = 16
    n_samples: Count = 512
    n_reused: Count = 5
    width: int = 32
    n_layers: int = 1
    learning_rate: float = 3e-3
    energy_learning_rate: float = 2e-2
    gflownet: EBGFNConfig = field(default_factory=EBGFNConfig)


def independent_bits(law: Float[Tensor, " n_all"]) -> Float[Tensor, " n_all"]:
    """The law of independent bits with the same means: what no coupling gives."""
    x = enumerate_states(len(law).bit_length() - 1).double()
    mean = law @ x
    return (x * mean + (1 - x) * (1 - mean)).prod(1)


def judged(
    law: Float[Tensor, " n_all"], data: Float[Tensor, " n_all"]
) -> dict[str, float]:
    """Hold a law against the data's: nats, misplaced mass, and MMD, all exact.

    Returns
    -------
    scores
        "KL", of the data from the law: its mean negative log-likelihood less
        the entropy; "TV"; "MMD", squared, of the kernel exp(-0.1 Hamming), in
        units of 1e-4.
    """
    x = enumerate_states(len(law).bit_length() - 1).double()
    kernel = (-0.1 * torch.cdist(x, x, p=1)).exp()
    off = law.double() - data
    held = data > 0
    kl = (data[held] * (data[held] / law.double()[held]).log()).sum()
    return {
        "KL": float(kl),
        "TV": float(distance(law.double(), data)),
        "MMD": 1e4 * float(off @ kernel @ off),
    }


@runtime_checkable
class _Sampler(Protocol):
    """Where the energy's negative samples come from."""

    def follow(self, *, generator: torch.Generator) -> None:
        """Learn a little, before each step of the energy."""

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states and log-weights for the energy as it is."""


S = TypeVar("S", bound=_Sampler)


class _FlowSampler:
    """A flow, with a Gibbs sweep after each of its steps."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.follower = _follower(energy, config, seed)
        self.config = config

    def follow(self, *, generator: torch.Generator) -> None:
        self.follower.fit(self.config.n_flow_steps, generator=generator)

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = simulate(
            self.follower.flow,
            self.config.n_samples,
            self.config.n_time_steps,
            refine=self.follower.refine,
            generator=generator,
        )
        return drawn.x, drawn.log_weights


class _Sweeps:
    """The same sweeps without a flow: annealed importance sampling."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.path = AnnealingPath(energy)
        self.sweep = gibbs_kernel(self.path, torch.arange(energy.n_sites))
        self.config = config

    def follow(self, *, generator: torch.Generator) -> None:
        """Learn nothing."""

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        found = annealed_importance_sampling(
            self.path,
            self.sweep,
            self.config.n_samples,
            self.config.n_time_steps,
            generator=generator,
        )
        return found.x, found.log_weights.float()


def _learned(
    data: Tensor,
    config: JointConfig,
    seed: int,
    make: Callable[[TableEnergy, JointConfig, int], S],
    *,
    generator: torch.Generator,
) -> tuple[TableEnergy, S]:
    """Learn an energy by maximum likelihood; return its averaged table, the sampler.

    The sampler looks at that very table.
    """
    x_all = enumerate_states(2 * config.n_bits).float()
    energy = MLPEnergy(2 * config.n_bits, 128, 3, generator=make_generator(seed))
    averaged = copy.deepcopy(energy)
    adam = torch.optim.Adam(energy.parameters(), config.energy_learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    n = config.n_samples
    with torch.no_grad():
        known = TableEnergy(energy(x_all), 2 * config.n_bits)
    sampler = make(known, config, seed)
    for step in range(config.n_steps):
        sampler.follow(generator=generator)
        if step % config.n_reused == 0:
            drawn, log_weights = sampler.draw(generator=generator)
            log_weights = log_weights + known(drawn)
        x = x_all[torch.multinomial(data, n, True, generator=generator)]
        share = (log_weights - known(drawn)).softmax(0)
        loss = energy(x).mean() - share @ energy(drawn)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the energy diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        with torch.no_grad():
            decay = min(0.99, (step + 1) / (step + 10))
            for mean, now in zip(
                averaged.parameters(), energy.parameters(), strict=True
            ):
                mean.lerp_(now, 1 - decay)
            known.table = energy(x_all)
    with torch.no_grad():
        known.table = averaged(x_all)
    return known, sampler


def joint_job(density: str, config: JointConfig, seed: int) -> Outcome:
    """Learn an energy by maximum likelihood with a flow's weighted samples.

    A Gibbs sweep follows each step of the flow where it draws for the energy, so
    that these samples are good while the flow runs after an energy that changes.
    What is judged as "flow" has none.

    Returns
    -------
    outcome
        Scores of `judged`, of the energy, the flow's samples ("flow") and
        independent bits ("null"); the bound on the flow's KL by reversed
        paths, and its standard error; the entropy of the data; CPU seconds. The
        three laws as pictures.
    """
    data = plane_law(density, config.n_bits)
    generator = make_generator(seed)
    began = time.process_time()
    known, sampler = _learned(data, config, seed, _FlowSampler, generator=generator)
    follower = sampler.follower
    follower.fit(config.n_last, generator=generator, decay=True)
    seconds = time.process_time() - began
    law = (-known.table.double()).softmax(0)
    flowed = flow_laws(follower.flow, 128)[-1]
    x_all = enumerate_states(2 * config.n_bits).float()
    held_out = torch.multinomial(data, 200, True, generator=generator)
    bound = _largest_rate(follower.flow, x_all)
    elbo = reverse_elbo(
        follower.flow, x_all[held_out], bound=2 * bound, generator=generator
    )
    # What the bound loses at each point: which points were drawn hardly matters.
    lost = flowed[held_out].log() - elbo
    null = independent_bits(data)
    scalars = {
        "entropy": _entropy(data),
        "flow bound": judged(flowed, data)["KL"] + float(lost.mean()),
        "flow bound stderr": float(lost.std() / len(lost) ** 0.5),
    }
    for name, found in (("", law), ("flow ", flowed), ("null ", null)):
        scalars |= {name + k: v for k, v in judged(found, data).items()}
    pictures = {"data": data, "energy": law, "flow": flowed}
    return Outcome(
        {**scalars, "cpu s": seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )


def sweeps_job(density: str, config: JointConfig, seed: int) -> Outcome:
    """Learn the same energy with the same sweeps, and no flow.

    Returns
    -------
    outcome
        Scores of `judged`, of the energy and of independent bits ("null"); CPU
        seconds.
    """
    data = plane_law(density, config.n_bits)
    began = time.process_time()
    known, _ = _learned(data, config, seed, _Sweeps, generator=make_generator(seed))
    seconds = time.process_time() - began
    scalars = judged((-known.table.double()).softmax(0), data)
    null = {f"null {k}": v for k, v in judged(independent_bits(data), data).items()}
    return Outcome({**scalars, **null, "cpu s": seconds})


def _follower(energy: TableEnergy, config: JointConfig, seed: int) -> FlowFollower:
    """Begin with a flow that has learned nothing."""
    path = AnnealingPath(energy)
    return FlowFollower(
        new_flow("DNFS", path, width=config.width, n_layers=config.n_layers, seed=seed),
        gibbs_kernel(path, torch.arange(energy.n_sites)),
        n_trajectories=128,
        n_time_steps=config.n_time_steps,
        learning_rate=config.learning_rate,
    )


@torch.no_grad()
def _largest_rate(flow: Flow, x: Tensor) -> float:
    """Largest total rate of all states, outward or inward, on a grid of times."""
    met = [flow.terms(x, k / 8)[:2] for k in range(9)]
    return max(float(rates.sum(1).max()) for pair in met for rates in pair)


def gflownet_job(density: str, config: JointConfig, seed: int) -> Outcome:
    """Learn an energy with a GFlowNet that proposes its negative samples.

    Returns
    -------
    outcome
        As of `joint_job`; "flow" is the exact law of the GFlowNet's last states, and
        "accepted" the mean share of proposals taken in the last tenth. No bound.
    """
    data = plane_law(density, config.n_bits)
    n_sites = 2 * config.n_bits
    x_all = enumerate_states(n_sites).float()
    energy = MLPEnergy(n_sites, 128, 3, generator=make_generator(seed))
    policy = BitsGFlowNet(n_sites, 128, generator=make_generator(seed))

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return x_all[torch.multinomial(data, n, True, generator=generator)]

    began = time.process_time()
    found = train_eb_gfn(
        energy, policy, sample, config.gflownet, generator=make_generator(seed)
    )
    seconds = time.process_time() - began
    with torch.no_grad():
        law = (-found.energy(x_all).double()).softmax(0)
    drawn = terminal_law(policy).double().exp()
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    scalars = {"entropy": _entropy(data), "accepted": float(late.mean())}
    null = independent_bits(data)
    for name, judged_law in (("", law), ("flow ", drawn), ("null ", null)):
        scalars |= {name + k: v for k, v in judged(judged_law, data).items()}
    pictures = {"energy": law, "flow": drawn}
    return Outcome(
        {**scalars, "cpu s": seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )


def _entropy(law: Tensor) -> float:
    held = law[law > 0]
    return -float((held * held.log()).sum())


def learning_job(method: str, density: str, config: JointConfig, seed: int) -> Outcome:
    """Learn an energy by one of the methods: `joint_job` or `gflownet_job`."""
    job = gflownet_job if method == "EB-GFN" else joint_job
    return job(density, config, seed)


def cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {
        (method, density): {"method": method, "density": density, "config": alone}
        for method in config.methods
        for density in config.densities
    }


def draw_laws(result: Result) -> Figure:
    """Draw data, energy and flow, a row a density."""
    densities = list(result.scalars["table"]["DNFS"])
    names = ("data", "energy", "flow")
    n_rows = len(densities)
    figure, axes = plt.subplots(
        n_rows, 3, figsize=panel_size(n_rows, 3, title=0.1), squeeze=False
    )
    for density, line in zip(densities, axes, strict=True):
        line[0].set_ylabel(density)
        for name, ax in zip(names, line, strict=True):
            ax.imshow(result.arrays[f"{name}/DNFS/{density}"], origin="lower")
            ax.set(xticks=[], yticks=[])
            if density == densities[0]:
                ax.set_title(name)
    return figure


def score_table(result: Result) -> Table:
    """Exact scores of energies and samplers beside independent bits, a row each."""
    columns: dict[str, list[Any]] = {"density": [], "law": []}
    columns |= {head: [] for head in ("KL [nats]", "TV", "MMD [1e-4]")}
    kinds = []
    table = result.scalars["table"]
    laws = [("DNFS", "energy", ""), ("DNFS", "flow", "flow ")]
    if "EB-GFN" in table:
        laws += [("EB-GFN", "EB-GFN, energy", ""), ("EB-GFN", "GFlowNet", "flow ")]
    laws.append(("DNFS", "independent", "null "))
    for density in table["DNFS"]:
        for method, name, key in laws:
            cell = table[method][density]
            columns["density"].append(density)
            columns["law"].append(name)
            for head, score in zip(list(columns)[2:], ("KL", "TV", "MMD"), strict=True):
                mean, stderr = mean_and_stderr(cell[key + score])
                value = float(f"{mean:.3g}")
                columns[head].append(value if stderr is None else (mean, stderr))
            kinds.append("null" if key == "null " else "")
    return Table(
        columns,
        caption="Distance from the data's law, summed over all states.",
        kinds=kinds,
    )


def check_gaps(result: Result) -> list[Verdict]:
    """The energy comes close to the entropy; so does the flow's own law.

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
    },
    cells=cells,
    job=learning_job,
    arrays={"*": "{name}/{cell}"},
    null=no_coupling,
    figure=draw_laws,
    check=check_gaps,
)
