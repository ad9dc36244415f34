"""How the pairs of a matrix lie in memory, so that vectors start on whole lines."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ebmtut.energies import RBM, BoltzmannMachine, PairTerms

__all__ = ["Rows", "rows_of"]

# float32 numbers in a line of the cache, which is the widest vector, too.
_LANES = 16


class Rows(NamedTuple):
    """Pairs as rows of columns, every row from a multiple of 16 to another.

    Attributes
    ----------
    half : Tensor
        Half weights, row after row, zero where there is no pair.
    slots : Tensor
        Where in `half` each pair lies, (n_pairs,).
    first : Tensor
        The column that a row starts with, (n_rows,).
    place : Tensor
        A row's site among the places, (n_rows,); those of the columns come first.
    n_columns : int
        Columns, with what fills up the last line.
    sites : Tensor
        The place of each site of the model, (n_sites,).
    n_places : int
        Places, some of which may be no site.
    """

    half: Tensor
    slots: Tensor
    first: Tensor
    place: Tensor
    n_columns: int
    sites: Tensor
    n_places: int


def rows_of(
    model: BoltzmannMachine | RBM, terms: PairTerms, dtype: torch.dtype
) -> Rows:
    """Lay out the pairs of a matrix, in the order of its terms.

    A Boltzmann machine's rows and columns are the same sites, and row i has the
    columns j > i; an RBM's rows are its hidden units, its columns the visible.
    """
    sites = torch.arange(len(terms.bias))
    if isinstance(model, RBM):
        n_columns = _filled_up(model.n_visible)
        sites[model.n_visible :] += n_columns - model.n_visible
        row, column = terms.second - model.n_visible, terms.first
        place = sites[model.n_visible :]
        first = torch.zeros_like(place)
    else:
        n_columns = _filled_up(len(sites))
        row, column, place = terms.first, terms.second, sites
        first = (sites + 1) // _LANES * _LANES
    n_places = max(n_columns, int(sites[-1]) + 1)
    ends = (n_columns - first).cumsum(0)
    slots = (ends - n_columns)[row] + column
    half = torch.zeros(int(ends[-1]), dtype=dtype)
    half[slots] = terms.weight.to(dtype) / 2
    return Rows(half, slots, first, place, n_columns, sites, n_places)


def _filled_up(n: int) -> int:
    """Round n up to whole lines."""
    return -(-n // _LANES) * _LANES
