"""Row dnfs/ebm-training (Figures 6, 16): an energy and its sampler, learned together.

With eight bits likelihoods and distances are sums over 256 states.
Source: Ou, Zhang and Li (2025), Section 4.2; EB-GFN: Zhang et al. (2022).
"""

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import flows
from ebmtut.checks import Count, DivergenceError, InputError, OneOf, Range, checked
from ebmtut.data import DENSITIES, DensityData
from ebmtut.energies import Energy, MLPEnergy, TableEnergy
from ebmtut.experiments.dnfs import planes
from ebmtut.experiments.dnfs.planes import BITS, LISTED
from ebmtut.experiments.dnfs.planes import METHODS as SAMPLERS
from ebmtut.experiments.experiment import Experiment, Outcome, grid, stream, with_cells
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.metrics import (
    BernoulliProposal,
    Estimate,
    grid_log_partition,
    mmd,
    nll,
    sample_by_proposal,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
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


class FlowSampler(FlowFollower):
    """A flow that follows an energy, with a Gibbs sweep after each of its steps."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        path, how = AnnealingPath(energy), SAMPLERS["DNFS"]
        sizes, device = (config.width, config.n_layers), energy.table.device
        flow = planes.new_flow(path, how, *sizes, seed=seed, device=device)
        super().__init__(
            flow,
            gibbs_sweep(path, energy),
            n_trajectories=128,
            n_time_steps=config.n_time_steps,
            learning_rate=config.learning_rate,
        )

    def draw(self, n: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states and log-weights for the energy as it is."""
        drawn = flows.simulate(
            self.flow, n, self.n_time_steps, refine=self.refine, generator=generator
        )
        return drawn.x, drawn.log_weights


def learned_jointly(
    data: Tensor,
    config: JointConfig,
    seed: int,
    make: Callable[[TableEnergy, JointConfig, int], Any],
    checkpoint: Path | None,
    *,
    generator: torch.Generator,
) -> tuple[TableEnergy, Any, float]:
    """Return the averaged energy, its sampler and the CPU seconds.

    A sampler fits its energy, draws states with weights, and has a state.
    """
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
            sampler.fit(config.n_flow_steps, generator=generator)
            if is_due := step % config.n_reused == 0:
                drawn, log_weights = sampler.draw(n, generator=generator)
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
        sampler.fit(1, share=falling(step), generator=generator)
    return known, sampler, loop.seconds


def gibbs_sweep(path: AnnealingPath, energy: TableEnergy) -> flows.Kernel:
    """A Gibbs sweep, site by site."""
    sites = torch.arange(path.n_sites, device=energy.table.device)
    return flows.gibbs_kernel(path, sites)


def joint_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy with a flow's weighted samples; the scored flow has no sweeps."""
    data = planes.plane_distribution(density, config.n_bits)
    there = data.to(device)
    generator = make_generator(seed, device)
    known, sampler, seconds = learned_jointly(
        there, config, seed, FlowSampler, checkpoint, generator=generator
    )
    distribution = (-known.table.double()).softmax(0).cpu()
    flowed = flows.flow_distributions(sampler.flow, 128, device=device)[-1].cpu()
    x_all = enumerate_states(2 * config.n_bits).float().to(device)
    held_out = torch.multinomial(there, 200, True, generator=generator)
    bound = 2 * sampler.flow.largest_rate(x_all.expand(9, *x_all.shape))
    elbo = flows.reverse_elbo(
        sampler.flow, x_all[held_out], bound=bound, generator=generator
    )
    # What the bound loses at each point: which points were drawn hardly matters.
    lost = flowed[held_out.cpu()].log() - elbo.cpu()
    found = _scores(data, distribution, flowed)
    found["flow bound"] = found["flow KL"] + float(lost.mean())
    found["flow bound stderr"] = float(lost.std() / len(lost) ** 0.5)
    kinds = {"data": data, "energy": distribution, "flow": flowed}
    return Outcome(
        found | {"cpu s": seconds}, {k: planes.pictures(p) for k, p in kinds.items()}
    )


def _scores(data: Tensor, energy: Tensor, flow: Tensor) -> dict[str, float]:
    """Score the energy, its sampler and independent bits."""
    kinds = {"": energy, "flow ": flow, "null ": planes.independent_bits(data)}
    named = (
        (name + k, v)
        for name, p in kinds.items()
        for k, v in planes.scores(p, data).items()
    )
    return {"entropy": planes.entropy(data), **dict(named)}


def gflownet_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy with a GFlowNet that proposes its negative samples."""
    data = planes.plane_distribution(density, config.n_bits)
    n_sites = 2 * config.n_bits
    x_all, there = enumerate_states(n_sites).float().to(device), data.to(device)
    energy = MLPEnergy(n_sites, 128, 3, generator=make_generator(seed)).to(device)
    policy = flows.BitsGFlowNet(n_sites, 128, generator=make_generator(seed)).to(device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return x_all[torch.multinomial(there, n, True, generator=generator)]

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
    drawn = flows.terminal_distribution(policy.cpu()).double().exp()
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    return Outcome(
        {
            **_scores(data, distribution, drawn),
            "accepted": float(late.mean()),
            "cpu s": found.cpu_seconds,
        },
        {"energy": planes.pictures(distribution), "flow": planes.pictures(drawn)},
    )


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
        return wide_joint(density, config, seed, checkpoint, device)
    job = gflownet_job if method == "EB-GFN" else joint_job
    return job(density, config, seed, checkpoint, device)


#: States of the data by which an energy of 32 bits is evaluated, samples that estimate
#: its log Z, and states at which the flow's likelihood is bounded.
_HELD_OUT, _PROPOSED, _BOUNDED = 4000, 200_000, 200


def wide_joint(
    density: str,
    config: Any,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy and a flow by the paper's recipe, in turns."""
    n_samples, n_times = config.n_samples, config.n_time_steps
    data = DensityData(density)
    generator = make_generator(seed, device)
    energy = MLPEnergy(data.n_sites, generator=make_generator(seed)).to(device)
    averaged = copy.deepcopy(energy).requires_grad_(False)
    path, how = AnnealingPath(energy), SAMPLERS["paper"]
    sizes = config.width, config.n_layers
    follower = FlowFollower(
        planes.new_flow(path, how, *sizes, seed=seed, device=device),
        None,
        n_trajectories=n_samples,
        n_time_steps=n_times,
        learning_rate=config.learning_rate,
    )
    adam = torch.optim.AdamW(energy.parameters(), config.energy_learning_rate)
    loop = ResumableLoop(
        checkpoint,
        {"density": density, "seed": seed, **asdict(config)},
        {"energy": energy, "averaged": averaged, "adam": adam, "follower": follower},
        generator=generator,
    )

    def diverged(step: int) -> DivergenceError:
        return DivergenceError(
            f"the energy diverged at step {step}: the largest log-ratio of its "
            f"flow was {follower.max_log_ratio:.3g}; try a smaller "
            f"energy_learning_rate ({config.energy_learning_rate})",
            step,
        )

    for step in loop.steps(config.n_steps):
        try:
            follower.fit(config.n_flow_steps, generator=generator)
            drawn = flows.simulate(
                follower.flow, n_samples, n_times, generator=generator
            )
        except DivergenceError as error:
            raise diverged(step) from error
        x = data.sample_bits(n_samples, generator=generator)
        loss = energy(x).mean() - drawn.log_weights.softmax(0) @ energy(drawn.x)
        if not bool(loss.isfinite()):
            raise diverged(step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        average_weights([*averaged.parameters()], [*energy.parameters()], step, 0.999)
    energy.load_state_dict(averaged.state_dict())
    falling = cosine(1.0, 0.0, config.n_last + 1)
    for step in loop.steps(config.n_last):
        follower.fit(1, share=falling(step), generator=generator)
    flow = flows.Flow(path, follower.flow.network, rates="one_way")
    rng = stream("evaluation", seed, device)
    found = _evaluated(energy, flow, data, n_times, generator=rng)
    learned = {
        "clipped": follower.n_clipped,
        "clipped share": follower.clipped_share,
        "cpu s": loop.seconds,
    }
    return Outcome(found.scalars | learned, found.arrays)


@torch.no_grad()
def _evaluated(
    energy: Energy,
    flow: flows.Flow,
    data: DensityData,
    n_time_steps: int,
    *,
    generator: torch.Generator,
) -> Outcome:
    """Compare the energy, the flow's samples and independent bits with the data."""
    n = _HELD_OUT
    how: Any = {"generator": generator}
    x = data.sample_bits(n, **how)
    grid = grid_log_partition(energy, n_samples=_PROPOSED, **how)
    kl = data.kl(energy, grid.log_partition, **how)
    many = data.sample_bits(10 * n, **how)
    null = BernoulliProposal.fit(many)
    samples = {
        "": sample_by_proposal(energy, grid.proposal, n, **how).to(x),
        "flow ": flows.simulate(flow, n, n_time_steps, **how).x,
        "null ": null.sample(n, **how).to(x),
    }
    seen = planes.coarse_distribution(many)
    bound, stderr = flow_bound(flow, data, generator)
    scalars = {
        "entropy": data.entropy,
        "KL": kl.value,
        "KL stderr": kl.stderr,
        "NLL": nll(energy, x, grid.log_partition).value,
        "flow KL": bound,
        "flow bound": bound,
        "flow bound stderr": stderr,
        "null KL": data.kl(
            lambda y: -null.log_prob(y), Estimate(0.0, 0.0), **how
        ).value,
    }
    distributions = {"data": seen}
    for name, drawn in samples.items():
        counted = planes.coarse_distribution(drawn)
        distributions[(name or "energy ").strip()] = counted
        scalars[f"{name}TV"] = float(planes.distance(counted, seen))
        scalars[f"{name}MMD"] = 1e4 * mmd(drawn, x)
    picture = planes.coarse_picture
    arrays = {k: planes.pictures(p, picture) for k, p in distributions.items()}
    return Outcome(scalars, arrays)


def flow_bound(
    flow: flows.Flow, data: DensityData, generator: torch.Generator
) -> tuple[float, float]:
    """Bound the flow's KL from above by reversed paths; its standard error."""
    pilot = flows.simulate(flow, 32, 16, keep_states=True, generator=generator).states
    assert pilot is not None
    largest = flow.largest_rate(pilot)
    x = data.sample_bits(_BOUNDED, generator=generator)
    try:
        elbo = flows.reverse_elbo(flow, x, bound=4 * largest + 1, generator=generator)
    except (InputError, DivergenceError):  # a rate was above the bound, or infinite
        return math.nan, math.nan
    return -float(elbo.mean()) - data.entropy, float(elbo.std()) / _BOUNDED**0.5


def draw_joint(result: Result) -> Figure:
    """Draw data, energy and flow, one density per row."""
    names, lines = ("data", "energy", "flow"), {}
    for density in planes.shown_densities(result):
        lines[density] = {k: result.arrays[f"{k}/DNFS/{density}"] for k in names}
    return planes.draw_pictures(lines)


def check_gaps(result: Result) -> Verdicts:
    """Energies come close to the entropy, with a flow or EB-GFN; so does the flow."""
    asked = {
        "DNFS": (("the energy", "KL", GAP), ("the flow", "flow KL", 2 * GAP)),
        "EB-GFN": (("EB-GFN's energy", "KL", 2 * GAP),),
    }
    for method, claims in asked.items():
        for density, cell in result.scalars["table"].get(method, {}).items():
            for words, key, bound in claims:
                name = f"{density}: likelihood of {words} below the entropy, nats"
                yield claim(name, cell[key], "at most", bound)


def no_coupling(result: Result) -> Result:
    """Return independent bits in the place of energy and flow."""
    keys = ("KL", "flow KL")
    return with_cells(result, lambda cell, *_: dict.fromkeys(keys, cell["null KL"]))


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
        # are choices, as are the mean of the energy's weights, the c_t of the flow's
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
    cells=lambda config: grid(config, method="methods", density="densities"),
    job=learning_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    baseline=no_coupling,
    figure=draw_joint,
    check=check_gaps,
)
