"""The residual of the Kolmogorov equation as a loss, with its Stein control variate."""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import check_range
from ebmtut.flows import Flow
from ebmtut.paths import Time
from ebmtut.tensor_checks import check_shape

__all__ = ["kolmogorov_residual", "kolmogorov_variance_loss", "log_partition_slope"]


def kolmogorov_residual(
    flow: Flow,
    x: Float[Tensor, "batch n_sites"],
    t: Time,
    slope: float | Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """xi_t(x) - c_t, zero at all states where the flow carries its path.

    Its mean square is the loss of Ou, Zhang and Li (2025, Equation 10). With c_t from
    `log_partition_slope` it is their coordinate descent; with a learned c_t that of
    LEAPS.

    Parameters
    ----------
    slope
        c_t, which stands for the time derivative of log Z_t.
    """
    return flow.terms(x, t).xi - slope


def log_partition_slope(
    xi: Float[Tensor, "n_times n"], derivative: Float[Tensor, "n_times n"] | None = None
) -> Float[Tensor, " n_times"]:
    """Estimate the time derivative of log Z_t from states at each time.

    The mean of xi_t, whose part from the rates has mean zero under p_t (the discrete
    Stein identity): a control variate. Given `derivative`, the plain estimate.
    """
    return (xi if derivative is None else derivative).mean(1)


def kolmogorov_variance_loss(
    flow: Flow, x: Float[Tensor, "n_times n n_sites"], t: Float[Tensor, " n_times"]
) -> Float[Tensor, ""]:
    """Mean over times of the variance of xi_t among the states of one time.

    The mean square residual with the best c_t of the batch itself, times n / (n - 1).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.flows import Flow, OddLatticeNetwork
    >>> from ebmtut.losses import kolmogorov_variance_loss
    >>> from ebmtut.paths import AnnealingPath
    >>> flow = Flow(AnnealingPath(LatticeIsing(3, 0.0)), OddLatticeNetwork(3))
    >>> x = torch.zeros(2, 5, 9)  # two times, five states at each
    >>> kolmogorov_variance_loss(flow, x, torch.tensor([0.2, 0.7])).shape
    torch.Size([])
    """
    check_shape("x", x, (len(t), None, flow.path.n_sites))
    check_range("states of one time", x.shape[1], low=2)
    times = t.repeat_interleave(x.shape[1])
    xi = flow.terms(x.flatten(0, 1), times).xi.unflatten(0, x.shape[:2])
    return torch.var(xi, dim=1).mean()
