"""One's own graph: from a file of edges to NetworkX, and from there to an energy."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from ebmtut.checks import InputError, OneOf, check_range, checked
from ebmtut.data.datasets import reading
from ebmtut.data.tables import Cells, holds_names, number_in, read_cells, read_lines
from ebmtut.energies import PairwiseGraph
from ebmtut.energies.graph_batch import (
    check_simple_graph,
    edges_by_site,
    import_networkx,
)
from ebmtut.losses import VARIABLES
from ebmtut.tensor_checks import check_floating

__all__ = ["pairwise_graph", "read_graph"]


#: Names of a column of weights, and of the two columns of vertices.
_WEIGHTS = {"weight", "weights", "w", "value", "strength", "coupling", "j"}
#: And of columns that hold neither.
_NO_WEIGHTS = {"", "unnamed: 0", "id", "index", "key", "label", "time", "timestamp"}
_PAIRS = {
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("tail", "head"),
    ("start", "end"),
    ("u", "v"),
    ("v", "w"),
    ("i", "j"),
}

#: Number of the line, two vertices, and a weight.
_Edge = tuple[int, str, str, float]


@checked
def read_graph(path: str | Path) -> Any:
    """Read a graph from a file.

    Parameters
    ----------
    path
        A text with an edge a line: two vertices and perhaps a weight, after a first
        line of names such as ``source,target`` if there is one. Or a file of the G-set,
        DIMACS, MatrixMarket or GraphML, which its content tells.

    Returns
    -------
    graph
        A ``networkx.Graph`` with an edge attribute ``weight``;
        ``graph.graph["read_as"]`` says what was understood.

    Raises
    ------
    InputError
        If there is no such file, or a line is no edge or may be a line of names.
    """
    graph = import_networkx().Graph()
    lines = read_lines(path)
    start = next((line.strip() for line in lines if line.strip()), "")
    if start.startswith("%%MatrixMarket"):
        vertices, edges, kind = _matrix_market(path)
    elif start.startswith("<"):
        vertices, edges, kind = _graphml(path)
    elif any(line.split()[:2] in (["p", "edge"], ["p", "col"]) for line in lines):
        vertices, edges, kind = _dimacs(path, lines)
    else:
        vertices, edges, kind = _edge_list(path)
    graph.add_nodes_from(vertices)
    for number, first, second, weight in edges:
        if first == second or graph.has_edge(first, second):
            where = f" in line {number}" if number else ""
            raise InputError(
                f"{path} must join two different vertices once, "
                f"got {first[:30]!r} and {second[:30]!r}{where}"
            )
        graph.add_edge(first, second, weight=weight)
    if not graph.number_of_edges():
        raise InputError(f"{path} must hold an edge, got none")
    graph.graph["read_as"] = (
        f"{Path(path).name}: {graph.number_of_nodes()} vertices, "
        f"{graph.number_of_edges()} edges; {kind}"
    )
    return graph


def _edge_list(path: str | Path) -> tuple[list[str], list[_Edge], str]:
    """Vertices that are listed, edges, and what was understood."""
    table = read_cells(path)
    rows = table.rows
    if not rows:
        return [], [], ""
    n = _sizes(path, table)
    if n is None and _is_head(path, rows[0], [cells for _, cells in rows[1:]]):
        columns, told = _columns(path, table)
        return [], [_edge(path, table, row, columns) for row in rows[1:]], told
    rows = rows if n is None else rows[1:]
    width = len(rows[0][1]) if rows else 2
    for number, cells in rows:
        if len(cells) != width or width not in (2, 3):
            raise InputError(
                f"{path} must hold two names a line, and a weight in each or in none, "
                f"got {len(cells)} cells in line {number}"
            )
    told = "weights from column 3" if width == 3 else "all of weight 1"
    edges = [_edge(path, table, row, (0, 1, 2 if width == 3 else None)) for row in rows]
    if n is None:
        return [], edges, f"no line of names, {told}"
    counted = [str(k + 1) for k in range(n)]
    return counted, edges, f"the first line counts vertices and edges, {told}"


def _edge(
    path: str | Path,
    table: Cells,
    row: tuple[int, list[str]],
    columns: tuple[int, int, int | None],
) -> _Edge:
    number, cells = row
    i, j, k = columns
    if not (i < len(cells) > j and cells[i] and cells[j]):
        raise InputError(
            f"{path} must hold two names a line, and a weight in each or in none, "
            f"got {len(cells)} cells in line {number}"
        )
    cell = "1" if k is None else cells[k] if k < len(cells) else ""
    weight = table.number(cell)
    if weight is None or not math.isfinite(weight):
        raise InputError(
            f"{path} must hold finite weights, got {cell[:30]!r} in line {number}"
        )
    return number, cells[i], cells[j], weight


def _sizes(path: str | Path, table: Cells) -> int | None:
    """Vertices of a file whose first line counts them and the edges, as the G-set's."""
    (number, head), *rows = table.rows
    if len(head) != 2 or not all(map(str.isdecimal, head)):
        return None
    n, m = map(int, head)
    widths = {len(cells) for _, cells in rows}
    names = {name for _, cells in rows for name in cells[:2]}
    numbers = {int(name) if name.isdecimal() else -1 for name in names}
    if m == len(rows) and numbers and widths <= {2, 3}:
        from_one = numbers <= set(range(1, n + 1))
        if from_one and table.separator in (" ", "\t"):
            return n
        if from_one or (0 in numbers and numbers <= set(range(n))):
            raise InputError(
                f"{path} must say what line {number} is, got {' '.join(head)!r}, which "
                "may count vertices and edges: put source,target above it if it is an "
                "edge, else delete it"
            )
    if widths == {3}:
        raise InputError(
            f"{path} must have an edge with a weight in each line, or first the "
            f"numbers of vertices and edges, got {' '.join(head)!r} in line {number}, "
            f"{len(rows)} edges and {len(names)} vertices"
        )
    return None


