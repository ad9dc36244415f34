"""Row dnfs/pretrained-ebm (Figures 4 and 11): samplers of a learned energy.

With few bits a distribution is a sum over all states; with the paper's 32 it is an
estimate, as `planes` makes it. Source: Ou, Zhang and Li (2025), Section 4.1 and
Appendix E.1.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut import flows
from ebmtut.checks import Count, InputError, OneOf, Range, checked
from ebmtut.data import DENSITIES, DensityData
from ebmtut.energies import Energy, EnergyFunction, MLPEnergy, TableEnergy
from ebmtut.experiments.dnfs import planes
from ebmtut.experiments.dnfs.planes import (
    BITS,
    COARSE,
    LISTED,
    coarse_distribution,
    coarse_picture,
    exact_draws,
)
from ebmtut.experiments.ed.recipes import PAPER_RECIPE, fit_density
from ebmtut.experiments.experiment import Experiment, Outcome, grid, stream
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.losses import Grid, energy_discrepancy_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.states import enumerate_states
from ebmtut.training import (
    FlowConfig,
    GFlowNetTraining,
    TrainConfig,
    train,
    train_flow,
    train_gflownet,
)

#: Claimed of the flow: the total variation distance.
MAX_TV = 0.05

#: Steps by which the master equation is integrated.
N_TIMES = 32


@checked
@dataclass(frozen=True)
class PlaneConfig:
    """Which energies, which samplers, and what each may spend."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = ("checkerboard",)
    methods: tuple[Annotated[str, OneOf(planes.METHODS)], ...] = (
        "DNFS",
        "GFlowNet",
        "untrained",
    )
    #: Bits per coordinate: 2 to 6, or 16, whose distributions are estimated.
    n_bits: Annotated[int, Range(2, BITS)] = 4
    n_seeds: Count = 1
    #: Of energy discrepancy.
    n_energy_steps: Count = 1000
    #: Of a sampler; a GFlowNet takes three times as many.
    n_steps: Count = 300
    #: Of leTF; leConv has twice the width.
    width: int = 32
    n_layers: int = 2
    n_time_steps: Count = 32
    n_samples: Annotated[int, Range(low=2)] = 1000
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        if LISTED < self.n_bits < BITS:
            words = f"n_bits must be 2 to {LISTED}, or {BITS}, got {self.n_bits}"
            raise InputError(words)


#: Exact draws for each sample of a sampler that they evaluate.
_DRAWS = 5

#: Chains that are simulated at a time.
_BLOCK = 1000


class PaddedEnergy(Energy):
    """An energy that does not see the last sites, uniform bits that fill a square."""

    def __init__(self, energy: EnergyFunction, n_seen: int, n_sites: int) -> None:
        super().__init__()
        self.energy, self.n_seen, self.n_sites = energy, n_seen, n_sites

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of the sites that are seen."""
        return self.energy(x[:, : self.n_seen])


class WideEnergy(NamedTuple):
    """A learned energy, log Z, and the distribution of the leading bits."""

    energy: Energy
    log_partition: float
    distribution: Tensor


_LEARNED: dict[tuple[Any, ...], WideEnergy] = {}


def wide_energy(
    density: str,
    n_steps: int,
    n_samples: int,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> WideEnergy:
    """Learn an energy of 32 bits by energy discrepancy, as that chapter's paper does.

    One that this process has learned is not learned again.
    """
    key = density, n_steps, n_samples, seed, device
    if key in _LEARNED:
        return _LEARNED[key]
    energy = fit_density(
        density,
        replace(PAPER_RECIPE, n_steps=n_steps),
        seed=seed,
        device=device,
        checkpoint=checkpoint,
    ).energy
    assert isinstance(energy, Energy)
    energy.requires_grad_(False)
    drawn, log_z = exact_draws(
        energy, _DRAWS * n_samples, generator=stream("exact samples", seed, device)
    )
    _LEARNED[key] = WideEnergy(energy, log_z, coarse_distribution(drawn))
    return _LEARNED[key]


def evaluate_flow(
    flow: flows.Flow,
    target: WideEnergy,
    n: int,
    n_steps: int,
    *,
    both_ways: bool,
    generator: torch.Generator,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Score a flow by its samples, as `plane_job` does by sums."""
    path, spare = flow.path, flow.path.n_sites - 2 * BITS
    weights, distributions = [], torch.zeros(5, 4**COARSE, dtype=torch.float64)
    for size in _blocks(n):
        drawn = flows.simulate(
            flow, size, n_steps, keep_states=True, generator=generator
        )
        assert drawn.states is not None
        weights.append(drawn.log_weights)
        distributions += _at_five_times(drawn.states) * size / n
    log_weights = torch.cat(weights)
    estimate = flows.log_partition(log_weights, path.log_partition_start).estimate
    coins = float(torch.tensor(2.0).log()) * spare
    again, _ = exact_draws(target.energy, n, generator=generator)
    counted = coarse_distribution(again)
    scalars: dict[str, Any] = {
        "TV": float(planes.distance(distributions[-1], target.distribution)),
        "TV of exact draws": float(planes.distance(counted, target.distribution)),
        "ESS": flows.effective_sample_size(log_weights),
        "log Z error": estimate - target.log_partition - coins,
    }
    kept = {"law": distributions[-1], "path": distributions}
    if both_ways:
        wanted = [
            coarse_distribution(exact_draws(path.at(k / 4), n, generator=generator)[0])
            for k in range(4)
        ]
        kept["wanted"] = torch.stack([*wanted, target.distribution])
        back = torch.zeros_like(distributions)
        for start in again.split(_BLOCK):
            states = _reversed_states(flow, start, n_steps, generator=generator)
            back += _at_five_times(states) * len(start) / n
        kept["back"] = back
        for words, found in (("worst TV", distributions), ("worst TV back", back)):
            scalars[words] = float(planes.distance(found, kept["wanted"]).max())
    return scalars, kept


