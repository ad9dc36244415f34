"""Discrete states: bits and spins, one-hot, enumeration, the Gray code."""

import math
from typing import Annotated

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from ebmtut.checks import (
    Count,
    InputError,
    Positive,
    Range,
    check_counts,
    check_type,
    checked,
)
from ebmtut.tensor_checks import (
    check_bits,
    check_finite,
    check_floating,
    check_shape,
    refuse,
)

__all__ = [
    "bits_to_spins",
    "enumerate_states",
    "gray_decode",
    "gray_encode",
    "index_to_states",
    "one_hot",
    "spins_to_bits",
    "states_to_index",
]

#: Bits of a coordinate's magnitude; one more holds its sign.
_MAGNITUDE_BITS = 15

_MAX_ENUMERATED_BITS = 24

_Many = Annotated[int, Range(low=2)]


def bits_to_spins(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Map bits 0, 1 to spins -1, +1."""
    check_type("x", x, Tensor)
    check_floating("x", x.dtype)
    return torch.add(x.new_full((), -1), x, alpha=2)  # 2x - 1 in one pass


def spins_to_bits(s: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Map spins -1, +1 to bits 0, 1."""
    return (s + 1) / 2


@checked
def one_hot(
    x: Real[Tensor, "*shape"], n_states: _Many, *, dtype: torch.dtype = torch.float32
) -> Real[Tensor, "*shape n_states"]:
    """Encode integer states as unit vectors."""
    _check_states(x, n_states)
    return torch.nn.functional.one_hot(x.long(), n_states).to(dtype)


@checked
def enumerate_states(
    n_sites: Count,
    n_states: _Many = 2,
    *,
    dtype: torch.dtype = torch.float64,
) -> Real[Tensor, "n_all n_sites"]:
    """List every state; the first site is the most significant digit.

    Returns
    -------
    states
        All ``n_states**n_sites``, at most 2**24; row k has the digits of k.

    Examples
    --------
    >>> from ebmtut.states import enumerate_states
    >>> enumerate_states(2)
    tensor([[0., 0.],
            [0., 1.],
            [1., 0.],
            [1., 1.]], dtype=torch.float64)
    """
    if n_sites * math.log2(n_states) > _MAX_ENUMERATED_BITS:
        raise InputError(
            f"n_sites={n_sites} with n_states={n_states} has too many states: "
            f"at most 2**{_MAX_ENUMERATED_BITS} can be enumerated"
        )
    index = torch.arange(n_states**n_sites, device="cpu")
    return index_to_states(index, n_sites, n_states, dtype=dtype)


@checked
def index_to_states(
    index: Int[Tensor, " batch"],
    n_sites: Count,
    n_states: _Many = 2,
    *,
    dtype: torch.dtype = torch.float64,
) -> Real[Tensor, "batch n_sites"]:
    """Write integers in base `n_states`, most significant digit first."""
    check_shape("index", index, (None,))
    if index.is_floating_point() or index.dtype == torch.bool:
        raise InputError(f"index must hold integers, got dtype {index.dtype}")
    _check_index_bits(n_sites, n_states)
    high = n_states**n_sites - 1
    if index.numel() and (int(index.min()) < 0 or int(index.max()) > high):
        raise InputError(
            f"index must lie in [0, {high}], "
            f"got [{int(index.min())}, {int(index.max())}]"
        )
    place = _place_values(n_sites, n_states, index.device)
    return ((index[:, None] // place) % n_states).to(dtype)


@checked
def states_to_index(
    x: Real[Tensor, "batch n_sites"], n_states: _Many = 2
) -> Int[Tensor, " batch"]:
    """Rows of `enumerate_states` at which states stand."""
    check_shape("x", x, (None, None))
    _check_states(x, n_states)
    n_sites = x.shape[1]
    _check_index_bits(n_sites, n_states)
    return (x.long() * _place_values(n_sites, n_states, x.device)).sum(dim=1)


@checked
def gray_encode(
    points: Float[Tensor, "n_points 2"], scale: Positive
) -> Float[Tensor, "n_points 32"]:
    """Encode points of the plane as 32 bits, as the density literature does.

    A coordinate v takes a sign bit (1 if v < 0) and then 15 bits, most significant
    first, of the Gray code m ^ (m >> 1) of m = floor(|v| scale); the first coordinate
    comes first (Dai et al. 2020). Neighbouring cells differ in one bit and have the
    area scale**-2.

    Parameters
    ----------
    points, scale
        With |points| * scale < 2**15; cells a unit of length.
    """
    check_shape("points", points, (None, 2))
    check_finite("points", points)
    scaled = points.double() * scale
    limit = 2**_MAGNITUDE_BITS / scale
    # Compared as floats: what is too large for an integer wraps around.
    refuse(
        scaled.abs() >= 2**_MAGNITUDE_BITS,
        lambda: (
            f"points must lie within +-{limit:.6g} at scale {scale:.6g}, "
            f"got a coordinate of size {float(points.abs().max()):.6g}"
        ),
    )
    magnitude = scaled.abs().long()
    gray = magnitude ^ (magnitude >> 1)
    bits = (gray[..., None] // _place_values(_MAGNITUDE_BITS, 2, points.device)) % 2
    sign = (scaled < 0).long()[..., None]
    return torch.cat([sign, bits], dim=-1).flatten(1).to(points.dtype)


@checked
def gray_decode(
    bits: Float[Tensor, "n_points 32"], scale: Positive, *, center: bool = False
) -> Float[Tensor, "n_points 2"]:
    """Decode 32 bits to a point of their cell.

    Parameters
    ----------
    center
        False takes the corner nearest to the origin, as the literature does; True the
        centre, which encodes to the same bits.
    """
    check_bits("bits", bits, 2 * (_MAGNITUDE_BITS + 1))
    digits = bits.long().unflatten(1, (2, -1))
    # A Gray code is undone by summing the digits so far, modulo 2.
    binary = digits[..., 1:].cumsum(dim=-1) % 2
    place = _place_values(_MAGNITUDE_BITS, 2, bits.device)
    magnitude = (binary * place).sum(dim=-1).double() + (0.5 if center else 0.0)
    sign = 1 - 2 * digits[..., 0]
    return (sign * magnitude / scale).to(bits.dtype)


def _place_values(n_digits: int, base: int, device: torch.device) -> Tensor:
    return base ** torch.arange(n_digits - 1, -1, -1, device=device)


def _check_index_bits(n_sites: int, n_states: int) -> None:
    check_counts(n_sites=n_sites)
    if n_sites * math.log2(n_states) > 63:
        raise InputError(f"states must have an index below 2**63, got {n_sites} sites")


def _check_states(x: Tensor, n_states: int) -> None:
    check_finite("x", x)
    if x.is_floating_point() and bool((x != x.round()).any()):
        raise InputError("x must hold integer values, got fractions")
    if x.numel() and (int(x.min()) < 0 or int(x.max()) >= n_states):
        raise InputError(
            f"x must hold states in [0, {n_states - 1}], "
            f"got [{int(x.min())}, {int(x.max())}]"
        )
