"""What steps of time cost: laws and log Z of a flow of few states, by enumeration."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmtut.checks import InputError
from ebmtut.exact import exact_log_partition
from ebmtut.flows import Flow, chain_law, flow_laws, simulate_exact
from ebmtut.results.tables import Cell, Table
from ebmtut.states import enumerate_states

_METHODS = {"Euler": "euler", "tau-leaping": "tau_leaping"}
# Steps of the master equation that stand for continuous time.
_FINE = 256


def quadrature_table(flow: Flow, steps: Sequence[int]) -> Table:
    """Set log Z of a perfect flow by three quadratures of xi beside the exact one."""
    path = flow.path
    x = enumerate_states(path.n_sites).float()

    def xi(t: float) -> float:
        values = flow.terms(x, t).xi.detach().double()
        if values.max() - values.min() > 1e-4:
            raise InputError(
                f"flow must be perfect, got one whose xi spans {values.min():.3g} to "
                f"{values.max():.3g} at t = {t:g}"
            )
        return float(values.mean())

    exact = float(exact_log_partition(path.target, path.n_sites))
    exact -= path.log_partition_start
    columns: dict[str, list[Cell]] = {"steps": [*steps]}
    heads = "left sum", "predicted", "trapezoid", "midpoint"
    for head in heads:
        columns[head] = []
    for n in steps:
        ends = [xi(k / n) for k in range(n + 1)]
        middles = [xi((k + 0.5) / n) for k in range(n)]
        left = sum(ends[:-1]) / n
        rise = (ends[-1] - ends[0]) / (2 * n)
        errors = left - exact, -rise, left + rise - exact, sum(middles) / n - exact
        for head, error in zip(heads, errors, strict=True):
            columns[head].append(error)
    return Table(
        columns,
        caption=f"Error of log Z, which rises by {exact:.4f} along the path.",
        digits=2,
    )


def step_error_table(
    flow: Flow, steps: Sequence[int], *, n: int = 1000, generator: torch.Generator
) -> Table:
    """Set the error of Euler, tau-leaping and exact simulation beside their cost.

    The error is misplaced mass, half the sum of the differences of two laws; those of
    both chains are sums over all states, without noise.
    """
    path = flow.path
    x = enumerate_states(path.n_sites).float()
    target = (-path.target(x).double()).softmax(0)
    limit = flow_laws(flow, _FINE)[-1]
    rows: list[tuple[str, float, float, float]] = []
    for name, method in _METHODS.items():
        for k in steps:
            law = chain_law(flow, k, method=method)
            rows.append((name, k, _misplaced(law, limit), _misplaced(law, target)))
    run = simulate_exact(flow, n, bound=_largest_rate(flow, x), generator=generator)
    assert not run.n_exceeded
    rows.append(("exact", round(run.n_candidates), 0, _misplaced(limit, target)))
    heads = "simulation", "evaluations", "by the steps", "in all"
    return Table(
        dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True)),
        caption="Misplaced mass: against the flow in continuous time, and against "
        "the target.",
        digits=2,
    )


def _misplaced(law: Tensor, other: Tensor) -> float:
    return float((law - other).abs().sum()) / 2


def _largest_rate(flow: Flow, x: Tensor) -> float:
    """A little more than the largest total rate, out or in, of any state."""
    totals = [
        rates.detach().sum(1).max()
        for k in range(65)
        for rates in flow.terms(x, k / 64)[:2]
    ]
    return 1.1 * float(torch.stack(totals).max())