def count_states(
    draw: Callable[[int], Tensor], target: WideEnergy, n: int
) -> tuple[float, Tensor]:
    """Distance and distribution of a sampler that has no weights."""
    found = sum(coarse_distribution(draw(size)) * size / n for size in _blocks(n))
    assert isinstance(found, Tensor)
    return float(planes.distance(found, target.distribution)), found


def _blocks(n: int) -> list[int]:
    return [min(_BLOCK, n - k) for k in range(0, n, _BLOCK)]


def _at_five_times(states: Tensor) -> Tensor:
    """Distributions of the leading bits at five times from start to end."""
    at = torch.linspace(0, len(states) - 1, 5).round().long()
    return torch.stack([coarse_distribution(states[k]) for k in at])


@torch.no_grad()
def _reversed_states(
    flow: flows.Flow, x: Tensor, n_steps: int, *, generator: torch.Generator
) -> Tensor:
    """Follow the reversed flow from t = 1 to 0 by tau-leaping; states from t = 0 on."""
    states = [x]
    for k in range(n_steps, 0, -1):
        rates = flow.terms(x, k / n_steps).inward
        flips = torch.rand(rates.shape, generator=generator, device=x.device)
        x = torch.where(flips < -torch.expm1(-rates / n_steps), 1 - x, x)
        states.append(x)
    return torch.stack(states[::-1])


@cache
def learn_energy(
    density: str, n_bits: int, n_steps: int, seed: int
) -> tuple[MLPEnergy, Tensor]:
    """Train an energy by energy discrepancy; return it and its value at each state.

    All samplers of a density and seed share one energy, trained once per process.
    """
    p = planes.plane_distribution(density, n_bits)
    states = enumerate_states(2 * n_bits).float()
    perturbation = Grid()

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return states[torch.multinomial(p, n, True, generator=generator)]

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(
            energy, x, perturbation, n_negatives=16, generator=generator
        )

    fresh = MLPEnergy(2 * n_bits, 128, 3, generator=make_generator(seed))
    optimizer = TrainConfig(n_steps, learning_rate=5e-3, precision="float32")
    fit = train(fresh, loss, sample, optimizer, generator=make_generator(seed))
    energy = cast(MLPEnergy, fit.energy)
    with torch.no_grad():
        return energy, energy(states)