def _is_head(
    path: str | Path, first: tuple[int, list[str]], body: Sequence[Sequence[str]]
) -> bool:
    """Whether the first line holds names of columns: by them, or by what is below."""
    number, cells = first
    if not holds_names(cells):
        return False
    names = [cell.lower() for cell in cells]
    words = {name for name in names if len(name) > 1}
    if any(words >= set(pair) for pair in _PAIRS) or (
        len(names) > 2 and words & _WEIGHTS
    ):
        return True
    vertices = {cell for row in body for cell in row[:3]}
    if not body or vertices & set(cells):
        return False  # vertices, which stand in another line, too
    if any(
        all(number_in(cell.replace(",", ".")) is not None for cell in column)
        for column in zip(*body, strict=False)
    ):
        return True
    # Such as node1, node2 above node3, node4, or a, b above c, d.
    is_alike = {_form(cell) for cell in cells} & {_form(vertex) for vertex in vertices}
    if not is_alike and _pair(names) is not None:
        return True
    # u, v above a, b may be both.
    if tuple(names[:2]) not in _PAIRS and (is_alike or len(body) == 1):
        return False
    raise InputError(
        f"{path} must say what line {number} is, got {', '.join(cells)[:60]!r}, which "
        "is in no other line: put source,target above it if it is an edge, "
        "and in its place if it holds names"
    )


def _form(name: str) -> str:
    """What a name has in common with others that are numbered or lettered alike."""
    return re.sub(r"\d+$|^\w$", "", name)


def _pair(names: Sequence[str]) -> tuple[int, int] | None:
    """Places of the two columns of vertices, by their names."""
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            stem = first[:-1]
            alike = stem == second[:-1] and stem.strip("_ ") != ""
            ends = (first[-1:], second[-1:]) in (("1", "2"), ("a", "b"), ("0", "1"))
            if (first, second) in _PAIRS or (alike and ends):
                return i, j
    return None


def _columns(path: str | Path, table: Cells) -> tuple[tuple[int, int, int | None], str]:
    """Places of two vertices and the weight, and what was understood."""
    (number, cells), *body = table.rows
    names = [cell.lower() for cell in cells]
    if body and len(names) == len(body[0][1]) - 1:
        if len(names) == 2 and all(
            table.number(row[-1]) is not None for _, row in body
        ):
            raise InputError(
                f"{path} must name each column, got {len(cells)} names in line "
                f"{number} and {len(body[0][1])} cells in line {body[0][0]}"
            )
        names, cells = ["", *names], ["", *cells]  # a column of row names
    pair = _pair(names)
    used = [k for k, name in enumerate(names) if name not in _NO_WEIGHTS]
    others = [k for k in used if pair is None or k not in pair]
    weights = [k for k in others if names[k] in _WEIGHTS]
    if pair is None and len(others) - len(weights) == 2:
        i, j = (k for k in others if k not in weights)
        pair, others = (i, j), weights
    elif pair is None and len(others) == 3:
        pair, others = (others[0], others[1]), others[2:]
    if pair is None or len(weights) > 1 or (len(others) > 1 and not weights):
        raise InputError(
            f"{path} must name its columns source, target and weight, "
            f"got {', '.join(cells)[:60]!r} in line {number}"
        )
    weight = next(iter(weights or others), None)
    told = "all of weight 1" if weight is None else f"weights from {cells[weight]}"
    unused = [cells[k] for k, name in enumerate(names) if name]
    unused = [cell for cell in unused if cells.index(cell) not in (*pair, weight)]
    more = f", {', '.join(unused)} not used" if unused else ""
    told = f"from {cells[pair[0]]} to {cells[pair[1]]}, {told}{more}"
    return (*pair, weight), told


