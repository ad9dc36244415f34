"""What importance weights say: effective samples, log Z and a bound, means."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Number, checked
from ebmtut.importance import effective_sample_size, relative_weights
from ebmtut.tensor_checks import check_shape

__all__ = ["LogPartition", "effective_sample_size", "log_partition", "weighted_mean"]


class LogPartition(NamedTuple):
    """What :func:`log_partition` returns, in nats.

    Attributes
    ----------
    estimate
        log Z_0 plus the log of the mean weight.
    standard_error
        Of the estimate, by the delta method.
    lower_bound
        log Z_0 plus the mean log-weight: below log Z in expectation.
    """

    estimate: float
    standard_error: float
    lower_bound: float


@checked
def log_partition(
    log_weights: Float[Tensor, " n"], log_partition_start: Number = 0.0
) -> LogPartition:
    """Estimate log Z_1 from weights whose mean is Z_1 / Z_0, given log Z_0.

    Returns
    -------
    log_partition
        The paper's bound, a weighted mean, is lower by the entropy of the target.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.flows import log_partition
    >>> log_partition(torch.zeros(4), log_partition_start=1.5).estimate
    1.5
    """
    w = relative_weights(log_weights)
    mean = w.mean()
    spread = float(w.std() / mean / math.sqrt(len(w))) if len(w) > 1 else math.inf
    top = log_partition_start + float(log_weights.double().max())
    lower = log_partition_start + float(log_weights.double().mean())
    return LogPartition(top + math.log(float(mean)), spread, lower)


def weighted_mean(
    log_weights: Float[Tensor, " n"], values: Float[Tensor, "n ..."]
) -> Tensor:
    """Self-normalised mean of values under the target."""
    w = relative_weights(log_weights)
    check_shape("values", values, (len(w), *values.shape[1:]))
    return torch.tensordot(w / w.sum(), values.double(), dims=1)
