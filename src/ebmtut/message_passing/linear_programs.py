"""Perturb-and-MAP by linear programming: the relaxation, and where it is loose.

The relaxation keeps the faces of the polytope that involve one pair: pairs that share a
site have the same marginal there. If the solution is integral, it is the MAP state;
where it is not, its values are at best one half.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from scipy.sparse import coo_array
from torch import Tensor

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import PairTerms
from ebmtut.message_passing._pairs import PairwiseModel, nonzero_pairs
from ebmtut.random import logistic
from ebmtut.tensor_checks import check_floats

__all__ = ["Relaxation", "perturb_and_map_lp", "relax"]

# HiGHS meets its constraints to 1e-7; vertices are multiples of one half.
_INTEGRAL = 1e-5


@dataclass(frozen=True)
class Relaxation:
    """Solution of the relaxation, and what it is rounded to.

    Attributes
    ----------
    x
        Bits: 1 where the relaxed value is above one half.
    relaxed
        The solution p in [0, 1].
    bound
        Its value, an upper bound on the best score.
    """

    x: Float[Tensor, "n_samples n_sites"]
    relaxed: Float[Tensor, "n_samples n_sites"]
    bound: Float[Tensor, " n_samples"]

    @property
    def fractional(self) -> Float[Tensor, " n_samples"]:
        """Part of the sites without an integral value."""
        off = (self.relaxed - self.relaxed.round()).abs() > _INTEGRAL
        return off.double().mean(dim=1)


@checked
def relax(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    *,
    form: Annotated[str, OneOf(("compact", "standard"))] = "compact",
) -> Relaxation:
    """Solve the linear programming relaxation of a pairwise model.

    With p_i for x_i = 1, q_ij for both and b the unaries, the compact form maximises w
    . q + b . p under q_ij <= p_i, q_ij <= p_j, p_i + p_j - 1 <= q_ij and 0 <= q, p <= 1
    (Lazaro-Gredilla, Dedieu and George, 2021, Appendix D). The standard form has a
    variable for each of the four states of a pair and two for each site.

    Parameters
    ----------
    unaries
        In place of the biases, for example biases and noise.
    form
        "compact" or "standard"; both have the same optima.

    Raises
    ------
    RuntimeError
        If the solver gives up.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.message_passing import relax
    >>> model = BoltzmannMachine(torch.tensor([[0.0, 2.0], [2.0, 0.0]]), torch.zeros(2))
    >>> relax(model, torch.tensor([[1.0, -0.5]])).x
    tensor([[1., 1.]])
    """
    terms = nonzero_pairs(model)
    unaries = check_floats("unaries", unaries, (None, len(terms.bias)))
    return _solve(terms, unaries, form)


def _solve(
    terms: PairTerms, unaries: Float[Tensor, "n_samples n_sites"], form: str
) -> Relaxation:
    """Solve one program a row of the unaries."""
    program = _compact(terms) if form == "compact" else _standard(terms)
    # Pairs change a site's score by at most this: a larger unary decides alone, and
    # beside it the solver would lose the others.
    most = 2 * np.bincount(
        torch.cat([terms.first, terms.second]).numpy(),
        terms.weight.abs().double().repeat(2).numpy(),
        minlength=len(terms.bias),
    )
    alone = most.max(initial=0.0) or 1.0
    relaxed, bound = [], []
    for b in unaries.double().cpu().numpy():
        capped = np.where(most > 0, b.clip(-most, most), alone * np.sign(b))
        p, value = program(capped)
        relaxed.append(p)
        bound.append(value + (b - capped) @ p)
    p = torch.tensor(np.array(relaxed), device="cpu").reshape(unaries.shape).to(unaries)
    x = (p > 0.5 + _INTEGRAL).to(unaries)
    bounds = torch.tensor(bound, dtype=torch.float64, device="cpu").to(unaries)
    return Relaxation(x, p, bounds)


@checked
def perturb_and_map_lp(
    model: PairwiseModel, n_samples: Count, *, generator: torch.Generator
) -> Relaxation:
    """Sample by perturb-and-MAP, with the relaxation in the place of the MAP.

    Parameters
    ----------
    n_samples
        Each costs a linear program.
    """
    terms = nonzero_pairs(model)
    shape = (n_samples, len(terms.bias))
    device = next(model.parameters()).device
    noise = logistic(shape, generator=generator, dtype=torch.float64, device=device)
    return _solve(terms, (terms.bias.to(noise) + noise).detach(), "compact")


def _compact(terms: PairTerms):  # type: ignore[no-untyped-def]
    """Program of the compact form: a function of the biases."""
    n_sites, n_pairs = len(terms.bias), len(terms.weight)
    i, j, w = terms.first.numpy(), terms.second.numpy(), terms.weight.numpy()
    q = n_sites + np.arange(n_pairs)
    # An attractive pair pushes q up against the first two constraints, a
    # repulsive one down against the third: the others can't bind.
    up, down = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    rows = np.arange(2 * len(up) + len(down))
    first, second, third = np.split(rows, [len(up), 2 * len(up)])
    entries = [
        (first, q[up], 1.0),
        (first, i[up], -1.0),
        (second, q[up], 1.0),
        (second, j[up], -1.0),
        (third, i[down], 1.0),
        (third, j[down], 1.0),
        (third, q[down], -1.0),
    ]
    matrix = _sparse(entries, (len(rows), n_sites + n_pairs))
    limit = np.zeros(len(rows))
    limit[third] = 1.0

    def solve(b):  # type: ignore[no-untyped-def]
        score = np.concatenate([b, w])
        solution, value = _best(score, A_ub=matrix, b_ub=limit, bounds=(0, 1))
        return solution[:n_sites], value

    return solve


def _standard(terms: PairTerms):  # type: ignore[no-untyped-def]
    """Program of the standard form; pair k has variables 00, 01, 10, 11."""
    n_sites, n_pairs = len(terms.bias), len(terms.weight)
    i, j, w = terms.first.numpy(), terms.second.numpy(), terms.weight.numpy()
    pair = np.arange(n_pairs)
    at = 2 * n_sites + 4 * pair
    entries = [(np.arange(n_sites), 2 * np.arange(n_sites) + x, 1.0) for x in (0, 1)]
    for x in (0, 1):
        # Sums over the partner's state are the site's own marginal.
        of_i, of_j = n_sites + 4 * pair + x, n_sites + 4 * pair + 2 + x
        entries += [(of_i, at + 2 * x, 1.0), (of_i, at + 2 * x + 1, 1.0)]
        entries += [(of_j, at + x, 1.0), (of_j, at + 2 + x, 1.0)]
        entries += [(of_i, 2 * i + x, -1.0), (of_j, 2 * j + x, -1.0)]
    size = (n_sites + 4 * n_pairs, 2 * n_sites + 4 * n_pairs)
    matrix = _sparse(entries, size)
    right = np.concatenate([np.ones(n_sites), np.zeros(4 * n_pairs)])
    score = np.zeros(size[1])
    score[at + 3] = w

    def solve(b):  # type: ignore[no-untyped-def]
        score[1 : 2 * n_sites : 2] = b
        solution, value = _best(score, A_eq=matrix, b_eq=right, bounds=(0, 1))
        return solution[1 : 2 * n_sites : 2], value

    return solve


def _sparse(entries, shape):  # type: ignore[no-untyped-def]
    rows, columns, values = zip(*entries, strict=True)
    parts = [np.full(len(r), v) for r, v in zip(rows, values, strict=True)]
    where = (np.concatenate(rows), np.concatenate(columns))
    return coo_array((np.concatenate(parts), where), shape=shape).tocsr()


def _best(score, **constraints):  # type: ignore[no-untyped-def]
    """Return the best; the solver's tolerances are absolute, so it gets numbers < 1."""
    largest = float(np.abs(score).max(initial=0.0))
    unit = 2.0 ** -math.frexp(largest)[1] if largest else 1.0
    solution = linprog(-unit * score, method="highs", **constraints)
    if solution.status != 0:
        raise RuntimeError(f"the solver gave up: {solution.message}")
    return solution.x, -solution.fun / unit
