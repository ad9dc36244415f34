"""What V, the dual value and the plan tell of a chain, and when rules stop it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ebmtut.experiments.got.lines import LineProblem
from ebmtut.random import make_generator
from ebmtut.results import Table
from ebmtut.transport import (
    GibbsOTTrace,
    Plan,
    constant_temperatures,
    gibbs_ot,
    has_mixed,
    has_settled,
    relative_gap,
)

__all__ = ["first_stop", "levels_table", "plans_table", "stopping_table"]

_LONGEST = 3000


def levels_table(traces: Mapping[str, GibbsOTTrace], optimum: float) -> Table:
    """Write where V and the dual value settle: their means over a trace's second half.

    Parameters
    ----------
    traces
        By temperature.
    optimum
        The transport cost.
    """

    def level(values: Tensor) -> float:
        return 100 * (float(values[len(values) // 2 :].mean()) / optimum - 1)

    return Table(
        {
            "temperature": [*traces],
            "V(U, L) [%]": [level(trace.V) for trace in traces.values()],
            "dual value [%]": [level(trace.dual) for trace in traces.values()],
        },
        caption="Mean difference from the cost, at equilibrium",
    )


def plans_table(
    plans: Mapping[str, Plan], exact: Float[Tensor, "m1 m2"], lacks: float
) -> Table:
    """Write how far plans that were recovered from prices are from the exact one.

    Parameters
    ----------
    plans
        By the way that they were recovered.
    exact
        The best plan.
    lacks
        By how much the dual value of the same prices is below the cost, as a share.
    """
    away = [float((plan.coupling - exact).abs().sum()) for plan in plans.values()]
    return Table(
        {
            "L1 distance of": [*plans],
            "the plan": away,
            "its margins": [plan.marginal_error for plan in plans.values()],
        },
        caption="From the exact ones, at most 2. The prices of the same chain lack "
        f"{100 * lacks:.3f} %",
    )


def first_stop(values: Tensor, stops: Iterable[bool]) -> tuple[int, float]:
    """Iteration of the first stop, and the value there; the last if there is none."""
    when = next((t for t, stop in enumerate(stops) if stop), len(values) - 1)
    return when + 1, float(values[when])


def stopping_table(
    problem: LineProblem,
    optimum: float,
    temperatures: Sequence[float],
    n_seeds: int,
    seed: int,
) -> dict[str, dict[str, list[float]]]:
    """Try the paper's rule and ours at constant temperatures.

    Parameters
    ----------
    problem
        From a cold start.
    optimum
        The transport cost.
    temperatures
        In units of 1 / N.
    n_seeds, seed
        Chains, and the first one's seed.

    Returns
    -------
    table
        By temperature, lists over the seeds: ``mixed_at`` and ``settled_at``,
        the iterations at which the paper's rule and the settled dual value
        stop; ``mixed_error`` and ``settled_error``, what the best dual value
        so far then lacks, relative to the cost; ``settled_gap``, what can be
        certified of it there, from the chain's own plan made feasible;
        ``overshoot``, by how much V exceeds the cost at equilibrium.
    """
    _, p, q, cost = problem
    table: dict[str, dict[str, list[float]]] = {}
    for temperature in temperatures:
        T = temperature / len(p)
        cell: dict[str, list[Any]] = {}
        for k in range(n_seeds):
            trace = gibbs_ot(
                p,
                q,
                cost,
                constant_temperatures(T, _LONGEST),
                trace_every=1,
                generator=make_generator(seed + k),
            ).trace
            assert trace is not None
            best = trace.dual.cummax(0).values
            ends = range(1, _LONGEST + 1)
            rules = {
                "mixed": (has_mixed(trace.V[:t], T) for t in ends),
                "settled": (has_settled(trace.dual[:t]) for t in ends),
            }
            for name, stops in rules.items():
                at, value = first_stop(best, stops)
                cell.setdefault(f"{name}_at", []).append(at)
                cell.setdefault(f"{name}_error", []).append(1 - value / optimum)
            end = gibbs_ot(
                p,
                q,
                cost,
                constant_temperatures(T, cell["settled_at"][-1]),
                generator=make_generator(seed + k),
            )
            gap = relative_gap(p, q, cost, end.U, end.L, temperature=T)
            cell.setdefault("settled_gap", []).append(gap)
            level = float(trace.V[-500:].mean())
            cell.setdefault("overshoot", []).append(level / optimum - 1)
        table[f"{temperature:g}"] = cell
    return table
