"""Log-probability ratios of all states that differ at one site.

Every local sampler and local loss is a short expression of them. The closed
form of the energy is used where there is one; otherwise every neighbour is
evaluated; the first-order Taylor expansion costs one gradient.
"""

from typing import Annotated

import torch
from jaxtyping import Float, Integer, Real
from torch import Tensor

from ebmtut.checks import Count, Range, checked
from ebmtut.energies import EnergyFunction
from ebmtut.energies.base import energies_and_gradients
from ebmtut.tensor_checks import check_shape, check_states

__all__ = ["neighbor_log_ratios", "taylor_log_ratios"]


@checked
def neighbor_log_ratios(
    energy: EnergyFunction,
    x: Real[Tensor, "batch n_sites"],
    *,
    n_states: Annotated[int, Range(low=2)] = 2,
    chunk: Count = 2**15,
    sites: Integer[Tensor, " n"] | None = None,
) -> Float[Tensor, "batch n_sites"] | Float[Tensor, "batch n_sites n_states"]:
    """Exact log p(y) - log p(x) for all y that differ from x at one site.

    Parameters
    ----------
    energy
        Its method `flip_log_ratios(x)`, where it has one, gives the answer for bits.
    n_states, chunk
        States of a site; most neighbours evaluated at once.
    sites
        Indices where ratios are needed; elsewhere they may be zero. None: everywhere.

    Returns
    -------
    log_ratios
        Of the flips, or of every value of every site, zero at the current one.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.neighbors import neighbor_log_ratios
    >>> neighbor_log_ratios(lambda x: x.sum(dim=1), torch.tensor([[0.0, 1.0]]))
    tensor([[-1.,  1.]])
    """
    check_shape("x", x, (None, None))
    closed_form = getattr(energy, "flip_log_ratios", None)
    if n_states == 2 and closed_form is not None:
        ratios: Tensor = closed_form(x)
        return ratios
    batch, n_sites = x.shape
    n_moves = n_states - 1
    here = energy(x)
    pieces = []
    moves = torch.arange(x.numel() * n_moves, device=x.device)
    if sites is not None:
        moves = moves.view(batch, n_sites, n_moves)[:, sites.to(x.device)].flatten()
    for index in torch.split(moves, chunk):
        row = index // (n_sites * n_moves)
        site = index // n_moves % n_sites
        # Adding 1, ..., n_states - 1 modulo n_states meets every other state.
        shift = index % n_moves + 1
        y = x[row]
        at = torch.arange(len(index), device=x.device), site
        y[at] = (y[at] + shift) % n_states
        pieces.append(here[row] - energy(y))
    ratios = torch.cat(pieces)
    if sites is not None:
        ratios = ratios.new_zeros(x.numel() * n_moves).index_put((moves,), ratios)
    ratios = ratios.reshape(batch, n_sites, n_moves)
    if n_states == 2:
        return ratios.squeeze(-1)
    shift = torch.arange(1, n_states, device=x.device)
    target = (x.long()[..., None] + shift) % n_states
    return ratios.new_zeros(batch, n_sites, n_states).scatter(2, target, ratios)


@checked
def taylor_log_ratios(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, "batch n_sites"]:
    """First-order estimate of log p(x with site i flipped) - log p(x).

    Exact where the energy is linear in every single bit (Grathwohl et al. 2021).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.neighbors import taylor_log_ratios
    >>> taylor_log_ratios(lambda x: x.sum(dim=1), torch.tensor([[0.0, 1.0]]))
    tensor([[-1.,  1.]])
    """
    check_states("x", x)
    _, gradient = energies_and_gradients(energy, x)
    return (2 * x.detach() - 1) * gradient
