"""How far samples of a lattice are from its exact laws: of the energy, of two spins.

Source of the laws: `ebmtut.exact.torus`. The paper's histograms (Ou, Zhang and Li,
2025, Figures 5 and 13) stand over those of long Gibbs runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from matplotlib.axes import Axes
from scipy.stats import wasserstein_distance
from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_correlations, torus_energy_law
from ebmtut.results.tables import Cell, Table
from ebmtut.states import bits_to_spins

#: Sets of exact draws, whose distances are the noise of as many samples.
_N_SETS = 200


class EnergyLaw(NamedTuple):
    """Levels of the energy, in nats, and the probability of each."""

    levels: Float64[np.ndarray, " n_levels"]
    chances: Float64[np.ndarray, " n_levels"]


def energy_law(side: int, sigma: float) -> EnergyLaw:
    """Return the exact law of the energy of a torus of even side."""
    levels, chances = torus_energy_law(side, side, 2 * sigma)
    return EnergyLaw(levels.numpy(), chances.numpy())


def law_distance(
    energies: Float[np.ndarray, " n_samples"],
    law: EnergyLaw,
    log_weights: Float[np.ndarray, " n_samples"] | None = None,
) -> float:
    """First Wasserstein distance of energies from their exact law, in nats."""
    weights = None
    if log_weights is not None:
        weights = np.exp(log_weights.astype(float) - log_weights.max())
    return float(wasserstein_distance(energies, law.levels, weights, law.chances))


def share_by_spread(means: list[float], law: EnergyLaw, n: int) -> float:
    """Effective share of samples that depend on each other, by their mean energies."""
    mean = float(law.levels @ law.chances)
    variance = float((law.levels - mean) ** 2 @ law.chances)
    error = float(np.mean((np.array(means, dtype=float) - mean) ** 2))
    return variance / n / error


def drawn_distances(
    law: EnergyLaw, n: int, *, generator: torch.Generator
) -> tuple[float, float]:
    """Mean and standard deviation of the distance that exact draws have."""
    chances = torch.from_numpy(law.chances)
    found = [
        law_distance(
            law.levels[torch.multinomial(chances, n, True, generator=generator)], law
        )
        for _ in range(_N_SETS)
    ]
    return fmean(found), stdev(found)


def draw_energies(
    ax: Axes,
    side: int,
    sigma: float,
    energies: Float[np.ndarray, " n_samples"],
    bins: Sequence[float],
    *,
    color: str,
) -> None:
    """Draw a histogram of energies over their exact distribution (grey)."""
    law = energy_law(side, sigma)
    chances, _ = np.histogram(law.levels, bins, weights=law.chances)
    ax.stairs(chances / np.diff(bins), bins, fill=True, color="#D0D0D0")
    ax.hist(energies, bins, density=True, histtype="step", color=color, lw=1.8)


def pair_products(
    x: Float[Tensor, "n_samples n_sites"], side: int
) -> Float[Tensor, "n_samples n"]:
    """Mean product of two spins of each sample, by their distance."""
    s = bits_to_spins(x).reshape(len(x), side, side)
    along = [
        (s * s.roll(r, dims=1) + s * s.roll(r, dims=2)).mean((1, 2)) / 2
        for r in range(1, side // 2 + 1)
    ]
    return torch.stack(along, 1)


def pair_table(
    samples: Mapping[str, tuple[Tensor, Tensor | None]],
    energy: LatticeIsing,
    *,
    nulls: Sequence[str] = (),
) -> Table:
    """Set correlations of two spins, by distance, beside the exact ones."""
    side = energy.side
    exact = torus_correlations(side, side, 2 * energy.sigma)[1:]
    columns: dict[str, list[Cell]] = {"sampler": [*samples, "exact"]}
    columns |= {f"distance {r}": [] for r in range(1, len(exact) + 1)}
    for x, log_weights in samples.values():
        products = pair_products(x, side).double()
        if log_weights is None:
            log_weights = torch.zeros(len(x))
        w = log_weights.double().softmax(0)
        mean = w @ products
        noise = ((w[:, None] * (products - mean)) ** 2).sum(0).sqrt()
        for head, value, error in zip(
            list(columns)[1:], mean.tolist(), noise.tolist(), strict=True
        ):
            columns[head].append((value, error))
    for head, value in zip(list(columns)[1:], exact.tolist(), strict=True):
        columns[head].append(round(value, 4))
    kinds = ["null" if name in nulls else "" for name in samples]
    return Table(
        columns,
        caption="Mean product of two spins, by their distance along an axis. "
        "Errors are of the samples.",
        kinds=[*kinds, "exact"],
        digits=4,
    )
