"""A bound on the log partition function from perturbed maxima."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, Range, checked
from ebmtut.energies import EnergyFunction
from ebmtut.states import enumerate_states
from ebmtut.tensor_checks import check_bits, check_floats

__all__ = ["LogPartitionBound", "exact_perturb_and_map", "log_partition_bound"]

_MAX_SITES = 20
_BLOCK = 2**22  # scores at once


@dataclass(frozen=True)
class LogPartitionBound:
    """Estimate of the bound.

    Attributes
    ----------
    value
        Mean of the perturbed scores.
    stderr
        Its standard error; NaN for a single perturbation.
    scores
        Perturbed scores.
    """

    value: float
    stderr: float
    scores: Float[Tensor, " n_samples"]


@checked
def log_partition_bound(
    energy: EnergyFunction,
    x: Float[Tensor, "n_samples n_sites"],
    noise: Float[Tensor, "n_samples n_sites"],
) -> LogPartitionBound:
    """Average the perturbed scores of perturbed maximisers.

    log Z <= E max_x [-E(x) + sum_i g_i(x_i)] with independent, centred Gumbels (Hazan
    and Jaakkola, 2012; Lazaro-Gredilla, Dedieu and George, 2021, Equation 3). Of them
    only the logistic l_i = g_i(1) - g_i(0) is kept, with g_i(x_i) = l_i (x_i - 1/2):
    the rest has mean zero whatever x is.

    Parameters
    ----------
    x
        Bits that maximise -E(x) + noise . x, one row a perturbation; worse bits score
        lower.
    noise
        Standard logistic l.

    Notes
    -----
    See the chapter :doc:`/book/pmp/index`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import exact_perturb_and_map, log_partition_bound
    >>> from ebmtut.random import logistic, make_generator
    >>> noise = logistic((1000, 3), generator=make_generator(0))
    >>> x = exact_perturb_and_map(lambda x: x.sum(dim=1), 3, noise)
    >>> log_partition_bound(lambda x: x.sum(dim=1), x, noise).value < 1.1
    True
    """
    check_bits("x", x, least=1)
    noise = check_floats("noise", noise, x.shape)
    scores = -energy(x) + (noise * (x - 0.5)).sum(dim=1)
    n = len(scores)
    stderr = float(scores.std()) / n**0.5 if n > 1 else float("nan")
    return LogPartitionBound(float(scores.mean()), stderr, scores)


@checked
def exact_perturb_and_map(
    energy: EnergyFunction,
    n_sites: Annotated[int, Range(1, _MAX_SITES)],
    noise: Float[Tensor, "n_samples n_sites"],
) -> Float[Tensor, "n_samples n_sites"]:
    """Maximise -E(x) + noise . x by trying every state.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import exact_perturb_and_map
    >>> noise = torch.tensor([[0.5, -2.0]])
    >>> exact_perturb_and_map(lambda x: -x.sum(dim=1), 2, noise)
    tensor([[1., 0.]])
    """
    noise = check_floats("noise", noise, (None, n_sites))
    size = getattr(energy, "n_sites", n_sites)
    if size != n_sites:
        raise InputError(f"n_sites must be {size}, as the energy has, got {n_sites}")
    states = enumerate_states(n_sites, dtype=noise.dtype).to(noise.device)
    with torch.no_grad():
        score = -energy(states)
    best = [
        (score[:, None] + states @ part.T).argmax(dim=0)
        for part in noise.split(max(1, _BLOCK // len(states)))
    ]
    return states[torch.cat(best)]
