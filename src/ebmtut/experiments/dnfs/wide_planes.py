"""Samplers of an energy over a plane whose states are too many to list.

The paper's planes have 16 bits a coordinate. What `planes` sums over all states is
estimated here: a law is that of the leading bits, the cells of a coarse picture,
counted in samples; log Z and exact samples of an energy come from a proposal that is
fitted to it. Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.data import DensityData
from ebmtut.energies import Energy, EnergyFunction
from ebmtut.experiments.dnfs.planes import distance
from ebmtut.experiments.ed.densities import PAPER
from ebmtut.experiments.ed.recipes import fit_density
from ebmtut.flows import Flow, effective_sample_size, log_partition, simulate
from ebmtut.metrics import grid_log_partition, sample_by_proposal
from ebmtut.random import make_generator
from ebmtut.states import states_to_index

#: Up to so many bits a coordinate, laws are tables of all states.
LISTED = 6
#: Bits of the paper's coordinates, and leading ones that make the coarse picture.
BITS, COARSE = 16, 5
#: Exact draws for each sample of a sampler that they judge.
_DRAWS = 5
#: Chains that are simulated at a time.
_BLOCK = 1000


class PaddedEnergy(Energy):
    """An energy that does not see the last sites: fair coins that fill a square.

    Parameters
    ----------
    energy
        Of the first sites.
    n_seen, n_sites
        How many it sees, of how many.
    """

    def __init__(self, energy: EnergyFunction, n_seen: int, n_sites: int) -> None:
        super().__init__()
        self.energy, self.n_seen, self.n_sites = energy, n_seen, n_sites

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of the sites that are seen."""
        return self.energy(x[:, : self.n_seen])


class WideEnergy(NamedTuple):
    """A learned energy, and what is known of its law.

    Attributes
    ----------
    energy
        Of 32 bits.
    log_partition
        log Z, estimated.
    law
        Of the leading bits of exact draws, as of `coarse_law`; on the CPU.
    """

    energy: Energy
    log_partition: float
    law: Tensor


def coarse_law(x: Float[Tensor, "n n_sites"]) -> Float[Tensor, " n_cells"]:
    """Law of the leading bits of both coordinates, counted in samples."""
    leading = torch.cat([x[:, :COARSE], x[:, BITS : BITS + COARSE]], 1)
    index = states_to_index(leading).cpu()
    return torch.bincount(index, minlength=4**COARSE).double() / len(x)


def coarse_picture(law: Float[Tensor, " n_cells"]) -> Float[Tensor, "side side"]:
    """A law of the leading bits as a picture, rows from the bottom up."""
    side = 2**COARSE
    k = torch.arange(side // 2)
    size = torch.empty_like(k)
    size[k ^ (k >> 1)] = k
    # A sign, then the Gray code of the size: `ebmtut.states.gray_encode`.
    place = torch.cat([side // 2 + size, side // 2 - 1 - size])
    column, row = torch.cartesian_prod(place, place).T
    picture = law.new_empty(side, side)
    picture[row, column] = law
    return picture


def data_law(density: str, n: int, *, generator: torch.Generator) -> Tensor:
    """Law of the leading bits of fresh data."""
    return coarse_law(DensityData(density).sample_bits(n, generator=generator))


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
    _LEARNED[key] = WideEnergy(energy, log_z, coarse_law(drawn))
    return _LEARNED[key]


def judge_flow(
    flow: Flow,
    target: WideEnergy,
    n: int,
    n_steps: int,
    *,
    both_ways: bool,
    generator: torch.Generator,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Judge a flow by its samples, as `plane_samplers.plane_job` does by sums."""
    path, spare = flow.path, flow.path.n_sites - 2 * BITS
    weights, laws = [], torch.zeros(5, 4**COARSE, dtype=torch.float64)
    for size in _blocks(n):
        drawn = simulate(flow, size, n_steps, keep_states=True, generator=generator)
        assert drawn.states is not None
        weights.append(drawn.log_weights)
        laws += _at_five_times(drawn.states) * size / n
    log_weights = torch.cat(weights)
    estimate = log_partition(log_weights, path.log_partition_start).estimate
    coins = float(torch.tensor(2.0).log()) * spare
    again, _ = exact_draws(target.energy, n, generator=generator)
    scalars: dict[str, Any] = {
        "TV": float(distance(laws[-1], target.law)),
        "TV of exact draws": float(distance(coarse_law(again), target.law)),
        "ESS": effective_sample_size(log_weights),
        "log Z error": estimate - target.log_partition - coins,
    }
    kept = {"law": laws[-1], "path": laws}
    if both_ways:
        wanted = [
            coarse_law(exact_draws(path.at(k / 4), n, generator=generator)[0])
            for k in range(4)
        ]
        kept["wanted"] = torch.stack([*wanted, target.law])
        back = torch.zeros_like(laws)
        for start in again.split(_BLOCK):
            states = _reversed_states(flow, start, n_steps, generator=generator)
            back += _at_five_times(states) * len(start) / n
        kept["back"] = back
        for words, found in (("worst TV", laws), ("worst TV back", back)):
            scalars[words] = float(distance(found, kept["wanted"]).max())
    return scalars, kept


def count_states(
    draw: Callable[[int], Tensor], target: WideEnergy, n: int
) -> tuple[dict[str, float], Tensor]:
    """Judge a sampler that has no weights, by its states alone."""
    law = torch.zeros_like(target.law)
    for size in _blocks(n):
        law += coarse_law(draw(size)) * size / n
    return {"TV": float(distance(law, target.law))}, law


def _blocks(n: int) -> list[int]:
    return [min(_BLOCK, n - k) for k in range(0, n, _BLOCK)]


def _at_five_times(states: Tensor) -> Tensor:
    """Laws of the leading bits at the start, three times between and the end."""
    at = torch.linspace(0, len(states) - 1, 5).round().long()
    return torch.stack([coarse_law(states[k]) for k in at])


@torch.no_grad()
def _reversed_states(
    flow: Flow, x: Tensor, n_steps: int, *, generator: torch.Generator
) -> Tensor:
    """Follow the reversed flow from t = 1 to 0 by tau-leaping; states from t = 0 on."""
    states = [x]
    for k in range(n_steps, 0, -1):
        rates = flow.terms(x, k / n_steps).inward
        flips = torch.rand(rates.shape, generator=generator, device=x.device)
        x = torch.where(flips < -torch.expm1(-rates / n_steps), 1 - x, x)
        states.append(x)
    return torch.stack(states[::-1])
