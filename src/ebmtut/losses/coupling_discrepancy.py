"""Energy discrepancy of several Ising models at once.

Models that differ by a penalty or a start see the same data and the same negatives,
so these are drawn once; and of a quadratic energy only the spins that flipped count:

    U(s) - U(s') = 2 t'Js + t'Jt,    t = s' - s.

Source: Schröder, Ou, Li and Duncan (2023), Eq. 2 and Appendix E.1.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import Count, NonNegative, checked
from ebmtut.energies._symmetric import symmetric_part
from ebmtut.kernels.coupling_flips import Flips, find_flips
from ebmtut.kernels.moved import has_moved
from ebmtut.losses._few_gradients import resampled
from ebmtut.losses.perturbations import Perturbation
from ebmtut.states import bits_to_spins
from ebmtut.tensor_checks import check_bits, check_shape

__all__ = ["coupling_discrepancy_losses"]


@checked
def coupling_discrepancy_losses(
    coupling: Float[Tensor, "n_models n_sites n_sites"],
    x: Float[Tensor, "batch n_sites"],
    perturbation: Perturbation,
    *,
    n_negatives: Count = 32,
    stabilizer: NonNegative = 1.0,
    n_backward: Count = 8,
    generator: torch.Generator,
) -> Float[Tensor, " n_models"]:
    """Energy discrepancies of Ising models without a field, on the same negatives.

    Each is `energy_discrepancy_loss` of `Ising(coupling[k])`, with the gradient through
    ``n_backward`` negatives, from the same random numbers for all.

    Parameters
    ----------
    coupling
        The raw J of each model, of which the symmetric part counts.
    """
    check_bits("x", x, least=1)
    check_shape("coupling", coupling, (None, x.shape[1], x.shape[1]))
    negatives = perturbation.negatives(x, n_negatives, generator=generator)
    symmetric = symmetric_part(coupling).to(x)
    with torch.no_grad():
        # Negatives of a row flip few spins of what most of them agree on.
        center = negatives.x.mean(1).round()
        states = torch.cat([x[:, None], negatives.x], 1)
        flips = find_flips(center, states)
        apart = _differences(symmetric, center, states, flips)
        difference = apart[..., 1:] - apart[..., :1]
        if negatives.log_weight is not None:
            difference = difference + negatives.log_weight
        values, total, drawn = resampled(
            difference,
            has_moved(x, negatives.x),
            stabilizer / n_negatives,
            n_backward,
            generator,
        )
        # The gradient: those drawn against the data, by the moments s s' of both.
        chosen = torch.cat([torch.zeros_like(drawn[..., :1]), drawn + 1], -1)
        share = (total / (n_backward * len(x))).repeat(1, 1, n_backward + 1)
        share[..., :1] *= -n_backward
        moments = _moments(center, states, chosen, share, flips)
    surrogate = 2 * (symmetric * moments).sum((1, 2))
    return values.mean(1) + (surrogate - surrogate.detach())


def _differences(
    symmetric: Float[Tensor, "n_models n_sites n_sites"],
    x: Float[Tensor, "batch n_sites"],
    other: Float[Tensor, "batch n_negatives n_sites"],
    flips: Flips | None = None,
) -> Float[Tensor, "n_models batch n_negatives"]:
    """U(s) - U(s') of all models, by the flipped spins if they are given."""
    s = bits_to_spins(x)
    field = s @ symmetric
    if flips is None:
        t = 2 * (other - x[:, None])
        heard = (t.flatten(0, 1) @ symmetric).unflatten(1, t.shape[:2])
        return (t * (2 * field[:, :, None] + heard)).sum(-1)
    return flips.differences(symmetric, field, s)


def _moments(
    x: Float[Tensor, "batch n_sites"],
    other: Float[Tensor, "batch n_negatives n_sites"],
    drawn: Int[Tensor, "n_models batch n_draws"],
    share: Float[Tensor, "n_models batch n_draws"],
    flips: Flips | None = None,
) -> Float[Tensor, "n_models n_sites n_sites"]:
    """Sums of responsibility times t (s + t/2)' over the sampled states, t = s' - s.

    Twice the symmetric part is the same sum of s's'' - ss'.
    """
    s = bits_to_spins(x)
    if flips is None:
        rows = torch.arange(len(x), device=x.device)[:, None]
        t = 2 * (other[rows, drawn] - x[:, None])
        shared = (t * share[..., None]).flatten(1, 2)
        return shared.mT @ (s[:, None] + t / 2).flatten(1, 2)
    return flips.moments(s, drawn, share)
