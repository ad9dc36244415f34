"""Errors of learned couplings."""

import math

import torch
from jaxtyping import Real
from torch import Tensor

from ebmtut.checks import check_range, check_type
from ebmtut.tensor_checks import check_shape

__all__ = ["negative_log_rmse", "rmse"]


@torch.no_grad()
def rmse(estimate: Real[Tensor, "*shape"], truth: Real[Tensor, "*shape"]) -> float:
    """Root of the mean squared error over all entries.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import rmse
    >>> round(rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])), 3)
    1.414
    """
    check_type("truth", truth, Tensor)
    check_shape("estimate", estimate, truth.shape)
    check_range("entries of estimate", estimate.numel(), low=1)
    error = estimate.double() - truth.to(estimate.device).double()
    return float(error.square().mean().sqrt())


def negative_log_rmse(
    estimate: Real[Tensor, "*shape"], truth: Real[Tensor, "*shape"]
) -> float:
    """Negative natural logarithm of :func:`rmse`; infinite where they agree.

    On a periodic square lattice of side n and coupling sigma, predicting zero scores
    ``-ln(|sigma| * 2 / n)``.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import negative_log_rmse
    >>> round(negative_log_rmse(torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.2])), 3)
    2.303
    """
    error = rmse(estimate, truth)
    return math.inf if error == 0.0 else -math.log(error)
