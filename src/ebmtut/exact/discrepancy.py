"""Energy discrepancy without sampling, and the channels of the paper.

A channel is the matrix log q(y|x), a row for each x and a column for each y, with
the states x in the order of `enumerate_states` (Schröder et al. 2023, Section 2).
"""

import math
from typing import Annotated

import torch
from jaxtyping import Float, Float64, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from ebmtut.checks import Count, Fraction, InputError, Range, checked
from ebmtut.energies import EnergyFunction
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.tensor_checks import check_finite, check_shape

__all__ = [
    "bernoulli_channel",
    "channel_classes",
    "contrastive_potential",
    "exact_energy_discrepancy",
    "grid_channel",
    "pooling_channel",
]

_MAX_CHANNEL_SITES = 12


def exact_energy_discrepancy(
    energy: EnergyFunction | Float[Tensor, " n_all"],
    log_p_data: Float[Tensor, " n_all"],
    log_q: Float[Tensor, "n_all n_channel"],
) -> Float[Tensor, ""]:
    """Energy discrepancy of Definition 1 by summation.

    ED = E_p(x)[U(x)] - E_p(x) E_q(y|x)[U_q(y)] with the contrastive potential U_q of
    Eq. 1.

    Parameters
    ----------
    energy, log_p_data, log_q
        U or its values at all states; log-probabilities of all states; the channel.
    """
    check_shape("log_p_data", log_p_data, (None,))
    check_shape("log_q", log_q, (len(log_p_data), None))
    _check_normalized("log_p_data", log_p_data)
    _check_normalized("log_q", log_q)
    values = energy if isinstance(energy, Tensor) else energy(_states(log_p_data))
    check_shape("energy", values, tuple(log_p_data.shape))
    check_finite("energy", values)
    # A constant changes nothing, but it would take digits from the energies.
    values = (values - values.detach().mean()).to(log_p_data.dtype)
    log_q = log_q.to(log_p_data.dtype)
    # A y that no x reaches has probability 0 but an infinite potential.
    log_q = log_q[:, torch.isfinite(log_q).any(dim=0)]
    p = log_p_data.exp()
    return p @ values - (p @ log_q.exp()) @ contrastive_potential(values, log_q)


def contrastive_potential(
    energies: Float[Tensor, " n_all"], log_q: Float[Tensor, "n_all n_channel"]
) -> Float[Tensor, " n_channel"]:
    """Contrastive potential U_q(y) = -log sum_x q(y|x) exp(-U(x)), Eq. 1."""
    return -torch.logsumexp(log_q - energies[:, None], dim=0)


def channel_classes(log_q: Float[Tensor, "n_all n_channel"]) -> Int[Tensor, " n_all"]:
    """Classes of states whose relative mass energy discrepancy does not determine.

    Two states that reach a common y are in one class, and so are chains of such pairs.
    The second variation of ED, E[Var(h(x)|y)] (Lemma 2), vanishes where h is constant
    on every class: the minimiser is -log p plus one free constant per class.

    Returns
    -------
    classes
        Labels 0, 1, ...; all 0 where the minimiser is unique up to a constant.

    Examples
    --------
    >>> from ebmtut.exact import channel_classes, pooling_channel
    >>> channel_classes(pooling_channel(2, 2))  # 01 and 10 have the same sum
    tensor([0, 1, 1, 2])
    """
    reach = csr_array(torch.isfinite(log_q).cpu().numpy().astype(float))
    _, labels = connected_components(reach @ reach.T, directed=False)
    return torch.as_tensor(labels, dtype=torch.int64, device="cpu")


@checked
def bernoulli_channel(
    n_sites: Annotated[int, Range(1, _MAX_CHANNEL_SITES)], eps: Fraction
) -> Float64[Tensor, "n_all n_all"]:
    """Channel log q(y|x) that flips every bit independently with probability eps.

    Examples
    --------
    >>> from ebmtut.exact import bernoulli_channel
    >>> bernoulli_channel(1, 0.1).exp()
    tensor([[0.9000, 0.1000],
            [0.1000, 0.9000]], dtype=torch.float64)
    """
    distance = _hamming_distances(n_sites)
    return distance * math.log(eps) + (n_sites - distance) * math.log1p(-eps)


@checked
def grid_channel(
    n_sites: Annotated[int, Range(1, _MAX_CHANNEL_SITES)],
) -> Float64[Tensor, "n_all n_all"]:
    """Channel log q(y|x) that flips one bit, chosen uniformly (Appendix C.3).

    Examples
    --------
    >>> from ebmtut.exact import grid_channel
    >>> grid_channel(2).exp()[0]  # from 00 to 01 and 10
    tensor([0.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    distance = _hamming_distances(n_sites)
    log_q = torch.full_like(distance, -math.inf)
    return log_q.masked_fill(distance == 1, -math.log(n_sites))


@checked
def pooling_channel(
    n_sites: Annotated[int, Range(1, _MAX_CHANNEL_SITES)], window: Count
) -> Float64[Tensor, "n_all n_channel"]:
    """Channel log q(y|x) that keeps only the sum of each block of `window` bits.

    The mean pooling of Appendix C.2 in one dimension.

    Returns
    -------
    log_q
        ``(window + 1)**n_blocks`` values of y, in the order of the tuples of block
        sums.

    Examples
    --------
    >>> from ebmtut.exact import pooling_channel
    >>> pooling_channel(2, 2).exp()  # rows 00, 01, 10, 11; columns 0, 1, 2 ones
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 1., 0.],
            [0., 0., 1.]], dtype=torch.float64)
    """
    if n_sites % window:
        raise InputError(f"window must divide n_sites={n_sites}, got {window}")
    n_blocks = n_sites // window
    x = enumerate_states(n_sites)
    sums = x.reshape(len(x), n_blocks, window).sum(dim=2)
    y = states_to_index(sums, window + 1)
    log_q = x.new_full((len(x), (window + 1) ** n_blocks), -math.inf)
    log_q[torch.arange(len(x), device="cpu"), y] = 0.0
    return log_q


def _hamming_distances(n_sites: int) -> Float64[Tensor, "n_all n_all"]:
    x = enumerate_states(n_sites)
    return x @ (1 - x).T + (1 - x) @ x.T


def _states(log_p: Float[Tensor, " n_all"]) -> Float[Tensor, "n_all n_sites"]:
    n_sites = (len(log_p) - 1).bit_length()
    if len(log_p) != 2**n_sites or n_sites < 1:
        raise InputError(
            f"log_p_data must list 2**n_sites states, got {len(log_p)}: give the "
            "energy as a tensor of values for other spaces"
        )
    return enumerate_states(n_sites, dtype=log_p.dtype).to(log_p.device)


def _check_normalized(name: str, log_p: Float[Tensor, "*shape n_all"]) -> None:
    error = float(torch.logsumexp(log_p, dim=-1).abs().max())
    if not error < 1e-5:
        raise InputError(
            f"{name} must be log-probabilities that sum to 1, got a log-sum of "
            f"size {error:.3g}"
        )
