"""Exact distributions of small systems, by enumeration of all states."""

from collections.abc import Callable, Iterator
from typing import Annotated

import torch
from jaxtyping import Float, Float64, Num
from torch import Tensor

from ebmtut.checks import InputError, Range, checked, shown
from ebmtut.energies import Energy, EnergyFunction, dtype_of_states, energies_of
from ebmtut.states import index_to_states
from ebmtut.tensor_checks import check_device, check_finite, check_floating, check_shape

__all__ = ["exact_log_partition", "exact_mean", "exact_probabilities"]

_MAX_STREAMED_SITES = 30


@checked
def exact_probabilities(
    energy: EnergyFunction,
    n_sites: Annotated[int, Range(1, 24)],
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Float64[Tensor, " n_all"]:
    """Log-probabilities of all states, as in `enumerate_states`; differentiable.

    Parameters
    ----------
    dtype
        Of the states; None takes `ebmtut.energies.dtype_of_states`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.exact import exact_probabilities
    >>> exact_probabilities(lambda x: x.sum(dim=1), 2).exp().round(decimals=3)
    tensor([0.5340, 0.1970, 0.1970, 0.0720], dtype=torch.float64)
    """
    pieces = [-e for _, e in _stream(energy, n_sites, dtype, device)]
    return torch.log_softmax(torch.cat(pieces), dim=0)


@checked
def exact_log_partition(
    energy: EnergyFunction,
    n_sites: Annotated[int, Range(1, _MAX_STREAMED_SITES)],
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Float64[Tensor, ""]:
    """Log partition function in nats, log of the sum of exp(-E(x)) over all bits.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.exact import exact_log_partition
    >>> exact_log_partition(lambda x: 0 * x.sum(dim=1), 3).exp()  # counts the states
    tensor(8.0000, dtype=torch.float64)
    """
    blocks = [
        torch.logsumexp(-e, dim=0) for _, e in _stream(energy, n_sites, dtype, device)
    ]
    return torch.logsumexp(torch.stack(blocks), dim=0)


@checked
def exact_mean(
    energy: EnergyFunction,
    f: Callable[[Float[Tensor, "batch n_sites"]], Num[Tensor, "batch ..."]],
    *,
    n_sites: int | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Float64[Tensor, "..."]:
    """Expectation of a function of the state under p(x).

    Parameters
    ----------
    f
        Maps bits to values, the first dimension being that of the states.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.exact import exact_mean
    >>> energy = LatticeIsing(3, 0.1, bias=0.2)
    >>> exact_mean(energy, lambda x: x.mean(dim=1)).round(decimals=3)
    tensor(0.7330, dtype=torch.float64)
    """
    if n_sites is None:
        if not isinstance(energy, Energy):
            raise InputError(
                "n_sites must be given where energy is no Energy, got None and "
                f"{shown(energy)}"
            )
        n_sites = energy.n_sites
    log_z = exact_log_partition(energy, n_sites, dtype=dtype, device=device)
    total: Tensor | None = None
    for x, e in _stream(energy, n_sites, dtype, device):
        values = f(x)
        check_shape("f(x)", values, (len(x), *values.shape[1:]))
        part = torch.tensordot(torch.exp(-e - log_z), values.to(e), dims=1)
        total = part if total is None else total + part
    assert total is not None  # there is at least one state
    return total


def _stream(
    energy: EnergyFunction,
    n_sites: int,
    dtype: torch.dtype | None,
    device: str | torch.device,
    block: int = 2**14,
) -> Iterator[tuple[Float[Tensor, "batch n_sites"], Float64[Tensor, " batch"]]]:
    dtype = dtype_of_states(energy) if dtype is None else dtype
    check_floating("dtype", dtype)
    check_device(device)
    # States are made block by block, so that memory holds only one.
    for start in range(0, 2**n_sites, block):
        stop = min(start + block, 2**n_sites)
        index = torch.arange(start, stop, device=device)
        x = index_to_states(index, n_sites, dtype=dtype)
        energies = energies_of(energy, x).double()
        check_finite("energy(x)", energies)
        yield x, energies
