"""Checks of a transport problem that all its solvers share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmtut.checks import InputError, check_positive, shown
from ebmtut.tensor_checks import check_finite


def check_problem(p: Tensor, q: Tensor, cost: Tensor, *, batched: bool = True) -> None:
    """Require masses (..., m1), (..., m2) and a cost (m1, m2) that admits a plan."""
    check_masses("p", p)
    check_masses("q", q)
    if not batched and p.dim() != 1:
        raise InputError(f"p must have shape (m1,), got {tuple(p.shape)}")
    if p.shape[:-1] != q.shape[:-1]:
        shape = "(m2,)" if p.dim() == 1 else f"({len(p)}, m2)"
        raise InputError(
            f"q must have shape {shape} beside p of {tuple(p.shape)}, "
            f"got {tuple(q.shape)}"
        )
    want = (p.shape[-1], q.shape[-1])
    if not isinstance(cost, Tensor) or tuple(cost.shape) != want:
        got = tuple(cost.shape) if isinstance(cost, Tensor) else shown(cost)
        raise InputError(f"cost must have shape {want}, got {got}")
    for name, tensor in (("q", q), ("cost", cost)):
        if tensor.dtype != p.dtype or tensor.device != p.device:
            raise InputError(
                f"{name} must have the dtype and device of p, {p.dtype} on "
                f"{p.device}, got {tensor.dtype} on {tensor.device}"
            )
    if math.isfinite(float(cost.detach().sum())):
        return
    if bool((torch.isnan(cost) | (cost == -math.inf)).any()):
        raise InputError("cost must be finite or +inf, got NaN or -inf")
    open_pairs = torch.isfinite(cost).to(p.dtype)
    for name, mass, reach in (
        ("row", p, (q > 0).to(p.dtype) @ open_pairs.T),
        ("column", q, (p > 0).to(p.dtype) @ open_pairs),
    ):
        stuck = (mass > 0) & (reach == 0)
        if bool(stuck.any()):
            k = int(stuck.nonzero()[0, -1])
            raise InputError(
                f"cost must let every mass go somewhere, got inf in all of {name} {k}"
            )


def check_masses(name: str, mass: Tensor) -> None:
    """Require non-negative floats whose last dimension sums to 1."""
    if not isinstance(mass, Tensor) or not mass.is_floating_point():
        raise InputError(
            f"{name} must be a floating tensor of masses, got {shown(mass)}"
        )
    if mass.dtype not in (torch.float32, torch.float64):
        # Half precision cannot tell masses of a thousandth from their neighbours.
        raise InputError(f"{name} must be float32 or float64, got {mass.dtype}")
    if mass.dim() not in (1, 2) or mass.numel() == 0:
        raise InputError(
            f"{name} must have shape (m,) or (batch, m), got {tuple(mass.shape)}"
        )
    mass = mass.detach()
    excess = (mass.sum(-1) - 1).flatten()
    lowest, worst = float(mass.min()), float(excess.abs().max())
    if lowest >= 0 and worst <= torch.finfo(mass.dtype).eps ** 0.5:
        return
    check_finite(name, mass)
    if lowest < 0:
        raise InputError(f"{name} must be non-negative, got {lowest:g}")
    side = "much" if float(excess[excess.abs().argmax()]) > 0 else "little"
    raise InputError(f"{name} must sum to 1, got {worst:.3g} too {side}")


def check_potential(
    name: str, potential: object, mass: Tensor, *, leading: bool = False
) -> None:
    """Require a potential of the masses' shape and dtype that has no NaN."""
    last, want = mass.shape, str(tuple(mass.shape))
    if leading:
        last, want = mass.shape[-1:], f"(..., {mass.shape[-1]})"
    if not isinstance(potential, Tensor):
        got = shown(potential)
        raise InputError(f"{name} must be a tensor of shape {want}, got {got}")
    shape = potential.shape[-1:] if leading else potential.shape
    if shape != last:
        got = str(tuple(potential.shape))
        raise InputError(f"{name} must have shape {want}, got {got}")
    if potential.dtype != mass.dtype:
        raise InputError(
            f"{name} must have the dtype of the masses, {mass.dtype}, "
            f"got {potential.dtype}"
        )
    if n_nan := int(torch.isnan(potential).sum()):
        raise InputError(f"{name} must have no NaN, got {n_nan}")


def check_temperature(temperature: float | Tensor) -> None:
    """Require one finite number > 0."""
    value = temperature
    if isinstance(value, Tensor) and value.numel() == 1:
        value = float(value)
    check_positive(temperature=value)


def as_temperatures(temperatures: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """Return T^(1..2N) as a tensor (N, 2): the h and the g step of an iteration."""
    try:
        values = torch.as_tensor(temperatures, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        got = repr(temperatures)[:40]
        raise InputError(f"temperatures must be 2N numbers, got {got}") from error
    if values.dim() != 1 or len(values) == 0 or len(values) % 2:
        raise InputError(
            "temperatures must be 2N numbers, one a half step, "
            f"got shape {tuple(values.shape)}"
        )
    held = values.to(like)
    for found, where in ((values, ""), (held, f" in {held.dtype}")):
        if not 0 < float(found.min()) <= float(found.max()) < math.inf:
            k = int((~torch.isfinite(found) | (found <= 0)).nonzero()[0])
            raise InputError(
                f"temperatures must be > 0 and finite{where}, "
                f"got {float(values[k]):g} at {k}"
            )
    return held.view(-1, 2)


def weighted_sum(mass: Tensor, values: Tensor) -> Tensor:
    """<mass, values> over the last dimension; no mass makes infinity worth nothing."""
    return (mass * values.masked_fill(mass == 0, 0)).sum(-1)
