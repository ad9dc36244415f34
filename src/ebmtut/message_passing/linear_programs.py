"""Perturb-and-MAP by linear programming: the relaxation, and where it is loose.

The relaxation keeps the faces of the polytope that involve one pair: pairs that share a
site have the same marginal there. Its solutions are zeros, ones and halves; without
halves it is the MAP state.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array
from torch import Tensor

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import PairTerms
from ebmtut.kernels.minimum_cut import relax_by_cut
from ebmtut.message_passing._pairs import PairwiseModel, nonzero_pairs
from ebmtut.random import logistic
from ebmtut.tensor_checks import check_floats

__all__ = ["Relaxation", "perturb_and_map_lp", "relax"]

# HiGHS meets its constraints to 1e-7.
_INTEGRAL = 1e-5


@dataclass(frozen=True)
class Relaxation:
    """Solution of the relaxation, and what it is rounded to.

    Attributes
    ----------
    x
        Bits. A bit at one half is set to what is better for it, given the relaxed
        values of the others, or to zero if both are as good.
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
    method: Annotated[str, OneOf(("cut", "program"))] = "cut",
) -> Relaxation:
    """Solve the linear programming relaxation of a pairwise model.

    With p_i for x_i = 1, q_ij for both and b the unaries, the program maximises w . q
    + b . p under q_ij <= p_i, q_ij <= p_j, p_i + p_j - 1 <= q_ij and 0 <= q, p <= 1
    (Lazaro-Gredilla, Dedieu and George, 2021, Appendix D). A minimum cut solves it in
    a fraction of the time (Boros and Hammer, 2002).

    Parameters
    ----------
    unaries
        In place of the biases, for example biases and noise.
    method
        "cut", or "program" for a general solver of linear programs. The values are
        the same if the solution is unique, as it is with continuous noise. Otherwise
        the cut has one half where solutions differ.

    Raises
    ------
    RuntimeError
        If the general solver gives up.

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
    return _solve(terms, unaries, method)


def _solve(
    terms: PairTerms, unaries: Float[Tensor, "n_samples n_sites"], method: str
) -> Relaxation:
    """Solve one problem a row of the unaries."""
    b = unaries.detach().double().cpu().numpy()
    p = (relax_by_cut if method == "cut" else _by_program)(terms, b)
    i, j, w = terms.first.numpy(), terms.second.numpy(), terms.weight.numpy()
    x, bound = np.empty_like(p), np.empty(len(p))
    for row, (at, of) in enumerate(zip(p, b, strict=True)):
        both = np.where(w > 0, np.minimum(at[i], at[j]), (at[i] + at[j] - 1).clip(0))
        bound[row] = w @ both + of @ at
        gain = of + sum(np.bincount(k, w * at[m], len(of)) for k, m in ((i, j), (j, i)))
        x[row] = np.where(np.abs(at - 0.5) > _INTEGRAL, at > 0.5, gain > 0)
    made = (torch.from_numpy(array).to(unaries) for array in (x, p, bound))
    return Relaxation(*made)


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
    return _solve(terms, terms.bias.to(noise) + noise, "cut")


def _by_program(
    terms: PairTerms, unaries: Float[NDArray, "n_samples n_sites"]
) -> Float[NDArray, "n_samples n_sites"]:
    """Give the programs to HiGHS."""
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
    where = [np.concatenate(part) for part in list(zip(*entries, strict=True))[:2]]
    values = np.repeat([e[2] for e in entries], [len(e[0]) for e in entries])
    matrix = coo_array((values, where), shape=(len(rows), n_sites + n_pairs)).tocsr()
    limit = np.zeros(len(rows))
    limit[third] = 1.0
    # Pairs change a site's score by at most this: a larger unary decides alone, and
    # beside it the solver would lose the others.
    ends, size = np.concatenate([i, j]), np.tile(np.abs(w), 2)
    most = 2 * np.bincount(ends, size, minlength=n_sites)
    alone = most.max(initial=0.0) or 1.0
    p = np.empty_like(unaries)
    for row, b in enumerate(unaries):
        capped = np.where(most > 0, b.clip(-most, most), alone * np.sign(b))
        score = np.concatenate([capped, w])
        # The solver's tolerances are absolute, so it gets numbers below 1.
        largest = float(np.abs(score).max(initial=0.0))
        unit = 2.0 ** -math.frexp(largest)[1] if largest else 1.0
        bounds = {"A_ub": matrix, "b_ub": limit, "bounds": (0, 1)}
        solution = linprog(-unit * score, method="highs", **bounds)
        if solution.status != 0:
            raise RuntimeError(f"the solver gave up: {solution.message}")
        p[row] = solution.x[:n_sites]
    return p
