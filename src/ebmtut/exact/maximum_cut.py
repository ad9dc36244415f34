"""Largest cuts, with a proof, by branch and cut over the odd cycles.

A cut meets every cycle an even number of times. The linear program over the edges is
given the inequalities of the odd cycles that it violates until there are none (Barahona
and Mahjoub, 1986); a few branchings then prove the optimum of sparse graphs.
"""

from __future__ import annotations

import heapq
import time
from itertools import count

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra, minimum_spanning_tree

from ebmtut.checks import Positive, checked
from ebmtut.energies import GraphBatch
from ebmtut.exact.optimum import Optima, edge_lists, unproved

__all__ = ["maximum_cuts"]

_SLACK = 1e-3  # violation below which an inequality is not worth adding
_TINY = 1e-9  # a sparse matrix would take an edge of price 0 for no edge


@checked
def maximum_cuts(graphs: GraphBatch, *, time_limit: Positive = 300) -> Optima:
    """Partitions of the vertices with the most edges between the two sides.

    Raises
    ------
    OptimumUnproved
        If the time was up; the message names the graph.

    Examples
    --------
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.exact import maximum_cuts
    >>> triangle = GraphBatch.from_edges([(3, [(0, 1), (1, 2), (0, 2)])])
    >>> maximum_cuts(triangle).value
    tensor([2.])
    """
    x = torch.zeros(len(graphs), graphs.n_sites, dtype=torch.float32, device="cpu")
    value = torch.zeros(len(graphs), dtype=torch.float32, device="cpu")
    for number, (n, edges) in enumerate(edge_lists(graphs)):
        search = _Search(n, np.array(edges, dtype=int).reshape(-1, 2))
        if not search.run(time.monotonic() + time_limit):
            raise unproved(number, time_limit)
        x[number, :n] = torch.from_numpy(search.side)
        value[number] = search.value
    return Optima(value, x)


class _Search:
    """Branch and cut on one graph; `side` is the best cut so far."""

    def __init__(self, n: int, edges: np.ndarray) -> None:
        self.n, self.edges = n, edges
        self.number = {frozenset(e): k for k, e in enumerate(edges.tolist())}
        self.side, self.value = np.zeros(n), 0
        # Edges of a cycle and their signs, +1 in the odd part: the right-hand side
        # is the number of +1 less 1.
        self.cycles: dict[tuple[tuple[int, ...], tuple[int, ...]], None] = {}

    def run(self, deadline: float) -> bool:
        """Search to the end; False if the deadline came first."""
        order = count()
        open_nodes = [(-np.inf, next(order), dict[int, int]())]
        while open_nodes:
            bound, _, fixed = heapq.heappop(open_nodes)
            if -bound <= self.value:
                continue
            if time.monotonic() > deadline:
                return False
            relaxed = self.relax(fixed, deadline)
            if relaxed is None:
                continue
            # The least decided edge; where all are decided, the cut was recorded.
            edge = int(np.abs(relaxed - 0.5).argmin())
            if abs(relaxed[edge] - 0.5) > 0.5 - _SLACK:
                continue
            bound = -_whole(relaxed.sum())
            for kept in (0, 1):
                node = bound, next(order), {**fixed, edge: kept}
                heapq.heappush(open_nodes, node)
        return True

    def relax(self, fixed: dict[int, int], deadline: float) -> np.ndarray | None:
        """Best relaxed cut with some edges fixed; None if it can't beat the best."""
        n_edges = len(self.edges)
        bounds = np.tile([0.0, 1.0], (n_edges, 1))
        for edge, kept in fixed.items():
            bounds[edge] = kept
        while n_edges:
            matrix, limits = self.inequalities()
            found = linprog(-np.ones(n_edges), matrix, limits, bounds=bounds)
            if found.status != 0 or _whole(-found.fun) <= self.value:
                return None
            relaxed: np.ndarray = found.x
            self.round(relaxed)
            if not self.separate(relaxed) or time.monotonic() > deadline:
                return relaxed
        return None

    def inequalities(self) -> tuple[csr_array | None, np.ndarray | None]:
        """Matrix and right-hand side of the cycles so far."""
        if not self.cycles:
            return None, None
        rows = [row for row, (cycle, _) in enumerate(self.cycles) for _ in cycle]
        columns = [edge for cycle, _ in self.cycles for edge in cycle]
        signs = [float(sign) for _, part in self.cycles for sign in part]
        shape = len(self.cycles), len(self.edges)
        limits = [part.count(1) - 1.0 for _, part in self.cycles]
        return csr_array((signs, (rows, columns)), shape=shape), np.array(limits)

    def separate(self, relaxed: np.ndarray) -> bool:
        """Add the most violated odd cycle through every vertex; True if there is one.

        A shortest path from a vertex to its copy in the doubled graph, where an edge
        costs x, or 1 - x to change sides.
        """
        n = self.n
        stay = np.clip(relaxed, _TINY, 1)
        change = np.clip(1 - relaxed, _TINY, 1)
        i, j = self.edges.T
        tails = np.concatenate([i, i + n, i, j])
        heads = np.concatenate([j, j + n, j + n, i + n])
        prices = np.concatenate([stay, stay, change, change])
        doubled = csr_array((prices, (tails, heads)), shape=(2 * n, 2 * n))
        length, before = dijkstra(
            doubled, directed=False, indices=range(n), return_predecessors=True
        )
        n_known = len(self.cycles)
        across = length[np.arange(n), np.arange(n) + n]
        for start in np.flatnonzero(across < 1 - _SLACK):
            at, signs, simple = start + n, dict[int, int](), True
            while at != start:
                last = before[start, at]
                edge = self.number[frozenset((int(last % n), int(at % n)))]
                simple &= edge not in signs
                signs[edge] = 1 if (last < n) != (at < n) else -1
                at = last
            if simple:
                cycle, part = zip(*sorted(signs.items()), strict=True)
                self.cycles[cycle, part] = None
        return len(self.cycles) > n_known

    def round(self, relaxed: np.ndarray) -> None:
        """Follow the most decided edges to a cut, improve it vertex by vertex."""
        n, (i, j) = self.n, self.edges.T
        doubt = _TINY + 0.5 - np.abs(relaxed - 0.5)
        tree = minimum_spanning_tree(csr_array((doubt, (i, j)), shape=(n, n)))
        side = np.full(n, -1.0)
        for root in range(n):
            if side[root] >= 0:
                continue
            order, before = breadth_first_order(tree, root, directed=False)
            side[root] = 0
            for at in order[1:]:
                edge = self.number[frozenset((int(before[at]), int(at)))]
                side[at] = (side[before[at]] + round(relaxed[edge])) % 2
        adjacency = np.zeros((n, n))
        adjacency[i, j] = adjacency[j, i] = 1
        while True:
            spin = 2 * side - 1
            gain = spin * (adjacency @ spin)
            if gain.max() <= 0:
                break
            side[gain.argmax()] = 1 - side[gain.argmax()]
        value = int((side[i] != side[j]).sum())
        if value > self.value:
            self.side, self.value = side, value


def _whole(bound: float) -> int:
    """The best whole number under a bound that the solver knows to 1e-6."""
    return int(np.floor(bound + 1e-6))
