"""How inferred shapes are judged: which true ones were found, and which none could."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ebmtut.checks import Range, checked

__all__ = ["feature_distances", "out_of_reach"]


def feature_distances(
    found: Float[Tensor, "n_features side side"],
    truth: Float[Tensor, "n_true feature_rows feature_columns"],
) -> Int[Tensor, " n_true"]:
    """Pixels by which each true feature misses its closest inferred one.

    Parameters
    ----------
    found
        Inferred features.
    truth
        True features, no larger; every shift
        inside an inferred feature is allowed, and all other pixels of it
        should be white.

    Returns
    -------
    distances
        0 where a feature was found.
    """
    slack = found.shape[-1] - truth.shape[-1]
    shifted = torch.stack(
        [
            pad(truth, (x, slack - x, y, slack - y))
            for y in range(slack + 1)
            for x in range(slack + 1)
        ]
    )
    differs = shifted[:, :, None] != found
    return differs.sum(dim=(-1, -2)).amin(dim=(0, 2))


@checked
def out_of_reach(
    locations: Float[Tensor, "n_images n_true rows columns"],
    slack: int,
    n_spare: Annotated[int, Range(0, 1)],
) -> int:
    """Shapes that no inferred location can place, at the very least.

    A shape of side s that sits at a shift inside a window of side s + slack
    reaches only the places from that shift on, slack fewer each way. A spare
    feature may hold one shape at a second shift.

    Parameters
    ----------
    locations
        True S, bits.
    slack
        Side of a window less that of a shape.
    n_spare
        Inferred features beyond the true ones, 0 or 1.
    """
    seen = locations.sum(dim=0)
    rows, columns = seen.shape[1:]
    reached = []
    for y in range(slack + 1):
        for x in range(slack + 1):
            mask = torch.zeros(rows, columns, dtype=torch.bool)
            mask[y : rows - slack + y, x : columns - slack + x] = True
            reached.append(mask)
    one = torch.stack([(seen * mask).sum(dim=(1, 2)) for mask in reached])
    best = one.amax(dim=0)
    two = torch.stack(
        [(seen * (a | b)).sum(dim=(1, 2)) for a in reached for b in reached]
    )
    gain = float((two.amax(dim=0) - best).max()) if n_spare else 0.0
    return round(float(seen.sum() - best.sum()) - gain)
