"""Largest independent sets, with a proof, by an integer program.

OR-tools' CP-SAT where it is installed (extra `graphs`), else SciPy's HiGHS. Either
proves that nothing is better; Ou et al. (2025) used Gurobi.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
from torch import Tensor

from ebmtut.checks import InputError, Positive, check_choice, checked
from ebmtut.energies import GraphBatch

__all__ = ["Optima", "OptimumUnproved", "maximum_independent_sets"]

_Solver = Callable[[int, list[list[int]], float], "np.ndarray | None"]


class OptimumUnproved(RuntimeError):
    """The time was up before a graph's optimum was proved."""


class Optima(NamedTuple):
    """The best that there is, graph by graph.

    Attributes
    ----------
    value
        Vertices of the set, or edges of the cut.
    x
        Bits that reach it; zero at padded sites.
    """

    value: Float[Tensor, " n_graphs"]
    x: Float[Tensor, "n_graphs n_sites"]


@checked
def maximum_independent_sets(
    graphs: GraphBatch, *, solver: str | None = None, time_limit: Positive = 60
) -> Optima:
    """Largest sets of vertices without an edge between two of them.

    Parameters
    ----------
    solver
        "cp-sat", "highs", or None: CP-SAT where OR-tools is installed, else HiGHS.

    Raises
    ------
    OptimumUnproved
        If the time was up; the message names the graph.

    Examples
    --------
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.exact import maximum_independent_sets
    >>> path = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])])
    >>> maximum_independent_sets(path).x
    tensor([[1., 0., 1.]])
    """
    solve = _solver(solver)
    x = torch.zeros(len(graphs), graphs.n_sites, dtype=torch.float32, device="cpu")
    for number, (n, edges) in enumerate(edge_lists(graphs)):
        best = solve(n, edges, time_limit)
        if best is None:
            raise unproved(number, time_limit)
        x[number, :n] = torch.from_numpy(best).float()
    return Optima(x.sum(1), x)


def edge_lists(graphs: GraphBatch) -> Iterator[tuple[int, list[list[int]]]]:
    """Number of vertices and edges (i < j) of each graph."""
    for matrix, n in zip(graphs.adjacency, graphs.n_vertices.tolist(), strict=True):
        yield n, torch.triu(matrix).nonzero().tolist()


def unproved(number: int, time_limit: float) -> OptimumUnproved:
    """Return the error that names a graph."""
    return OptimumUnproved(
        f"the optimum of graph {number} was not proved within {time_limit} s"
    )


def _solver(name: str | None) -> _Solver:
    solvers: dict[str, _Solver] = {"cp-sat": _cp_sat, "highs": _highs}
    installed = importlib.util.find_spec("ortools") is not None
    if name is None:
        name = "cp-sat" if installed else "highs"
    check_choice("solver", name, tuple(solvers))
    if name == "cp-sat" and not installed:
        raise InputError("solver 'cp-sat' needs OR-tools: pip install 'ebmtut[graphs]'")
    return solvers[name]


def _cp_sat(n: int, edges: list[list[int]], time_limit: float) -> np.ndarray | None:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    bits = [model.new_bool_var(f"x{i}") for i in range(n)]
    for i, j in edges:
        model.add_bool_or(~bits[i], ~bits[j])
    model.maximize(sum(bits))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    # One worker is deterministic, and as quick on graphs of this size.
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        return None
    return np.array([solver.value(bit) for bit in bits], dtype=float)


def _highs(n: int, edges: list[list[int]], time_limit: float) -> np.ndarray | None:
    rows = np.repeat(np.arange(len(edges)), 2)
    ends = np.array(edges, dtype=int).flatten()
    matrix = csr_array((np.ones(len(ends)), (rows, ends)), shape=(len(edges), n))
    found = milp(
        -np.ones(n),
        constraints=LinearConstraint(matrix, -np.inf, 1) if edges else None,
        integrality=np.ones(n),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit},
    )
    return found.x.round() if found.status == 0 else None
