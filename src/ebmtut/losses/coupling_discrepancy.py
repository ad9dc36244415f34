"""Energy discrepancy of several Ising models at once.

Models that differ by a penalty or a start see the same data and the same negatives,
so these are drawn once; and of a quadratic energy only the spins that flipped count:

    U(s) - U(s') = 2 t'Js + t'Jt,    t = s' - s.

Source: Schröder, Ou, Li and Duncan (2023), Eq. 2 and Appendix E.1.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._compiled import compiled as _compiled
from ebmtut.checks import Count, NonNegative, check_counts, checked
from ebmtut.energies._symmetric import symmetric_part
from ebmtut.losses.energy_discrepancy import has_moved, resampled
from ebmtut.losses.perturbations import Perturbation
from ebmtut.states import bits_to_spins
from ebmtut.tensor_checks import check_bits, check_shape

__all__ = ["coupling_discrepancy_losses"]

# Sums in any order: the only freedom that vectors need.
compiled = partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


@checked
def coupling_discrepancy_losses(
    coupling: Float[Tensor, "n_models n_sites n_sites"],
    x: Float[Tensor, "batch n_sites"],
    perturbation: Perturbation,
    *,
    n_negatives: int = 32,
    stabilizer: NonNegative = 1.0,
    n_backward: Count = 8,
    generator: torch.Generator,
) -> Float[Tensor, " n_models"]:
    """Energy discrepancies of Ising models without a field, on the same negatives.

    Each is what `energy_discrepancy_loss` gives for `Ising(coupling[k])`, with the
    gradient through ``n_backward`` negatives, drawn however few there are. What is
    random is drawn once for all.

    Parameters
    ----------
    coupling
        The raw J of each model, of which the symmetric part counts.
    x
        Data, bits.
    perturbation, n_negatives, stabilizer, n_backward, generator
        As for `energy_discrepancy_loss`.

    Raises
    ------
    InputError
        If ``x`` is not made of bits or empty, the matrices are of another size, or a
        number lies out of its range.
    """
    check_bits("x", x, least=1)
    check_shape("coupling", coupling, (None, x.shape[1], x.shape[1]))
    check_counts(n_negatives=n_negatives)
    negatives = perturbation.negatives(x, n_negatives, generator=generator)
    symmetric = symmetric_part(coupling).to(x)
    with torch.no_grad():
        difference = _differences(symmetric, x, negatives.x)
        if negatives.log_weight is not None:
            difference = difference + negatives.log_weight
        moved = has_moved(x, negatives.x)
        values, total, drawn = resampled(
            difference, moved, stabilizer / n_negatives, n_backward, generator
        )
        rows = torch.arange(len(x), device=x.device)[:, None]
        chosen = negatives.x[rows, drawn]
        # The gradient: data against those drawn, by the moments s s' of both.
        weight = total.expand(drawn.shape).flatten(1) / n_backward
        moments = _moments(x[None], total[..., 0]) - _moments(
            chosen.flatten(1, 2), weight
        )
    surrogate = -(symmetric * moments).sum((1, 2)) / len(x)
    return values.mean(1) + (surrogate - surrogate.detach())


def _moments(
    x: Float[Tensor, "#n_models n_states n_sites"],
    weight: Float[Tensor, "n_models n_states"],
) -> Float[Tensor, "n_models n_sites n_sites"]:
    """Weighted sums of s s', of which the energy -s'Js is a product with J."""
    s = bits_to_spins(x)
    return (s * weight[..., None]).mT @ s


def _differences(
    symmetric: Float[Tensor, "n_models n_sites n_sites"],
    x: Float[Tensor, "batch n_sites"],
    other: Float[Tensor, "batch n_negatives n_sites"],
) -> Float[Tensor, "n_models batch n_negatives"]:
    """U(s) - U(s') of all models: in float32 on a processor by the flipped spins."""
    field = bits_to_spins(x) @ symmetric
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return _differences_reference(symmetric, field, x, other)
    found = x.new_empty(len(symmetric), *other.shape[:2])
    arrays = (symmetric, field, x, other, found)
    _sum_over_flips(*(array.contiguous().numpy() for array in arrays))
    return found


def _differences_reference(
    symmetric: Float[Tensor, "n_models n_sites n_sites"],
    field: Float[Tensor, "n_models batch n_sites"],
    x: Float[Tensor, "batch n_sites"],
    other: Float[Tensor, "batch n_negatives n_sites"],
) -> Float[Tensor, "n_models batch n_negatives"]:
    """What `_sum_over_flips` computes, in torch."""
    t = 2 * (other - x[:, None])
    twice = 2 * field[:, :, None] + (t.flatten(0, 1) @ symmetric).unflatten(
        1, t.shape[:2]
    )
    return (t * twice).sum(-1)


@compiled
def _sum_over_flips(symmetric, field, x, other, found):  # type: ignore[no-untyped-def]
    """Fill ``found`` with sum_i t_i (2 field_i + (Jt)_i) over the flipped i."""
    n_models, batch, n_negatives = found.shape
    n_sites = x.shape[1]
    flipped = np.empty(n_sites, np.uint64)
    t = np.empty(n_sites, x.dtype)
    for b in range(batch):
        for m in range(n_negatives):
            n = 0
            for i in range(n_sites):
                t[i] = 2 * (other[b, m, i] - x[b, i])
                flipped[n] = i
                n += t[i] != 0
            for k in range(n_models):
                total = x.dtype.type(0)
                for i in flipped[:n]:
                    row, heard = symmetric[k, i], x.dtype.type(0)
                    for j in range(n_sites):
                        heard += row[j] * t[j]
                    total += t[i] * (heard + 2 * field[k, b, i])
                found[k, b, m] = total
