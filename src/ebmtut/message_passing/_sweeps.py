"""What lies between `max_product` and its kernels: arrays, in threads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ebmtut._compiled import in_threads
from ebmtut.energies import RBM, BoltzmannMachine, PairTerms
from ebmtut.message_passing import _pairwise_kernels as kernels
from ebmtut.message_passing._rows import rows_of

__all__ = ["sweep_edges", "sweep_matrix"]


def sweep_matrix(
    model: BoltzmannMachine | RBM,
    terms: PairTerms,
    unaries: Tensor,
    before: Tensor | None,
    symmetric: bool,
    keep_messages: bool,
    n_sweeps: int,
    damping: float,
) -> tuple[Tensor, Tensor | None]:
    """Sweep a dense or a bipartite model, its samples spread over threads.

    Takes the unaries, (n_samples, n_sites), with half of each site's weights,
    and the messages to start from, or whether they start at w / 2 rather than
    at 0. Returns the beliefs and, if they are kept, the messages.
    """
    rows = rows_of(model, terms, unaries.dtype)
    places = unaries.new_zeros(len(unaries), rows.n_places)
    places[:, rows.sites] = unaries
    none = unaries.new_empty(0, 2, len(terms.weight))
    start = none if before is None else before.contiguous()
    end = none
    if keep_messages:
        end = unaries.new_empty(len(unaries), 2, len(terms.weight))
    found = torch.empty_like(places)
    number = places.numpy().dtype.type
    half, slots, first, place = (x.numpy() for x in rows[:4])
    arrays = [x.numpy() for x in (places, found, start, end)]

    def work(part: slice) -> None:
        kernels.row_sweeps(
            half,
            slots,
            first,
            place,
            rows.n_columns,
            *(array[part] for array in arrays),
            int(isinstance(model, RBM)),  # whose pairs are (column, row)
            number(0 if symmetric else -1 / (1 - damping)),
            n_sweeps,
            number(damping),
            number(1 - damping),
        )

    in_threads(work, len(unaries), len(unaries) * n_sweeps * half.size)
    return found[:, rows.sites], end if keep_messages else None


def sweep_edges(
    terms: PairTerms,
    unaries: Tensor,
    before: Tensor | None,
    symmetric: bool,
    keep_messages: bool,
    n_sweeps: int,
    damping: float,
) -> tuple[Tensor, Tensor | None]:
    """Sweep the edges of a graph, as `sweep_matrix` does a matrix."""
    given = unaries.numpy()
    number = given.dtype.type
    half = (terms.weight.to(unaries.dtype) / 2).numpy()[:, None]
    scale = np.copysign(number(1 - damping), half)
    first, second = terms.first.numpy(), terms.second.numpy()
    known = None if before is None else before.numpy()
    end = np.empty((len(given), 2, len(half)), number) if keep_messages else None
    found = np.empty_like(given)

    def work(part: slice) -> None:
        u = np.ascontiguousarray(given[part].T)
        if known is None:
            start = 0 * half if symmetric else -half / scale
            ways = np.tile(start, (2, 1, u.shape[1]))
        else:
            ways = (known[part].transpose(1, 2, 0) - half) / scale
        out, back = np.ascontiguousarray(ways)
        beliefs = np.empty_like(u)
        kernels.sparse_sweeps(
            first,
            second,
            half[:, 0],
            u,
            beliefs,
            out,
            back,
            n_sweeps,
            number(damping),
            number(1 - damping),
        )
        found[part] = beliefs.T
        if end is not None:
            end[part, 0] = (scale * out + half).T
            end[part, 1] = (scale * back + half).T

    in_threads(work, len(given), len(given) * n_sweeps * len(half))
    return torch.from_numpy(found), None if end is None else torch.from_numpy(end)
