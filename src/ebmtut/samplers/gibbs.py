"""Gibbs sampling: redraw one bit, or one colour class, given the rest.

Given the other bits, bit i is flipped with probability
sigmoid(log p(flip_i x) - log p(x)) (Geman and Geman, 1984).
"""

from typing import Annotated, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from ebmtut.checks import InputError, OneOf, checked
from ebmtut.energies import EnergyFunction
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.random import bernoulli, check_generator
from ebmtut.samplers.chain import Sampler, StepInfo, start_energy
from ebmtut.tensor_checks import check_shape

__all__ = ["ColorGibbsState", "GibbsState", "color_gibbs", "gibbs"]


class GibbsState(NamedTuple):
    """State of :func:`gibbs`: bits, their energy, the scan's next site."""

    x: Float[Tensor, "batch n_sites"]
    energy: Float[Tensor, " batch"]
    site: int


class ColorGibbsState(NamedTuple):
    """State of :func:`color_gibbs`: the bits."""

    x: Float[Tensor, "batch n_sites"]


def flip_sites(
    x: Float[Tensor, "batch n_sites"], site: Int[Tensor, " batch"]
) -> Float[Tensor, "batch n_sites"]:
    """Copy of ``x`` with one bit a row flipped."""
    column = site[:, None]
    return x.scatter(1, column, 1 - x.gather(1, column))


@checked
def gibbs(
    energy: EnergyFunction,
    order: Annotated[str, OneOf(("random", "systematic"))] = "random",
) -> Sampler:
    """Single-site Gibbs sampling; one step resamples one bit of every chain.

    Parameters
    ----------
    order
        ``"random"``: each chain samples its site (reversible); ``"systematic"``: in
        turn.

    Returns
    -------
    sampler
        A step costs one evaluation of the energy; ``n_sites`` steps are a sweep.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import gibbs, run_chain
    >>> x = torch.zeros(5, 9)
    >>> g = make_generator(0)
    >>> run_chain(gibbs(LatticeIsing(3, 0.2)), x, 90, generator=g).x_final.shape
    torch.Size([5, 9])
    """

    def init(x: Float[Tensor, "batch n_sites"]) -> GibbsState:
        return GibbsState(x, start_energy(energy, x), 0)

    @torch.no_grad()
    def step(
        state: GibbsState, *, generator: torch.Generator
    ) -> tuple[GibbsState, StepInfo]:
        x, current, next_site = state
        check_generator(generator, x.device)
        batch, n_sites = x.shape
        if order == "random":
            site = torch.randint(
                n_sites, (batch,), generator=generator, device=x.device
            )
        else:
            site = torch.full((batch,), next_site, device=x.device)
        flipped = flip_sites(x, site)
        other = energy(flipped)
        flip = bernoulli(torch.sigmoid(current - other), generator=generator)
        new = GibbsState(
            x=torch.where(flip[:, None] == 1, flipped, x),
            energy=torch.where(flip == 1, other, current),
            site=(next_site + 1) % n_sites,
        )
        return new, StepInfo(torch.where(other.isnan(), torch.nan, 1.0).to(flip), flip)

    return Sampler(init, step)


@checked
def color_gibbs(energy: EnergyFunction, colors: Integer[Tensor, " n_sites"]) -> Sampler:
    """Gibbs sampling by colour class; one step is one sweep over all sites.

    Sites of one colour must not interact; ``init`` refuses where they do.

    Parameters
    ----------
    colors
        Colour of each site, see :func:`ebmtut.energies.lattice_coloring`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing, lattice_coloring
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import color_gibbs, run_chain
    >>> sampler = color_gibbs(LatticeIsing(4, 0.2), lattice_coloring(4))
    >>> x = torch.zeros(5, 16)
    >>> run_chain(sampler, x, 10, generator=make_generator(0)).x_final.shape
    torch.Size([5, 16])
    """
    check_shape("colors", colors, (None,))
    if colors.is_floating_point() or colors.is_complex() or colors.dtype == torch.bool:
        raise InputError(f"colors must hold integers, got dtype {colors.dtype}")
    classes = [colors == color for color in torch.unique(colors)]
    places = [mask.nonzero()[:, 0] for mask in classes]

    def init(x: Float[Tensor, "batch n_sites"]) -> ColorGibbsState:
        current = start_energy(energy, x)
        check_shape("colors", colors, (x.shape[1],))
        with torch.no_grad():
            ratios = neighbor_log_ratios(energy, x)
            for sites in classes:
                _check_independent(energy, x, current, ratios, sites.to(x.device))
        return ColorGibbsState(x)

    @torch.no_grad()
    def step(
        state: ColorGibbsState, *, generator: torch.Generator
    ) -> tuple[ColorGibbsState, StepInfo]:
        x = state.x
        acceptance = torch.ones_like(x[:, 0])
        for mask, sites in zip(classes, places, strict=True):
            chance = torch.sigmoid(neighbor_log_ratios(energy, x, sites=sites))
            acceptance = torch.where(chance.isnan().any(1), torch.nan, acceptance)
            flip = bernoulli(chance, generator=generator)
            x = torch.where(mask.to(x.device), (x - flip).abs(), x)
        n_changed = (x - state.x).abs().sum(1)
        return ColorGibbsState(x), StepInfo(acceptance, n_changed)

    return Sampler(init, step)


def _check_independent(
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    current: Float[Tensor, " batch"],
    ratios: Float[Tensor, "batch n_sites"],
    sites: Bool[Tensor, " n_sites"],
) -> None:
    """Refuse a class whose joint flip is not the product of its single flips."""
    joint = current - energy(torch.where(sites, 1 - x, x))
    single = ratios[:, sites]
    scale = 1 + current.abs() + single.abs().sum(1)
    tolerance = 1e3 * torch.finfo(x.dtype).eps * scale
    if ((joint - single.sum(1)).abs() > tolerance).any():
        members = sites.nonzero()[:, 0].tolist()
        raise InputError(
            f"colors must not give interacting sites one colour, got the class "
            f"{members[:8]}{'...' if len(members) > 8 else ''} with interactions"
        )
