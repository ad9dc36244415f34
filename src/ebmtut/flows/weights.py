"""What importance weights say: effective samples, log Z, bounds, exact samples."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Number, checked
from ebmtut.importance import effective_sample_size, relative_weights
from ebmtut.random import check_generator
from ebmtut.tensor_checks import check_shape

__all__ = [
    "LogPartition",
    "effective_sample_size",
    "independence_metropolis",
    "log_partition",
    "weighted_mean",
]


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


def independence_metropolis(
    log_weights: Float[Tensor, " n"], *, generator: torch.Generator
) -> Tensor:
    """Run Metropolis-Hastings whose proposals are the samples in their order.

    A proposal is accepted with probability min(1, w' / w) (Hastings 1970), which leaves
    the target invariant if the weights have the mean Z_1 / Z_0 over paths. The paper
    leaves this correction to future work.

    Returns
    -------
    states
        Index of the sample that the chain holds after each step, int64.
    """
    relative_weights(log_weights)
    check_generator(generator, log_weights.device)
    u = torch.rand(
        len(log_weights),
        generator=generator,
        device=log_weights.device,
        dtype=torch.float32,
    )
    held, current = 0, -math.inf
    chain = []
    for k, (value, log_u) in enumerate(
        zip(log_weights.tolist(), u.double().log().tolist(), strict=True)
    ):
        # A state of weight 0 is left at once.
        if current == -math.inf or value - current >= log_u:
            held, current = k, value
        chain.append(held)
    return torch.tensor(chain, device=log_weights.device)
