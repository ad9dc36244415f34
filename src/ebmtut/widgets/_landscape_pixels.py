"""Learned landscapes as bytes: small enough for a page to carry all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebmtut.checks import Count, InputError, check_choice, checked, shown
from ebmtut.plotting import DIVERGED_GAP
from ebmtut.results import Result

# Name of a hyperparameter on the page, and the recipe's field that it sets.
FIELDS = {"eps": "eps", "M": "n_negatives", "w": "stabilizer"}

DIVERGED, NOT_RUN = "diverged", "not run"

# The scale ends where this part of the cells lies below, as in the figures.
_TOP = 0.998


@checked
def encode_landscape(log_density: ArrayLike, n_pixels: Count = 48) -> np.ndarray:
    """Turn a landscape, rows of growing y, into bytes linear in the density.

    Rows are from the top down; 99.8 percent of the cells lie below 255.
    """
    values = np.asarray(log_density, dtype=float)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(
            f"log_density must be a square matrix, got shape {values.shape}"
        )
    n_cells = len(values)
    if n_cells % n_pixels:
        raise InputError(f"n_pixels must divide {n_cells}, got {n_pixels}")
    if not np.isfinite(values.max()):
        raise InputError(f"log_density must have a finite maximum, got {values.max()}")
    density = np.exp(values - values.max())
    k = n_cells // n_pixels
    density = density.reshape(n_pixels, k, n_pixels, k).mean(axis=(1, 3))
    top = max(float(np.quantile(density, _TOP)), 1e-12)
    return np.rint(255 * (density[::-1] / top).clip(0, 1)).astype(np.uint8)


@dataclass(frozen=True)
class PackedLandscapes:
    """Every setting of the hyperparameters, in the order of `itertools.product`."""

    choices: dict[str, tuple[float, ...]]  # outermost first
    pictures: tuple[np.ndarray, ...]  # the true density first
    shown: tuple[int, ...]  # place of each setting's picture, -1 where there is none
    notes: tuple[str, ...]  # KL to the data in nats, "diverged" or "not run"


def pack_landscapes(
    result: Result,
    choices: Mapping[str, Sequence[float]] | None = None,
    *,
    method: str = "ED-Bern",
    n_pixels: int = 48,
) -> PackedLandscapes:
    """Collect the landscapes of one method over a grid of eps, M and w, or over all.

    The result is one of ed/w-and-m: ``scalars["variants"]`` holds recipes and gaps, the
    array of the same name the landscapes, ``truth`` the true one.
    """
    variants: Mapping[str, Any] = result.scalars.get("variants", {})
    found = {
        tuple(float(v["recipe"][field]) for field in FIELDS.values()): name
        for name, v in variants.items()
        if v["recipe"]["method"] == method
    }
    values = _values_of(choices, list(found))
    pictures, shown, notes = [], [], []
    if "truth" in result.arrays:
        pictures.append(encode_landscape(result.arrays["truth"], n_pixels))
    for setting in product(*values.values()):
        name = found.get(setting)
        gap = variants[name].get("gap") if name else None
        if name in result.arrays and gap is not None and abs(gap) < DIVERGED_GAP:
            shown.append(len(pictures))
            notes.append(f"{gap:.2f}")
            pictures.append(encode_landscape(result.arrays[name], n_pixels))
        else:
            shown.append(-1)
            notes.append(DIVERGED if name else NOT_RUN)
    if "truth" not in result.arrays or set(notes) <= {NOT_RUN}:
        wanted = "; ".join(f"{k} in {v}" for k, v in values.items())
        raise InputError(
            f"result {result.id!r} ({result.scale}) must hold the truth and "
            f"landscapes of {method} for some of {wanted or 'eps, M, w'}: it has none"
        )
    return PackedLandscapes(values, tuple(pictures), tuple(shown), tuple(notes))


def _values_of(
    choices: Mapping[str, Sequence[float]] | None, found: list[tuple[float, ...]]
) -> dict[str, tuple[float, ...]]:
    """Return every hyperparameter's values in rising order, in the order of FIELDS."""
    if choices is None:
        columns = zip(FIELDS, zip(*found, strict=True), strict=False)
        return {name: tuple(sorted(set(column))) for name, column in columns}
    for name in choices:
        check_choice("choices", name, FIELDS)
    if missing := [name for name in FIELDS if not choices.get(name)]:
        raise InputError(
            f"choices must give values of {', '.join(missing)}, got {shown(choices)}"
        )
    return {name: tuple(sorted(float(v) for v in choices[name])) for name in FIELDS}
