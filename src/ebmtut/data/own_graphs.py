"""One's own graph: from a file of edges to NetworkX, and from there to an energy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import torch

from ebmtut.checks import InputError, OneOf, check_range, checked
from ebmtut.data.tables import number_in, read_rows
from ebmtut.energies import PairwiseGraph
from ebmtut.energies.graph_batch import (
    check_simple_graph,
    edges_by_site,
    import_networkx,
)
from ebmtut.losses import VARIABLES
from ebmtut.tensor_checks import check_floating

__all__ = ["pairwise_graph", "read_graph"]


def read_graph(path: str | Path) -> Any:
    """Read a graph from a file with an edge a line.

    Parameters
    ----------
    path
        Text, cells as `ebmtut.data.read_rows` has them: the names of two vertices,
        and a weight where there is one. A first line whose third cell is no number,
        or that reads ``source,target``, is left out.

    Returns
    -------
    graph
        A ``networkx.Graph`` with the names as vertices, in their order, and an edge
        attribute ``weight``, 1 where the file has none.

    Raises
    ------
    InputError
        If there is no such file, it holds no edge, or a line is none: other than
        two names and a finite weight, a vertex with itself, an edge again. Or if
        NetworkX is missing.
    """
    graph = import_networkx().Graph()
    for index, (number, cells) in enumerate(read_rows(path)):
        if index == 0 and _is_head(cells):
            continue
        where = f"in line {number}"
        if len(cells) not in (2, 3) or not all(cells[:2]):
            raise InputError(
                f"{path} must hold two names and a weight or none a line, "
                f"got {len(cells)} cells {where}"
            )
        first, second = cells[:2]
        weight = number_in(cells[2]) if len(cells) == 3 else 1.0
        if weight is None or not math.isfinite(weight):
            raise InputError(
                f"{path} must hold finite weights, got {cells[2][:30]!r} {where}"
            )
        if first == second or graph.has_edge(first, second):
            raise InputError(
                f"{path} must join two different vertices once, "
                f"got {first[:30]!r} and {second[:30]!r} {where}"
            )
        graph.add_edge(first, second, weight=weight)
    if not graph.number_of_edges():
        raise InputError(f"{path} must hold an edge, got none")
    return graph


def _is_head(cells: list[str]) -> bool:
    named = [cell.lower() for cell in cells[:2]] == ["source", "target"]
    return named or (len(cells) == 3 and number_in(cells[2]) is None)


@checked
def pairwise_graph(
    graph: Any,
    *,
    weight: float | str = 1.0,
    bias: float | str = 0.0,
    variables: Annotated[str, OneOf(VARIABLES)] = "bits",
    dtype: torch.dtype = torch.float64,
) -> PairwiseGraph:
    """Make an energy of a NetworkX graph, a site a vertex.

    Parameters
    ----------
    graph
        A ``networkx.Graph``; site k is the k-th of ``graph.nodes``.
    weight
        Of every edge, or the name of an edge attribute.
    bias
        Of every vertex, or the name of a vertex attribute.
    variables
        "bits": -E is the sum over edges of w x_i x_j, plus b'x, which rewards ones
        side by side. "spins": that of w s_i s_j, plus b's, with s = 2x - 1, which
        rewards equal neighbours; the same law is written in bits.
    dtype
        Of the parameters.

    Raises
    ------
    InputError
        If the graph is none, is directed, has no vertex, double edges or loops, an
        attribute is missing or no finite number, `variables` is unknown, or
        NetworkX is missing.
    """
    check_floating("dtype", dtype)
    check_simple_graph("graph", graph)
    weights = _attribute("weight", weight, graph.edges(data=True), dtype)
    biases = _attribute("bias", bias, graph.nodes(data=True), dtype)
    edges = torch.tensor(edges_by_site(graph), dtype=torch.long).reshape(-1, 2).T
    if variables == "spins":
        # w s s' = 4 w x x' - 2 w x - 2 w x' + w, and b s = 2 b x - b.
        biases = 2 * biases
        for end in edges:
            biases = biases.index_add(0, end, -2 * weights)
        weights = 4 * weights
    return PairwiseGraph(edges, weights, biases)


def _attribute(name: str, value: float | str, items: Any, dtype: torch.dtype) -> Any:
    """One number for all, or each item's own."""
    if not isinstance(value, str):
        check_range(name, value)
        return torch.full((len(items),), float(value), dtype=dtype)
    numbers = []
    for *at, about in items:
        where = " and ".join(repr(vertex) for vertex in at)
        if value not in about:
            raise InputError(
                f"{name} must be an attribute, got none {value!r} at {where}"
            )
        check_range(f"{value} at {where}", about[value])
        numbers.append(float(about[value]))
    return torch.tensor(numbers, dtype=dtype)