def plane_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train one sampler on one learned energy, and score its exact distribution."""
    if config.n_bits == BITS:
        return _wide_job(method, density, config, seed, checkpoint, device)
    energy, table = learn_energy(density, config.n_bits, config.n_energy_steps, seed)
    target = (-table.double()).softmax(0)
    log_z = float((-table.double()).logsumexp(0))
    if planes.METHODS[method].network == "GFlowNet":
        listed = TableEnergy(table.to(device), 2 * config.n_bits)
        policy, _, seconds = _balanced(listed, config, seed, checkpoint, device)
        distribution = flows.terminal_distribution(policy.cpu()).double().exp()
        return Outcome(
            {
                "TV": float(planes.distance(distribution, target)),
                "log Z error": float(policy.log_z.detach()) - log_z,
                "train cpu s": seconds,
            },
            {"law": planes.pictures(distribution)},
        )
    n_sites = _sites_of(method, config)
    path = AnnealingPath(TableEnergy(table.to(device), n_sites))
    if planes.METHODS[method].ratios == "taylor":
        path = AnnealingPath(energy.to(device), ratios="taylor")
    flow, scalars = _learned_flow(method, path, config, seed, checkpoint, device)
    generator = stream("evaluation", seed, device)
    drawn = flows.simulate(flow, config.n_samples, 64, generator=generator)
    log_z += (n_sites - 2 * config.n_bits) * math.log(2)
    estimate = flows.log_partition(drawn.log_weights, path.log_partition_start).estimate
    scalars |= {
        "ESS": flows.effective_sample_size(drawn.log_weights),
        "log Z error": estimate - log_z,
    }
    distributions = flows.flow_distributions(flow, N_TIMES, device=device).cpu()
    distributions = distributions.unflatten(1, (len(table), -1)).sum(2)
    times = torch.linspace(0, 1, N_TIMES + 1, dtype=torch.float64)[:, None]
    wanted = (-times * table.double()).softmax(1)
    kept = {"law": distributions[-1], "path": distributions[:: N_TIMES // 4]}
    scalars["TV"] = float(planes.distance(distributions[-1], target))
    if method in ("DNFS", "untrained"):
        # From the energy's distribution to uniform bits, by the reversed rates.
        back = flows.flow_distributions(
            flow, N_TIMES, start=target, reverse=True, device=device
        )
        back = back.cpu().flip(0)
        kept |= {"back": back[:: N_TIMES // 4], "wanted": wanted[:: N_TIMES // 4]}
        scalars["worst TV"] = float(planes.distance(distributions, wanted).max())
        scalars["worst TV back"] = float(planes.distance(back, wanted).max())
    return Outcome(scalars, {name: planes.pictures(p) for name, p in kept.items()})


def _sites_of(method: str, config: PlaneConfig) -> int:
    """Sites of a state; leConv reads a square, filled up with uniform bits."""
    n_sites = 2 * config.n_bits
    square = math.ceil(math.sqrt(n_sites)) ** 2
    return square if planes.METHODS[method].network == "leConv" else n_sites


def _learned_flow(
    method: str,
    path: AnnealingPath,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> tuple[flows.Flow, dict[str, Any]]:
    """Train one flow; return it with unclipped ratios, and its costs."""
    recipe = planes.METHODS[method]
    sizes = config.width, config.n_layers
    flow = planes.new_flow(path, recipe, *sizes, seed=seed, device=device)
    if not recipe.objective:
        return flow, {}
    found = train_flow(
        flow,
        FlowConfig(objective=recipe.objective, n_time_steps=config.n_time_steps),
        TrainConfig(
            n_steps=config.n_steps,
            learning_rate=config.learning_rate,
            clip_norm=1.0,
            precision="float32",
        ),
        generator=make_generator(seed, device),
        refine=flows.gibbs_kernel(path, torch.arange(path.n_sites, device=device))
        if recipe.sweeps
        else None,
        checkpoint=checkpoint,
        checkpoint_every=250,
        identity={"method": method, "seed": seed},
    )
    scalars = {
        "train cpu s": found.cpu_seconds,
        "clipped": found.n_clipped,
        "clipped share": found.clipped_share,
    }
    return flows.Flow(path, found.flow.network, rates=flow.rates), scalars


def _wide_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> Outcome:
    """Do the same with 32 bits, where sums over all states become estimates."""
    target = wide_energy(
        density,
        config.n_energy_steps,
        config.n_samples,
        seed,
        device,
        checkpoint=checkpoint and checkpoint.with_stem(f"{checkpoint.stem}-energy"),
    )
    generator = stream("evaluation", seed, device)
    if planes.METHODS[method].network == "GFlowNet":
        policy, _, seconds = _balanced(target.energy, config, seed, checkpoint, device)

        def draw(n: int) -> Tensor:
            with torch.no_grad():
                return flows.forward_trajectories(policy, n, generator=generator).x

        tv, distribution = count_states(draw, target, config.n_samples)
        error = float(policy.log_z.detach()) - target.log_partition
        return Outcome(
            {"TV": tv, "log Z error": error, "train cpu s": seconds},
            {"law": planes.pictures(distribution, coarse_picture)},
        )
    n_sites = _sites_of(method, config)
    padded = PaddedEnergy(target.energy, 2 * BITS, n_sites)
    path = AnnealingPath(target.energy if n_sites == 2 * BITS else padded)
    if planes.METHODS[method].ratios == "taylor":
        path = AnnealingPath(target.energy, ratios="taylor")
    flow, scalars = _learned_flow(method, path, config, seed, checkpoint, device)
    found, distributions = evaluate_flow(
        flow,
        target,
        config.n_samples,
        config.n_time_steps,
        both_ways=method in ("DNFS", "untrained"),
        generator=generator,
    )
    return Outcome(
        scalars | found,
        {k: planes.pictures(p, coarse_picture) for k, p in distributions.items()},
    )


def _balanced(
    energy: Energy, config: PlaneConfig, seed: int, checkpoint: Path | None, device: str
) -> GFlowNetTraining:
    """Train a GFlowNet in three times the steps of a flow."""
    policy = flows.BitsGFlowNet(energy.n_sites, 128, generator=make_generator(seed))
    return train_gflownet(
        policy.to(device),
        energy,
        3 * config.n_steps,
        config.learning_rate,
        generator=make_generator(seed, device),
        checkpoint=checkpoint,
        identity={"method": "GFlowNet", "seed": seed, **asdict(config)},
    )


def exact_distributions(config: PlaneConfig, seed: int, device: str = "cpu") -> Outcome:
    """Picture each energy's distribution; return its distance from the data."""
    arrays, away = {}, {}
    n_steps, n = config.n_energy_steps, config.n_samples
    for density in config.densities:
        if config.n_bits == BITS:
            picture: Callable[[Tensor], Tensor] = coarse_picture
            exact = wide_energy(density, n_steps, n, seed, device).distribution
            sample, rng = DensityData(density).sample_bits, make_generator(seed)
            data = coarse_distribution(sample(_DRAWS * n, generator=rng))
        else:
            picture = planes.plane_picture
            _, table = learn_energy(density, config.n_bits, n_steps, seed)
            exact = (-table.double()).softmax(0)
            data = planes.plane_distribution(density, config.n_bits)
        arrays[f"exact/{density}"] = planes.pictures(exact, picture)
        away[density] = float(planes.distance(exact, data))
    return Outcome({"energy from data": away}, arrays)


