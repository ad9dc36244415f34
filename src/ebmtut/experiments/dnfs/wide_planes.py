"""Energies of 32 bits and their samplers, whose distributions are estimated.

Pictures and distances are of the leading five bits of both coordinates. The paper's
presets use this module; the stored runs have few bits. Source: Ou, Zhang and Li (2025),
Sections 4.1 and 4.2, Appendix E.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut import flows
from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import DensityData
from ebmtut.energies import Energy, EnergyFunction, MLPEnergy
from ebmtut.experiments.dnfs.lattices import largest_rate
from ebmtut.experiments.dnfs.planes import METHODS, distance, new_flow, pictures
from ebmtut.experiments.ed.densities import PAPER
from ebmtut.experiments.ed.evaluation import (
    Evaluation,
    evaluate_density,
    evaluate_independent_bits,
)
from ebmtut.experiments.ed.recipes import fit_density
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream_seed
from ebmtut.metrics import (
    BernoulliProposal,
    grid_log_partition,
    mmd,
    sample_by_proposal,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.schedules import cosine
from ebmtut.states import states_to_index
from ebmtut.training import FlowFollower, ResumableLoop, average_weights

#: Up to so many bits per coordinate, distributions are tables of all states.
LISTED = 6

#: Bits of the paper's coordinates, and leading ones that make the coarse picture.
BITS, COARSE = 16, 5

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


def coarse_distribution(x: Float[Tensor, "n n_sites"]) -> Float[Tensor, " n_cells"]:
    """Distribution of the leading bits of both coordinates, counted in samples."""
    leading = torch.cat([x[:, :COARSE], x[:, BITS : BITS + COARSE]], 1)
    index = states_to_index(leading).cpu()
    return torch.bincount(index, minlength=4**COARSE).double() / len(x)


def coarse_picture(
    distribution: Float[Tensor, " n_cells"],
) -> Float[Tensor, "side side"]:
    """A distribution of the leading bits as a picture, rows from the bottom up."""
    side = 2**COARSE
    k = torch.arange(side // 2)
    size = torch.empty_like(k)
    size[k ^ (k >> 1)] = k
    # A sign, then the Gray code of the size: `ebmtut.states.gray_encode`.
    place = torch.cat([side // 2 + size, side // 2 - 1 - size])
    column, row = torch.cartesian_prod(place, place).T
    picture = distribution.new_empty(side, side)
    picture[row, column] = distribution
    return picture


def data_distribution(density: str, n: int, *, generator: torch.Generator) -> Tensor:
    """Distribution of the leading bits of held-out data."""
    return coarse_distribution(DensityData(density).sample_bits(n, generator=generator))


def exact_draws(
    energy: EnergyFunction, n: int, *, generator: torch.Generator
) -> tuple[Tensor, float]:
    """Draw independent states of an energy of 32 bits, and estimate its log Z."""
    fit = grid_log_partition(
        energy, generator=generator, coarse_bits=7, n_samples=n, dtype=torch.float32
    )
    drawn = sample_by_proposal(
        energy, fit.proposal, n, generator=generator, dtype=torch.float32
    )
    return drawn, fit.log_partition.value


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
    recipe = {**vars(PAPER.recipe), "n_steps": n_steps}
    energy = fit_density(
        density,
        type(PAPER.recipe)(**recipe),
        seed=seed,
        device=device,
        checkpoint=checkpoint,
    ).energy
    assert isinstance(energy, Energy)
    energy.requires_grad_(False)
    drawn, log_z = exact_draws(
        energy, _DRAWS * n_samples, generator=make_generator(seed + 2_000_000, device)
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
    scalars: dict[str, Any] = {
        "TV": float(distance(distributions[-1], target.distribution)),
        "TV of exact draws": float(
            distance(coarse_distribution(again), target.distribution)
        ),
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
            scalars[words] = float(distance(found, kept["wanted"]).max())
    return scalars, kept


def count_states(
    draw: Callable[[int], Tensor], target: WideEnergy, n: int
) -> tuple[float, Tensor]:
    """Distance and distribution of a sampler that has no weights."""
    found = sum(coarse_distribution(draw(size)) * size / n for size in _blocks(n))
    assert isinstance(found, Tensor)
    return float(distance(found, target.distribution)), found


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


#: The first chapter's, with the paper's million uniform draws.
EVALUATION = Evaluation(n_uniform=1_000_000)

#: States of the data at which the flow's likelihood is bounded.
_BOUNDED = 200


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
    path = AnnealingPath(energy)
    follower = FlowFollower(
        new_flow(
            path,
            METHODS["paper"],
            width=config.width,
            n_layers=config.n_layers,
            seed=seed,
            device=device,
        ),
        None,
        n_trajectories=n_samples,
        n_time_steps=n_times,
        learning_rate=config.learning_rate,
    )
    adam = torch.optim.AdamW(energy.parameters(), config.energy_learning_rate)
    parts: dict[str, Any] = {
        "energy": energy,
        "averaged": averaged,
        "adam": adam,
        "follower": follower,
    }
    loop = ResumableLoop(
        checkpoint,
        {"density": density, "seed": seed, **asdict(config)},
        parts,
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
    found = _evaluated(
        energy, flow, density, n_times, stream_seed("evaluation", seed), device
    )
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
    density: str,
    n_time_steps: int,
    seed: int,
    device: str,
) -> Outcome:
    """Compare the energy, the flow's samples and independent bits with the data."""
    data, generator = DensityData(density), make_generator(seed, device)
    n = EVALUATION.n_data
    found = evaluate_density(energy, density, EVALUATION, seed=seed, device=device)
    x = data.sample_bits(n, generator=generator)
    samples = {
        "": exact_draws(energy, n, generator=generator)[0],
        "flow ": flows.simulate(flow, n, n_time_steps, generator=generator).x,
        "null ": BernoulliProposal.fit(x).sample(n, generator=generator).to(x),
    }
    seen = coarse_distribution(data.sample_bits(10 * n, generator=generator))
    null = evaluate_independent_bits(density)
    bound, stderr = _flow_bound(flow, data, generator)
    scalars = {
        "entropy": data.entropy,
        "KL": found["gap"],
        "KL stderr": found["gap_se"],
        "NLL": found["nll"],
        "flow KL": bound,
        "flow bound": bound,
        "flow bound stderr": stderr,
        "null KL": null["gap"],
    }
    distributions = {"data": seen}
    for name, drawn in samples.items():
        distribution = distributions[f"{name or 'energy '}".strip()] = (
            coarse_distribution(drawn)
        )
        scalars[f"{name}TV"] = float(distance(distribution, seen))
        scalars[f"{name}MMD"] = 1e4 * mmd(drawn, x)
    return Outcome(
        scalars, {k: pictures(p, coarse_picture) for k, p in distributions.items()}
    )


def _flow_bound(
    flow: flows.Flow, data: DensityData, generator: torch.Generator
) -> tuple[float, float]:
    """Bound the flow's KL from above by reversed paths; its standard error."""
    pilot = flows.simulate(flow, 32, 16, keep_states=True, generator=generator).states
    assert pilot is not None
    largest = largest_rate(flow, pilot)
    x = data.sample_bits(_BOUNDED, generator=generator)
    try:
        elbo = flows.reverse_elbo(flow, x, bound=4 * largest + 1, generator=generator)
    except (InputError, DivergenceError):  # a rate was above the bound, or infinite
        return math.nan, math.nan
    return -float(elbo.mean()) - data.entropy, float(elbo.std()) / _BOUNDED**0.5
