"""How far samples are from data: two discrepancies and the nearest datum."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from ebmtut.metrics import (
    hamming_distances,
    hamming_kernel_mean,
    mmd_of_fresh_sample,
)

__all__ = ["Reference", "distances", "distances_of_data", "reference"]


class Reference(NamedTuple):
    """Data to judge samples by, and its mean kernels, which are dear to compute."""

    x: Tensor
    within: dict[str, float]


def reference(x: Tensor) -> Reference:
    """Prepare data, bits of shape (n, n_visible), for `distances`."""
    rates = {"log_mmd2": 1 / x.shape[1], "sharp": 0.1}
    return Reference(
        x, {name: hamming_kernel_mean(x, x, rate) for name, rate in rates.items()}
    )


def distances(samples: Tensor, data: Reference) -> dict[str, float]:
    """How far samples are from data, by three measures.

    Returns
    -------
    dict
        ``log_mmd2``: log of the squared MMD, a V-statistic, with the paper's
        kernel exp(-average Hamming distance). ``sharp``: the same with
        exp(-0.1 Hamming distance), which sees more than the pixels' means.
        ``nearest``: mean part of the pixels by which a sample differs from the
        datum nearest to it.
    """
    rates = {"log_mmd2": 1 / samples.shape[1], "sharp": 0.1}
    squared = {
        name: hamming_kernel_mean(samples, samples, rate)
        + data.within[name]
        - 2 * hamming_kernel_mean(samples, data.x, rate)
        for name, rate in rates.items()
    }
    nearest = hamming_distances(samples, data.x).min(1).values.mean()
    # At a zero, samples that are the data, rounding may fall below.
    logs = {name: math.log(max(value, 1e-12)) for name, value in squared.items()}
    return logs | {"nearest": float(nearest) / samples.shape[1]}


def distances_of_data(x: Tensor, n: int) -> dict[str, float]:
    """Return what a perfect sampler's n draws can expect of `distances` from x.

    ``nearest`` is measured: the first n data are held against the others.
    """
    others = reference(x[n:])
    return {
        "log_mmd2": math.log(mmd_of_fresh_sample(x, n, "average_hamming")),
        "sharp": math.log(mmd_of_fresh_sample(x, n, bandwidth=0.1)),
        "nearest": distances(x[:n], others)["nearest"],
    }
