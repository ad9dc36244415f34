"""Energies and flows over a small Gray-coded plane, and their exact distributions.

With eight bits, a distribution is a table of 256 numbers: its constant, the
distribution of a flow's states and every distance are exact sums. The paper's planes,
which only its presets use, have 32 bits: there distributions are estimated, and
pictures and distances are of the leading five bits of both coordinates.
Source: Ou, Zhang and Li (2025), Sections 4.1 and 4.2, Appendix E.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut.data import density_extent, density_log_prob
from ebmtut.energies import EnergyFunction
from ebmtut.flows import Flow, HollowConvolution, HollowTransformer
from ebmtut.metrics import grid_log_partition, sample_by_proposal
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.states import enumerate_states, states_to_index

#: Up to so many bits per coordinate, distributions are tables of all states.
LISTED = 6

#: Bits of the paper's coordinates, and leading ones that make the coarse picture.
BITS, COARSE = 16, 5


def gray_cells(n_bits: int) -> Tensor:
    """Row and column of the picture of every state, (n_all, 2), columns first."""
    k = torch.arange(2**n_bits)
    place = torch.empty_like(k)
    place[k ^ (k >> 1)] = k
    return torch.cartesian_prod(place, place)


def plane_distribution(density: str, n_bits: int) -> Float[Tensor, " n_all"]:
    """Probability of every state of a Gray-coded plane."""
    extent, side, fine = density_extent(density), 2**n_bits, 8
    ticks = (torch.arange(side * fine).double() + 0.5) / (side * fine)
    points = torch.cartesian_prod(*[extent * (2 * ticks - 1)] * 2)
    p = density_log_prob(density, points).exp()
    p = p.reshape(side, fine, side, fine).mean((1, 3))
    column, row = gray_cells(n_bits).T
    found = p[column, row]
    return found / found.sum()


def plane_picture(p: Float[Tensor, " n_all"]) -> Float[Tensor, "side side"]:
    """A distribution over the states as a picture, rows from the bottom up."""
    n_bits = int(math.log2(len(p))) // 2
    column, row = gray_cells(n_bits).T
    picture = p.new_empty(2**n_bits, 2**n_bits)
    picture[row, column] = p
    return picture


def pictures(
    p: Tensor, picture: Callable[[Tensor], Tensor] = plane_picture
) -> np.ndarray:
    """Pictures of one distribution or several, float32."""
    drawn = torch.stack([picture(q) for q in p.reshape(-1, p.shape[-1])])
    return np.asarray(drawn.reshape(*p.shape[:-1], *drawn.shape[1:]), dtype="float32")


def distance(
    p: Float[Tensor, "*shape n_all"], q: Float[Tensor, "*shape n_all"]
) -> Float[Tensor, "*shape"]:
    """Total variation distance between distributions."""
    return (p - q).abs().sum(-1) / 2


def entropy(p: Float[Tensor, " n_all"]) -> float:
    """Entropy in nats."""
    held = p[p > 0]
    return -float((held * held.log()).sum())


def independent_bits(p: Float[Tensor, " n_all"]) -> Float[Tensor, " n_all"]:
    """Distribution of independent bits with the same means."""
    x = enumerate_states(len(p).bit_length() - 1).double()
    mean = p @ x
    return (x * mean + (1 - x) * (1 - mean)).prod(1)


def scores(
    p: Float[Tensor, " n_all"], data: Float[Tensor, " n_all"]
) -> dict[str, float]:
    """KL from the data in nats, total variation distance and MMD, all exact."""
    x = enumerate_states(len(p).bit_length() - 1).double()
    kernel = (-0.1 * torch.cdist(x, x, p=1)).exp()
    off = p.double() - data
    held = data > 0
    kl = (data[held] * (data[held] / p.double()[held]).log()).sum()
    return {
        "KL": float(kl),
        "TV": float(distance(p.double(), data)),
        "MMD": 1e4 * float(off @ kernel @ off),
    }


def draw_pictures(lines: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw a line of pictures for each density; the first one sets a line's colours."""
    n_columns = len(next(iter(lines.values())))
    size = panel_size(len(lines), n_columns, title=0.05)
    figure, axes = plt.subplots(len(lines), n_columns, figsize=size, squeeze=False)
    for (density, line), row in zip(lines.items(), axes, strict=True):
        row[0].set_ylabel(density, fontsize=12)
        for (name, picture), ax in zip(line.items(), row, strict=True):
            highest = next(iter(line.values())).max()
            ax.imshow(picture, origin="lower", vmin=0, vmax=highest)
            ax.set(xticks=[], yticks=[])
            if not ax.get_subplotspec().rowspan.start:
                ax.set_title(name, fontsize=12)
    return figure


def shown_densities(result: Result) -> list[str]:
    """Three densities that differ in shape, or all where they were not run."""
    found = list(next(iter(result.scalars["table"].values())))
    three = [d for d in ("2spirals", "8gaussians", "checkerboard") if d in found]
    return three or found


class Method(NamedTuple):
    """How a sampler is made and trained; an objective of "" leaves it untrained."""

    network: str = "leTF"
    objective: str = "batch"
    rates: str = "reversible"
    ratios: str = "exact"
    max_log_ratio: float | None = None
    sweeps: bool = True


_PUBLISHED = Method(rates="one_way", max_log_ratio=5.0, sweeps=False)
METHODS = {
    "DNFS": Method(),
    "paper": _PUBLISHED._replace(objective="stein"),
    "Taylor": Method(ratios="taylor"),
    "LEAPS, leTF": _PUBLISHED._replace(objective="learned"),
    "LEAPS, leConv": _PUBLISHED._replace(objective="learned", network="leConv"),
    "GFlowNet": Method("GFlowNet"),
    "untrained": Method(objective=""),
}


def new_flow(
    path: AnnealingPath,
    method: Method,
    width: int,
    n_layers: int,
    *,
    seed: int,
    device: str | torch.device,
) -> Flow:
    """Make an untrained flow."""
    generator = make_generator(seed)
    network: nn.Module
    if method.network == "leConv":
        side = math.isqrt(path.n_sites)
        network = HollowConvolution(side, width=2 * width, generator=generator)
    else:
        how: Any = {"width": width, "n_layers": n_layers, "generator": generator}
        network = HollowTransformer(path.n_sites, **how)
    network = network.to(device)
    return Flow(path, network, rates=method.rates, max_log_ratio=method.max_log_ratio)


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


def exact_draws(
    energy: EnergyFunction, n: int, *, generator: torch.Generator
) -> tuple[Tensor, float]:
    """Draw independent states of an energy of 32 bits, and estimate its log Z."""
    of: Any = {"generator": generator, "dtype": torch.float32}
    fit = grid_log_partition(energy, coarse_bits=7, n_samples=n, **of)
    drawn = sample_by_proposal(energy, fit.proposal, n, **of)
    return drawn, fit.log_partition.value
