"""Conditional distributions of one half step: each L_j given U, each U_i given L.

Given U, L_j is the largest of shifted exponentials. Its distribution, its mean and
the probability that an entry is the largest are known exactly (Lemma A.1, whose
Eqs. 19 and 20 have misprinted indices: see the reproduction notes).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, checked
from ebmtut.transport._problem import check_potential, check_temperature

__all__ = ["HalfStep", "half_step_distribution", "largest_of_exponentials"]


def largest_of_exponentials(
    z: Float[Tensor, "*batch n_points"],
    weights: Float[Tensor, " n_points"],
    temperature: float | Float[Tensor, ""],
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch n_points"]]:
    """Distribution of max_k (z_k - theta_k T / w_k), theta exponential (Eq. 19).

    Between two neighbouring z its distribution function is an exponential (Lemma B.1).

    Parameters
    ----------
    z, weights
        Upper ends, of which -inf leaves one out, and w >= 0; zero leaves it out.

    Returns
    -------
    phi
        Difference between the largest z and the mean, in units of T.
    probability
        Probability that entry k is the largest.
    """
    z, order = z.masked_fill(weights == 0, -torch.inf).sort(dim=-1, descending=True)
    w = weights[order]
    total = w.cumsum(-1)  # sum of w over the k largest
    # mu_k, by which F falls from z_k to z_(k+1); the last falls to 0.
    gap = (z[..., :-1] - z[..., 1:]).nan_to_num(nan=0.0, posinf=torch.inf)
    log_mu = -total[..., :-1] * gap / temperature
    log_f = torch.nn.functional.pad(log_mu.cumsum(-1), (1, 0))  # log F(z_k)
    log_mu = torch.nn.functional.pad(log_mu, (0, 1), value=-torch.inf)
    pieces = log_f.exp() * -torch.expm1(log_mu) / total
    # Entry k can be the largest only below z_k, with density w_k F(x) / T.
    below = pieces.flip(-1).cumsum(-1).flip(-1)
    probability = torch.empty_like(below).scatter_(-1, order, w * below)
    return pieces.sum(-1), probability


class HalfStep(NamedTuple):
    """The next half step, given the statistics.

    Attributes
    ----------
    mean
        E[L | U] or E[U | L].
    phi
        phi of Eq. 19 or psi of Eq. 20.
    probability
        That j's maximum is at i, ``[..., j, i]``, or i's minimum at j, ``[..., i, j]``.
    """

    mean: Float[Tensor, "*batch n_points"]
    phi: Float[Tensor, "*batch n_points"]
    probability: Float[Tensor, "*batch n_points n_others"]


@checked
def half_step_distribution(
    cost: Float[Tensor, "m1 m2"],
    temperature: float | Float[Tensor, ""],
    *,
    U: Float[Tensor, "*batch m1"] | None = None,
    p: Float[Tensor, " m1"] | None = None,
    L: Float[Tensor, "*batch m2"] | None = None,
    q: Float[Tensor, " m2"] | None = None,
) -> HalfStep:
    """Distribution of the next L given U and p, or of the next U given L and q.

    Parameters
    ----------
    U, p
        For L (Lemma A.1 i).
    L, q
        For U (Lemma A.1 ii).
    """
    check_temperature(temperature)
    if U is not None and p is not None:
        check_potential("U", U, p, leading=True)
        return distribution_of_L(cost, temperature, U, p)
    if L is None or q is None:
        given = {"U": U, "p": p, "L": L, "q": q}
        found = [name for name, value in given.items() if value is not None]
        raise InputError(
            f"U and p, or L and q, must be given, got {' and '.join(found) or 'none'}"
        )
    check_potential("L", L, q, leading=True)
    return distribution_of_U(cost, temperature, L, q)


def distribution_of_L(
    cost: Float[Tensor, "m1 m2"], temperature: float | Tensor, U: Tensor, p: Tensor
) -> HalfStep:
    """Distribution of the next L given U (Lemma A.1 i)."""
    z = U[..., None, :] - cost.T
    phi, probability = largest_of_exponentials(z, p, temperature)
    top = z.masked_fill(p == 0, -torch.inf).amax(-1)
    return HalfStep(top - phi * temperature, phi, probability)


def distribution_of_U(
    cost: Float[Tensor, "m1 m2"], temperature: float | Tensor, L: Tensor, q: Tensor
) -> HalfStep:
    """Distribution of the next U given L (Lemma A.1 ii)."""
    z = -(cost + L[..., None, :])
    psi, probability = largest_of_exponentials(z, q, temperature)
    top = z.masked_fill(q == 0, -torch.inf).amax(-1)
    return HalfStep(-top + psi * temperature, psi, probability)
