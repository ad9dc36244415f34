"""MPLP: message passing that descends a bound on the best score.

Globerson and Jaakkola (2007): one pair after the other takes the best values of its two
messages given all others, and an upper bound on the maximum falls at every step. It
converges to what the linear programming relaxation would say.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from ebmtut._compiled import in_threads
from ebmtut.checks import Count, Positive, checked
from ebmtut.energies import PairTerms
from ebmtut.kernels import mplp as kernels
from ebmtut.message_passing._pairs import PairwiseModel, nonzero_pairs
from ebmtut.tensor_checks import check_floats

__all__ = ["MPLP", "mplp", "mplp_reference"]


@dataclass(frozen=True)
class MPLP:
    """Result of MPLP.

    Attributes
    ----------
    x
        Bits: 1 where the belief is positive.
    beliefs
        Log-odds: zero, up to the tolerance, where the bound does not decide.
    bound
        Upper bound on the best score.
    converged
        Whether all messages changed by less than the tolerance.
    """

    x: Float[Tensor, "n_samples n_sites"]
    beliefs: Float[Tensor, "n_samples n_sites"]
    bound: Float[Tensor, " n_samples"]
    n_sweeps: Int64[Tensor, " n_samples"]
    converged: Bool[Tensor, " n_samples"]


@checked
def mplp(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    *,
    tolerance: Positive = 1e-6,
    max_sweeps: Count = 10_000,
) -> MPLP:
    """Look for the most likely state by MPLP.

    The score is the sum of w x_i x_j over pairs, plus unaries . x. With a_i the belief
    of i without the message of the pair, the pair sends i the message (max(0, a_j + w)
    - max(0, a_j) - a_i) / 2, and j its mirror image (Globerson and Jaakkola, 2007), in
    a fixed order.

    Parameters
    ----------
    unaries
        In place of the biases, for example biases and noise.
    tolerance, max_sweeps
        A sample is done when no message changes by more, or after so many sweeps.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.message_passing import mplp
    >>> model = BoltzmannMachine(torch.tensor([[0.0, 2.0], [2.0, 0.0]]), torch.zeros(2))
    >>> mplp(model, torch.tensor([[1.0, -0.5]])).x
    tensor([[1., 1.]])
    """
    terms, unaries = _checked(model, unaries)
    pairs = (terms.first, terms.second, terms.weight.double())
    arrays = [tensor.numpy() for tensor in pairs]
    beliefs = unaries.double().cpu().contiguous().numpy().copy()
    bound = np.empty(len(beliefs))
    n_sweeps = np.empty(len(beliefs), np.int64)
    converged = np.empty(len(beliefs), np.bool_)

    def work(rows: slice) -> None:
        filled = (a[rows] for a in (beliefs, bound, n_sweeps, converged))
        kernels.mplp_sweeps(*arrays, tolerance, max_sweeps, *filled)

    in_threads(work, len(beliefs), len(beliefs) * max_sweeps * len(terms.weight))
    found = torch.from_numpy(beliefs).to(unaries)
    return MPLP(
        (found > 0).to(unaries),
        found,
        torch.from_numpy(bound).to(unaries),
        torch.from_numpy(n_sweeps),
        torch.from_numpy(converged),
    )


@checked
def mplp_reference(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    *,
    tolerance: Positive = 1e-6,
    max_sweeps: Count = 10_000,
) -> MPLP:
    """Do what `mplp` does in plain torch, on the CPU, all samples at once."""
    terms, bias = _checked(model, unaries)
    to_first = bias.new_zeros(len(bias), len(terms.weight))
    to_second = torch.zeros_like(to_first)
    ends = (x.tolist() for x in (terms.first, terms.second, terms.weight))
    pairs = list(zip(*ends, strict=True))
    beliefs = bias.clone()
    n_sweeps = torch.full((len(bias),), max_sweeps, device="cpu")
    converged = torch.zeros(len(bias), dtype=torch.bool, device="cpu")
    for sweep in range(max_sweeps):
        before = to_first.clone(), to_second.clone()
        for e, (i, j, w) in enumerate(pairs):
            a_i = beliefs[:, i] - to_first[:, e]
            a_j = beliefs[:, j] - to_second[:, e]
            to_first[:, e] = ((a_j + w).relu() - a_j.relu() - a_i) / 2
            to_second[:, e] = ((a_i + w).relu() - a_i.relu() - a_j) / 2
            beliefs[:, i] = a_i + to_first[:, e]
            beliefs[:, j] = a_j + to_second[:, e]
        change = bias.new_zeros(len(bias))
        for old, new in zip(before, (to_first, to_second), strict=True):
            if new.numel():
                change = torch.maximum(change, (new - old).abs().amax(dim=1))
        done = change < tolerance
        n_sweeps[done & ~converged] = sweep + 1
        converged |= done
        if bool(converged.all()):
            break
    w = terms.weight.to(bias)
    zero, both = torch.zeros_like(to_first), w - to_first - to_second
    of_pairs = torch.stack([zero, -to_first, -to_second, both]).amax(dim=0)
    bound = beliefs.relu().sum(dim=1) + of_pairs.sum(dim=1)
    return MPLP((beliefs > 0).to(bias), beliefs, bound, n_sweeps, converged)


def _checked(
    model: PairwiseModel, unaries: Float[Tensor, "n_samples n_sites"]
) -> tuple[PairTerms, Tensor]:
    """Pairs, and unaries without a gradient."""
    terms = nonzero_pairs(model)
    return terms, check_floats("unaries", unaries, (None, len(terms.bias)))
