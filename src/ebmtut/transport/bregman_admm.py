"""Bregman ADMM, a baseline of the paper."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Positive, checked
from ebmtut.transport._problem import check_problem

__all__ = ["bregman_admm"]


@checked
def bregman_admm(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    n_steps: Count,
    *,
    tau: Positive = 2.0,
) -> Float[Tensor, "m1 m2"]:
    """Split the coupling into one with right rows and one with right columns.

    With rho = tau times the mean size of the costs, each step is

        X_ij ~ Z_ij exp(-(M_ij + Y_ij) / rho),  rows summing to p,
        Z_ij ~ X_ij exp(Y_ij / rho),            columns summing to q,
        Y_ij <- Y_ij + rho (X_ij - Z_ij),

    with logarithms of X and Z, so that nothing underflows.

    Parameters
    ----------
    p, q, cost
        Masses and M; +inf forbids a pair.
    n_steps
        Steps.
    tau
        Penalty relative to the mean absolute value of the finite costs.

    Returns
    -------
    coupling
        Z, whose columns are right and whose rows become so.

    References
    ----------
    Wang and Banerjee, Bregman alternating direction method of multipliers, 2014. The
    relative penalty is the default of Ye, Wu, Wang and Li's code (2017),
    github.com/bobye/WBC_Matlab.
    """
    check_problem(p, q, cost, batched=False)
    size = float(cost[torch.isfinite(cost)].abs().mean())
    scaled = cost / (tau * (size or 1.0))  # any penalty will do where all is free
    # A massless row or column would divide nothing by nothing.
    log_p, log_q = p.log()[:, None], q.log()
    log_z = (log_p + log_q).masked_fill(cost == torch.inf, -torch.inf)
    y = torch.zeros_like(cost)  # Y / rho
    for _ in range(n_steps):
        log_x = _normalize(log_z - scaled - y, log_p, dim=1)
        log_z = _normalize(log_x + y, log_q, dim=0)
        y = y + log_x.exp() - log_z.exp()
    return log_z.exp()


def _normalize(log_mass: Tensor, log_total: Tensor, *, dim: int) -> Tensor:
    """Give rows or columns their sums."""
    total = torch.logsumexp(log_mass, dim=dim, keepdim=True)
    return (log_mass - total + log_total).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
