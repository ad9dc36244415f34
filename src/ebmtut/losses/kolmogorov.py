"""The Kolmogorov equation as a loss: what a flow's weights would still change."""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import check_range
from ebmtut.flows import Flow
from ebmtut.paths import Time
from ebmtut.tensor_checks import check_shape

__all__ = [
    "kolmogorov_residual",
    "kolmogorov_variance_loss",
    "log_partition_slope",
]


def kolmogorov_residual(
    flow: Flow,
    x: Float[Tensor, "batch n_sites"],
    t: Time,
    slope: float | Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """xi_t(x) - c_t, zero at all states where the flow carries its path.

    The loss of Ou, Zhang and Li (2025, Equation 10) is its mean square. With
    c_t from `log_partition_slope`, held fixed, that is their coordinate
    descent; with a learned c_t it is the objective of LEAPS.

    Parameters
    ----------
    flow
        What is learned; gradients reach its network.
    x
        States, of any law.
    t
        Times in [0, 1].
    slope
        c_t, which stands for the time derivative of log Z_t.

    Returns
    -------
    residual
        One a state.
    """
    return flow.terms(x, t).xi - slope


def log_partition_slope(
    xi: Float[Tensor, "n_times n"], derivative: Float[Tensor, "n_times n"] | None = None
) -> Float[Tensor, " n_times"]:
    """Estimate the time derivative of log Z_t from states at each time.

    The mean of xi_t, whose part that the rates add has mean zero under p_t
    (the discrete Stein identity): a control variate. Given `derivative`, the
    mean of that alone: the plain estimate.

    Parameters
    ----------
    xi
        xi_t of the states of each time.
    derivative
        Time derivative of the unnormalised log-law there.
    """
    return (xi if derivative is None else derivative).mean(1)


def kolmogorov_variance_loss(
    flow: Flow, x: Float[Tensor, "n_times n n_sites"], t: Float[Tensor, " n_times"]
) -> Float[Tensor, ""]:
    """Mean over times of the variance of xi_t among the states of one time.

    The mean square residual with the best c_t of the batch itself, so that
    nothing has to be estimated beside it.

    Parameters
    ----------
    flow
        What is learned.
    x
        States, at least two a time.
    t
        Times in [0, 1].

    Returns
    -------
    loss
        A scalar; unbiased by the factor n / (n - 1).
    """
    check_shape("x", x, (len(t), None, flow.path.n_sites))
    check_range("states of one time", x.shape[1], low=2)
    times = t.repeat_interleave(x.shape[1])
    xi = flow.terms(x.flatten(0, 1), times).xi.unflatten(0, x.shape[:2])
    return torch.var(xi, dim=1).mean()