def _dimacs(
    path: str | Path, lines: Sequence[str]
) -> tuple[list[str], list[_Edge], str]:
    """Vertices and edges of DIMACS, which numbers the vertices from 1."""
    edges: list[_Edge] = []
    n, m, has_weights = 0, 0, False
    for number, line in enumerate(lines, start=1):
        match line.split():
            case [] | ["c", *_]:
                continue
            case ["p", "edge" | "col", first, second] if not n and (
                first.isdecimal() and second.isdecimal() and int(first)
            ):
                n, m = int(first), int(second)
            case ["e", first, second, *rest] if (
                n
                and {first, second} <= _numbered(n)
                and len(rest) == (has_weights if edges else min(1, len(rest)))
            ):
                table, has_weights = Cells(" ", ".", []), bool(rest)
                row = number, [first, second, *rest]
                edges.append(_edge(path, table, row, (0, 1, 2 if rest else None)))
            case _:
                raise InputError(
                    f"{path} must hold edges of DIMACS, 'e i j' with i and j up to "
                    f"{n or 'the number of vertices'}, got {line[:30]!r} "
                    f"in line {number}"
                )
    if len(edges) != m:
        raise InputError(f"{path} must hold {m} edges, as it says, got {len(edges)}")
    weights = "weights from column 4" if has_weights else "all of weight 1"
    return [str(k + 1) for k in range(n)], edges, f"DIMACS, {weights}"


@cache
def _numbered(n: int) -> frozenset[str]:
    return frozenset(str(k + 1) for k in range(n))


def _matrix_market(path: str | Path) -> tuple[list[str], list[_Edge], str]:
    """Vertices and edges of a symmetric matrix, numbered from 1."""
    from scipy.io import mmread
    from scipy.sparse import coo_array

    with reading(path, "be a matrix of MatrixMarket"):
        matrix = coo_array(mmread(path))
    n_given = matrix.nnz
    matrix.sum_duplicates()
    if matrix.nnz < n_given:
        raise InputError(f"{path} must hold each entry once, got some twice")
    n, other = matrix.shape
    is_square = n == other and matrix.dtype.kind in "buif"
    if not is_square or (matrix.tocsr() != matrix.T.tocsr()).nnz:
        raise InputError(
            f"{path} must be a symmetric matrix of numbers, for a graph without "
            f"directions, got {n} x {other} of {matrix.dtype}"
        )
    weights = matrix.data.astype(float)
    if not np.isfinite(weights).all():
        raise InputError(f"{path} must hold finite weights, got NaN or infinity")
    found = zip(matrix.row.tolist(), matrix.col.tolist(), weights, strict=True)
    edges = [(0, str(i + 1), str(j + 1), float(w)) for i, j, w in found if i <= j]
    return [str(k + 1) for k in range(n)], edges, "MatrixMarket, weights as it has them"


def _graphml(path: str | Path) -> tuple[list[str], list[_Edge], str]:
    with reading(path, "be GraphML"):
        graph = import_networkx().read_graphml(path)
    if graph.is_directed() or graph.is_multigraph():
        raise InputError(
            f"{path} must hold a graph without directions and double edges, "
            f"got a {type(graph).__name__}"
        )
    edges: list[_Edge] = []
    for first, second, about in graph.edges(data=True):
        weight = about.get("weight", 1.0)
        if not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise InputError(
                f"{path} must hold finite weights, got {str(weight)[:30]!r} "
                f"at {first!r} and {second!r}"
            )
        edges.append((0, str(first), str(second), float(weight)))
    has_weights = any("weight" in about for *_, about in graph.edges(data=True))
    told = "weights from weight" if has_weights else "all of weight 1"
    return list(map(str, graph.nodes)), edges, f"GraphML, {told}"


@checked
def pairwise_graph(
    graph: Any,
    *,
    weight: float | str = 1.0,
    bias: float | str = 0.0,
    variables: Annotated[str, OneOf(VARIABLES)] = "bits",
    dtype: torch.dtype = torch.float64,
) -> PairwiseGraph:
    """Make an energy of a NetworkX graph, with one site per vertex.

    Parameters
    ----------
    graph
        A ``networkx.Graph``; site k is the k-th of ``graph.nodes``.
    weight, bias
        Of every edge and vertex, or the names of their attributes.
    variables
        "bits": -E is the sum over edges of w x_i x_j, plus b'x. "spins": that of w s_i
        s_j, plus b's, with s = 2x - 1, written in bits.
    """
    check_floating("dtype", dtype)
    check_simple_graph("graph", graph)
    weights = _attribute("weight", weight, graph.edges(data=True), dtype)
    biases = _attribute("bias", bias, graph.nodes(data=True), dtype)
    pairs = torch.tensor(edges_by_site(graph), dtype=torch.long, device="cpu")
    edges = pairs.reshape(-1, 2).T
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
        return torch.full((len(items),), float(value), dtype=dtype, device="cpu")
    numbers = []
    for *at, about in items:
        where = " and ".join(repr(vertex) for vertex in at)
        if value not in about:
            raise InputError(
                f"{name} must be an attribute, got none {value!r} at {where}"
            )
        check_range(f"{value} at {where}", about[value])
        numbers.append(float(about[value]))
    return torch.tensor(numbers, dtype=dtype, device="cpu")
