"""A batch of graphs of different sizes, padded to one.

A padded site is an independent uniform bit that enters no energy. So every closed form
stays finite, and the distribution of the vertices is exact whatever the padding.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ebmtut.checks import InputError, check_counts, shown
from ebmtut.tensor_checks import check_only_bits, check_shape, check_states

__all__ = ["GraphBatch"]


def import_networkx() -> Any:
    """Return NetworkX, or say how to install it."""
    try:
        import networkx
    except ImportError:
        raise InputError("graphs need NetworkX: pip install 'ebmtut[graphs]'") from None
    return networkx


def check_simple_graph(name: str, graph: object) -> None:
    """Require a simple undirected NetworkX graph with at least one vertex."""
    if (
        not isinstance(graph, import_networkx().Graph)
        or graph.is_directed()
        or graph.is_multigraph()
    ):
        raise InputError(
            f"{name} must be a networkx.Graph, undirected, got {shown(graph)}"
        )
    if not len(graph):
        raise InputError(f"{name} must have a vertex, got none")
    for first, second in graph.edges:
        if first == second:
            raise InputError(f"{name} must have no loop, got one at {first!r}")


def edges_by_site(graph: Any) -> list[tuple[int, int]]:
    """Edges of a NetworkX graph in its order; its k-th vertex is site k."""
    site: dict[Hashable, int] = {name: k for k, name in enumerate(graph.nodes)}
    return [(site[first], site[second]) for first, second in graph.edges]


class GraphBatch:
    """Simple graphs, padded to a common number of sites.

    Parameters
    ----------
    adjacency
        Symmetric, zero on the diagonal; a graph's vertices are its first sites.

    Examples
    --------
    >>> from ebmtut.energies import GraphBatch
    >>> graphs = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])])
    >>> graphs.n_edges
    tensor([2.])
    """

    #: What the message says where another object is given.
    HOW_MADE = ": GraphBatch.from_networkx makes one of NetworkX's"

    def __init__(
        self,
        adjacency: Float[Tensor, "n_graphs n_sites n_sites"],
        n_vertices: Int[Tensor, " n_graphs"],
    ) -> None:
        check_shape("adjacency", adjacency, (None, None, None))
        n_graphs, n_sites, _ = adjacency.shape
        check_shape("adjacency", adjacency, (n_graphs, n_sites, n_sites))
        check_shape("n_vertices", n_vertices, (n_graphs,))
        if not n_graphs:
            raise InputError("adjacency must hold at least 1 graph, got 0")
        low, high = int(n_vertices.min()), int(n_vertices.max())
        if low < 1 or high > n_sites:
            raise InputError(
                f"n_vertices must lie in [1, {n_sites}], got [{low}, {high}]: "
                "a graph has at least one vertex"
            )
        check_only_bits("adjacency", adjacency)
        if len(odd := (adjacency != adjacency.mT).nonzero()):
            raise InputError(
                "adjacency must be symmetric, got graph, row, column "
                f"{tuple(odd[0].tolist())} alone"
            )
        if bool(adjacency.diagonal(dim1=1, dim2=2).any()):
            raise InputError("adjacency must have a zero diagonal, got a loop")
        self._hold(adjacency, n_vertices)
        if bool((adjacency.sum(2).bool() & ~self.is_vertex).any()):
            raise InputError("adjacency must join vertices only, got a padded site")

    def _hold(self, adjacency: Tensor, n_vertices: Tensor) -> GraphBatch:
        """Keep what has been checked."""
        self.adjacency = adjacency
        self.n_vertices = n_vertices
        sites = torch.arange(adjacency.shape[1], device=adjacency.device)
        self.is_vertex: Bool[Tensor, "n_graphs n_sites"] = sites < n_vertices[:, None]
        return self

    @classmethod
    def from_edges(
        cls,
        graphs: Sequence[tuple[int, Sequence[tuple[int, int]]]],
        *,
        dtype: torch.dtype = torch.float32,
    ) -> GraphBatch:
        """Pad graphs given as lists of edges.

        Parameters
        ----------
        graphs
            Number of vertices and edges of each graph; vertices count from 0.
        """
        if not len(graphs):
            raise InputError("graphs must hold at least 1 graph, got 0")
        sizes = [n for n, _ in graphs]
        for n in sizes:
            check_counts(n_vertices=n)
        adjacency = torch.zeros(
            len(graphs), max(sizes), max(sizes), dtype=dtype, device="cpu"
        )
        for matrix, (n, edges) in zip(adjacency, graphs, strict=True):
            for i, j in edges:
                if not (0 <= i < n and 0 <= j < n and i != j):
                    raise InputError(
                        f"graphs must have edges between two different vertices of "
                        f"0 to {n - 1}, got ({i}, {j})"
                    )
                matrix[i, j] = matrix[j, i] = 1
        return cls(adjacency, torch.tensor(sizes, device="cpu"))

    @classmethod
    def from_networkx(
        cls, graphs: Any, *, dtype: torch.dtype = torch.float32
    ) -> GraphBatch:
        """Pad graphs of NetworkX.

        Parameters
        ----------
        graphs
            One or several; attributes, weights too, are not read: all edges are alike.
        """
        if not isinstance(graphs, (list, tuple)):
            graphs = [graphs]
        for number, graph in enumerate(graphs):
            name = "graphs" if len(graphs) == 1 else f"graphs[{number}]"
            check_simple_graph(name, graph)
        return cls.from_edges(
            [(len(graph), edges_by_site(graph)) for graph in graphs], dtype=dtype
        )

    def __len__(self) -> int:
        return len(self.adjacency)

    @property
    def n_sites(self) -> int:
        """Sites of a padded graph."""
        return self.adjacency.shape[1]

    @property
    def n_edges(self) -> Float[Tensor, " n_graphs"]:
        """Edges of each graph."""
        return self.adjacency.sum((1, 2)) / 2

    def select(self, index: Int[Tensor, " n_kept"]) -> GraphBatch:
        """Return some of the graphs, trimmed to the largest of them."""
        size = int(self.n_vertices[index].max())
        part = GraphBatch.__new__(GraphBatch)
        return part._hold(self.adjacency[index, :size, :size], self.n_vertices[index])

    def to(self, device: str | torch.device) -> GraphBatch:
        """Return the graphs on a device."""
        there = GraphBatch.__new__(GraphBatch)
        return there._hold(self.adjacency.to(device), self.n_vertices.to(device))

    def by_graph(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "n_graphs n_copies n_sites"]:
        """Split states, as many of each graph in turn, by graph."""
        check_states("x", x, self.n_sites)
        if len(x) % len(self):
            raise InputError(
                f"x must hold as many states for each of the {len(self)} graphs, "
                f"got {len(x)}"
            )
        return x.unflatten(0, (len(self), -1))

    def of_rows(
        self, value: Float[Tensor, "n_graphs ..."], n_rows: int
    ) -> Float[Tensor, "batch ..."]:
        """Repeat what belongs to graphs for the states of each."""
        return value.repeat_interleave(n_rows // len(self), 0)

    def neighbor_sums(
        self, values: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Sum a value over every vertex's neighbours, A times it."""
        return (self.by_graph(values) @ self.adjacency.to(values)).flatten(0, 1)
