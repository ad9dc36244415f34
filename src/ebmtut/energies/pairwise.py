"""Boltzmann machines: quadratic energies of bits, dense or on the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from ebmtut._compiled import compiled
from ebmtut.checks import InputError, checked
from ebmtut.energies._symmetric import symmetric_part
from ebmtut.energies.base import Energy
from ebmtut.energies.ising import Ising
from ebmtut.tensor_checks import (
    check_clamp_values,
    check_floats,
    check_shape,
    check_states,
)

__all__ = ["BoltzmannMachine", "NeighborLists", "PairTerms", "PairwiseGraph"]


@dataclass(frozen=True)
class PairTerms:
    """A pairwise model as -E(x) = sum over pairs of w x_i x_j, plus b'x, on bits.

    Attributes
    ----------
    ends
        Makes `first` and `second` when asked for, which takes long for a large matrix.
    weight
        w of each pair.
    """

    ends: Callable[[], tuple[Int[Tensor, " n_pairs"], Int[Tensor, " n_pairs"]]]
    weight: Float[Tensor, " n_pairs"]
    bias: Float[Tensor, " n_sites"]

    @cached_property
    def _both(self) -> tuple[Int[Tensor, " n_pairs"], Int[Tensor, " n_pairs"]]:
        return self.ends()

    @property
    def first(self) -> Int[Tensor, " n_pairs"]:
        """One site of each pair."""
        return self._both[0]

    @property
    def second(self) -> Int[Tensor, " n_pairs"]:
        """The other."""
        return self._both[1]

    def at_sites(self, values: Float[Tensor, " n_pairs"]) -> Float[Tensor, " n_sites"]:
        """Sum a number of each pair over the pairs of each site, in a fixed order."""
        sums = values.new_zeros(len(self.bias))
        if values.is_cuda:  # where index_add_ adds in any order, and this sorts
            ends = torch.cat([self.first, self.second])
            return sums.index_put_((ends,), values.repeat(2), accumulate=True)
        return sums.index_add_(0, self.first, values).index_add_(0, self.second, values)


@dataclass(frozen=True)
class NeighborLists:
    """A graph by its sites: those of site i stand from start[i] to start[i + 1].

    Attributes
    ----------
    start
        Where each site's list begins, and the last ends.
    neighbor
        Neighbours, list after list.
    weight
        w of the edge to each.
    """

    start: Int[Tensor, " n_starts"]
    neighbor: Int[Tensor, " n_ends"]
    weight: Float[Tensor, " n_ends"]

    def coloring(self) -> Int[Tensor, " n_sites"]:
        """Colour the sites as `PairwiseGraph.coloring` does."""
        start, neighbor = self.start.cpu().numpy(), self.neighbor.cpu().numpy()
        colors = _greedy_colors(start, neighbor, len(start) - 1)
        return torch.from_numpy(colors).to(self.start.device)


@checked
class BoltzmannMachine(Energy):
    """Fully visible Boltzmann machine, E(x) = -x'Wx/2 - b'x on bits.

    Lázaro-Gredilla et al. (2021), Appendix C.1, call it an Ising model. The raw
    parameter is symmetrised and its diagonal dropped, so that any matrix may be
    learned.

    Parameters
    ----------
    weight, bias
        The raw W, and b; both copied.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> weight = torch.tensor([[0.0, 2.0], [2.0, 0.0]])  # two bits that agree
    >>> energy = BoltzmannMachine(weight, torch.tensor([-0.5, -0.5]))
    >>> energy(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
    tensor([ 0.5000, -1.0000])
    """

    def __init__(
        self,
        weight: Float[Tensor, "n_sites n_sites"],
        bias: Float[Tensor, " n_sites"],
        *,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        check_shape("weight", weight, (None, None))
        self.n_sites = weight.shape[0]
        weight = check_floats("weight", weight, (self.n_sites, self.n_sites))
        bias = check_floats("bias", bias, (self.n_sites,))
        self.weight = nn.Parameter(weight.clone(), learnable)
        self.bias = nn.Parameter(bias.clone(), learnable)

    def constructor_arguments(self) -> dict[str, Any]:
        """Weights, biases, and whether they are learned."""
        return {
            "weight": self.weight,
            "bias": self.bias,
            "learnable": self.weight.requires_grad,
        }

    @classmethod
    def from_ising(cls, ising: Ising) -> BoltzmannMachine:
        """Return the distribution of an Ising model, exp(s'Js + b's), s = 2x - 1.

        W = 8J and the bias is 2b - 4J1; the energies differ by a constant.
        """
        coupling = ising.symmetric_coupling.detach()
        bias = -4 * coupling.sum(1)
        if ising.bias is not None:
            bias = bias + 2 * ising.bias.detach()
        return cls(8 * coupling, bias)

    @property
    def symmetric_weight(self) -> Float[Tensor, "n_sites n_sites"]:
        """The matrix W itself, symmetric, with a zero diagonal."""
        return symmetric_part(self.weight)

    def pair_terms(self) -> PairTerms:
        """Return all pairs i < j, row by row; weights without a gradient."""
        n, raw = self.n_sites, self.weight.detach()

        @cache
        def ends() -> tuple[Tensor, Tensor]:
            first, second = torch.triu_indices(n, n, 1, device=raw.device)
            return first, second

        if raw.device.type == "cpu" and raw.dtype in (torch.float32, torch.float64):
            weight = raw.new_empty(n * (n - 1) // 2)
            _pack_pairs(raw.numpy(), weight.numpy())
        else:
            first, second = ends()
            weight = self.symmetric_weight.detach()[first, second]
        return PairTerms(ends, weight, self.bias.detach())

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of bits ``x``."""
        check_states("x", x, self.n_sites)
        field = x @ self.symmetric_weight.to(x) / 2 + self.bias.to(x)
        return -(x * field).sum(dim=1)

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x) = (1 - 2x_i)(Wx + b)_i."""
        check_states("x", x, self.n_sites)
        return (1 - 2 * x) * (x @ self.symmetric_weight.to(x) + self.bias.to(x))


@checked
class PairwiseGraph(Energy):
    """Boltzmann machine on a graph, -E(x) = sum over edges of w x_i x_j, plus b'x.

    Parameters
    ----------
    edges
        Pairs of different sites; no pair twice.
    weight, bias
        w of each edge, and b; both copied.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import PairwiseGraph
    >>> edges = torch.tensor([[0, 1], [1, 2]])  # a path of three sites
    >>> energy = PairwiseGraph(edges, torch.tensor([1.0, 2.0]), torch.zeros(3))
    >>> energy(torch.ones(1, 3))
    tensor([-3.])
    """

    edges: Integer[Tensor, "2 n_edges"]

    def __init__(
        self,
        edges: Integer[Tensor, "2 n_edges"],
        weight: Float[Tensor, " n_edges"],
        bias: Float[Tensor, " n_sites"],
        *,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        check_shape("edges", edges, (2, None))
        weight = check_floats("weight", weight, (edges.shape[1],))
        bias = check_floats("bias", bias, (None,))
        self.n_sites = len(bias)
        if edges.is_floating_point() or edges.dtype == torch.bool:
            raise InputError(f"edges must be integers, got {edges.dtype}")
        edges = edges.long()
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(bias):
            raise InputError(
                f"edges must join sites 0 to {len(bias) - 1}, got "
                f"{int(edges.min())} to {int(edges.max())}"
            )
        low, high = edges.min(0).values, edges.max(0).values
        pairs, times = torch.stack([low, high]).unique(dim=1, return_counts=True)
        if len(bad := pairs.T[(pairs[0] == pairs[1]) | (times > 1)]):
            raise InputError(
                "edges must join two different sites, each pair once, got "
                f"{tuple(bad[0].tolist())}"
            )
        self.register_buffer("edges", torch.stack([low, high]))
        self.weight = nn.Parameter(weight.clone(), learnable)
        self.bias = nn.Parameter(bias.clone(), learnable)

    def constructor_arguments(self) -> dict[str, Any]:
        """Edges, weights, biases, and whether they are learned."""
        return {
            "edges": self.edges,
            "weight": self.weight,
            "bias": self.bias,
            "learnable": self.weight.requires_grad,
        }

    def given(self, clamp: Float[Tensor, " n_sites"]) -> PairwiseGraph:
        """Return the conditional distribution of the free sites, given the others.

        An edge to a site that is held at 1 adds its weight to the other end's bias.

        Parameters
        ----------
        clamp
            Values that sites are held at: 0, 1, or NaN where a site is free.
        """
        check_shape("clamp", clamp, (self.n_sites,))
        free = torch.isnan(clamp)
        check_clamp_values(clamp)
        if not bool(free.any()):
            raise InputError(
                f"clamp must leave a site free, got values for all {self.n_sites}"
            )
        here = free.to(self.edges.device)
        one = torch.nan_to_num(clamp).to(self.bias)
        first, second = self.edges
        weight, bias = self.weight.detach(), self.bias.detach()
        bias = bias.index_add(0, first, weight * one[second])
        bias = bias.index_add(0, second, weight * one[first])
        stays = here[first] & here[second]
        place = here.long().cumsum(0) - 1
        return PairwiseGraph(place[self.edges[:, stays]], weight[stays], bias[here])

    def pair_terms(self) -> PairTerms:
        """Return the edges; weights without a gradient."""
        ends = self.edges[0], self.edges[1]
        return PairTerms(lambda: ends, self.weight.detach(), self.bias.detach())

    def neighbor_lists(self) -> NeighborLists:
        """Return each site's neighbours; weights without a gradient."""
        here = torch.cat([self.edges[0], self.edges[1]])
        there = torch.cat([self.edges[1], self.edges[0]])
        order = torch.argsort(here, stable=True)
        degree = torch.bincount(here, minlength=self.n_sites)
        start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        weight = self.weight.detach().repeat(2)
        return NeighborLists(start, there[order], weight[order])

    def coloring(self) -> Int[Tensor, " n_sites"]:
        """Colour the sites so that neighbours differ, as a Gibbs sweep needs.

        Greedily: at most one colour more than the highest degree, two on even lattices.
        """
        return self.neighbor_lists().coloring()

    def dense(self) -> BoltzmannMachine:
        """Return the same model with a full matrix of weights."""
        matrix = self.weight.new_zeros(self.n_sites, self.n_sites)
        matrix[self.edges[0], self.edges[1]] = self.weight.detach()
        return BoltzmannMachine(matrix + matrix.T, self.bias.detach())

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of bits ``x``."""
        check_states("x", x, self.n_sites)
        first, second = self.edges
        pairs = (x[:, first] * x[:, second]) @ self.weight.to(x)
        return -pairs - x @ self.bias.to(x)

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x)."""
        check_states("x", x, self.n_sites)
        first, second = self.edges
        weight = self.weight.to(x)
        field = self.bias.to(x).expand(len(x), -1)
        field = field.index_add(1, first, x[:, second] * weight)
        field = field.index_add(1, second, x[:, first] * weight)
        return (1 - 2 * x) * field


@compiled
def _pack_pairs(raw, weight):  # type: ignore[no-untyped-def]
    """Write (raw_ij + raw_ji) / 2 for i < j, row by row, as `symmetric_part`."""
    n = len(raw)
    # In tiles, whose lines of the cache are read once and many at a time.
    for top in range(0, n, 16):
        for left in range(top, n, 128):
            for i in range(top, min(top + 16, n)):
                before, row = i * (2 * n - i - 1) // 2 - i - 1, np.uint64(i)
                for column in range(max(left, i + 1), min(left + 128, n)):
                    j, pair = np.uint64(column), np.uint64(before + column)
                    weight[pair] = raw[row, j] / 2 + raw[j, row] / 2


@compiled
def _greedy_colors(start, neighbor, n_sites):  # type: ignore[no-untyped-def]
    colors = np.full(n_sites, -1, dtype=np.int64)
    for site in range(n_sites):
        here = neighbor[start[site] : start[site + 1]]
        taken = np.zeros(len(here) + 1, dtype=np.bool_)
        for other in here:
            if 0 <= colors[other] <= len(here):
                taken[colors[other]] = True
        colors[site] = np.argmin(taken)
    return colors