#: The samplers of the figure, and their titles.
PICTURED = {"DNFS": "flow", "GFlowNet": "GFlowNet", "untrained": "untrained flow"}


def draw_samplers(result: Result) -> Figure:
    """Draw the exact distribution of each sampler's states beside the energy's."""
    arrays, table = result.arrays, result.scalars["table"]
    shown, lines = {m: PICTURED[m] for m in PICTURED if m in table}, {}
    for density in planes.shown_densities(result):
        found = {name: arrays[f"law/{m}/{density}"] for m, name in shown.items()}
        lines[density] = {"energy": arrays[f"exact/{density}"], **found}
    return planes.draw_pictures(lines)


def check_samplers(result: Result) -> Verdicts:
    """The flow's distribution is that of the energy."""
    for density, cell in result.scalars["table"]["DNFS"].items():
        name = f"{density}: total variation of DNFS"
        yield claim(name, cell["TV"], "at most", MAX_TV)


def nothing_learned(result: Result) -> Result:
    """Return the untrained flow in the place of every flow."""
    table = result.scalars["table"]
    same = dict.fromkeys(table, table["untrained"])
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="dnfs/pretrained-ebm",
    title="Samplers of a learned energy",
    presets={
        "quick": PlaneConfig(
            densities=("8gaussians",),
            methods=tuple(m for m in planes.METHODS if m != "paper"),
            n_steps=200,
            n_layers=1,
        ),
        "full": PlaneConfig(
            densities=DENSITIES, methods=tuple(planes.METHODS), n_steps=1000, n_seeds=3
        ),
        # Section E.1: 32 bits, 128 time steps, three layers of width 128, 100,000 steps
        # at 0.0001, and an energy as in the first chapter's paper; "paper" and the two
        # of LEAPS are the recipes. Choices: the cosine of the rate, the sizes of the
        # GFlowNet and of leConv, and how many samples evaluate.
        "paper": PlaneConfig(
            densities=DENSITIES,
            methods=tuple(planes.METHODS),
            n_bits=BITS,
            n_energy_steps=100_000,
            n_steps=100_000,
            width=128,
            n_layers=3,
            n_time_steps=128,
            n_samples=50_000,
            learning_rate=1e-4,
        ),
    },
    cells=lambda config: grid(config, method="methods", density="densities"),
    job=plane_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    extras=exact_distributions,
    baseline=nothing_learned,
    figure=draw_samplers,
    check=check_samplers,
)
