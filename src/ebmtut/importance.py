"""Importance weights: their effective number, their mean, and samples by them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.tensor_checks import check_shape

__all__ = [
    "Estimate",
    "effective_sample_size",
    "estimate_log_mean_exp",
    "relative_weights",
    "systematic_resampling",
]


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    stderr: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.stderr:.4f}"


def relative_weights(
    log_weights: Float[Tensor, " n_samples"],
) -> Float64[Tensor, " n_samples"]:
    """Weights over the largest of them.

    Raises
    ------
    InputError
        If there are none, one is NaN or plus infinity, or all weights are zero.
    """
    check_shape("log_weights", log_weights, (None,))
    w = log_weights.double()
    top = float(w.max()) if len(w) else math.nan
    if not math.isfinite(top):
        reason = "all weights are zero" if top == -math.inf else str(top)
        raise InputError(f"log_weights must have a finite largest value, got {reason}")
    return (w - top).exp()


def effective_sample_size(log_weights: Float[Tensor, " n_samples"]) -> float:
    r"""Effective sample size of importance weights, as a fraction in (0, 1].

    :math:`(\sum w)^2 / (n \sum w^2)`, Equation 38 of Ou, Zhang and Li (2025). It cannot
    see what no sample has met.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import effective_sample_size
    >>> effective_sample_size(torch.tensor([0.0, 0.0, -100.0, -100.0]))
    0.5
    """
    w = relative_weights(log_weights)
    return float(w.sum() ** 2 / (w * w).sum() / len(w))


def estimate_log_mean_exp(log_weights: Float[Tensor, " n_samples"]) -> Estimate:
    """Log of the mean weight, with its standard error by the delta method.

    Returns
    -------
    estimate
        In float64. The error is too small where few samples carry the sum.
    """
    relative_weights(log_weights)  # refuses weights that are all zero
    check_range("len(log_weights)", len(log_weights), low=2, integer=True)
    w = log_weights.double()
    value = float(w.logsumexp(0)) - math.log(len(w))
    relative = (w - value).exp()
    return Estimate(value, float(relative.std()) / math.sqrt(len(w)))


def systematic_resampling(
    fractions: Float[Tensor, " n_samples"], n: int, shift: Float[Tensor, ""]
) -> Int64[Tensor, " n"]:
    """Choose n places, each as often as n times its fraction, up to one time.

    Parameters
    ----------
    fractions, shift
        Weights that sum to 1; a uniform random number, all that is random.
    """
    marks = torch.arange(n, dtype=shift.dtype, device=shift.device)
    points = ((marks + shift) / n).to(fractions.dtype)
    places = torch.searchsorted(fractions.cumsum(0), points)
    return places.clamp(max=len(fractions) - 1)
