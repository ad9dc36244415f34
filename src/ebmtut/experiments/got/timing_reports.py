"""Figure, table and verdicts of the oracles' time and error."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result

__all__ = ["GIBBS", "SINKHORN", "check_timing", "draw_timing", "timing_table"]

GIBBS, SINKHORN = "Gibbs-OT", "Sinkhorn"
_LINES = {"warm": "-", "warm, cooled": "--", "cold": ":", "cold, cooled": "-."}


def draw_timing(result: Result) -> Figure:
    """Draw error against time, warm and cold, with the exact solver's time."""
    figure, ax = plt.subplots(figsize=figure_size("full"))
    rows = [row for row in result.scalars["rows"] if row["budget"]]
    markers = ("o", "s", "^", "v")
    smoothings = sorted({row["smoothing"] for row in rows})
    for marker, smoothing in zip(markers, smoothings, strict=False):
        for start, line in _LINES.items():
            of = [
                r for r in rows if r["smoothing"] == smoothing and r["start"] == start
            ]
            if not of:
                continue
            method = of[0]["method"]
            name = method if method == GIBBS else f"{method}, ε = {smoothing:g}"
            ax.plot(
                [1e3 * r["seconds"] for r in of],
                [r["error"] for r in of],
                line + marker,
                color=COLORS[method],
                label=f"{name}, {start}",
                alpha=1.0 if smoothing == smoothings[-1] or not smoothing else 0.5,
            )
    exact = 1e3 * result.scalars["epoch"]["exact_seconds"]
    ax.axvline(exact, color=COLORS["exact"], label="network simplex, error 0")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"CPU time for {result.scalars['epoch']['n_problems']} problems, ms",
        ylabel="1 − feasible dual / exact",
    )
    ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def timing_table(result: Result, budgets: tuple[int, ...]) -> str:
    """Write time and error of some budgets, and of an epoch with its updates."""
    epoch = result.scalars["epoch"]
    lines = [f"CPU ms and error for {epoch['n_problems']} problems"]
    for row in result.scalars["rows"]:
        if row["budget"] in budgets:
            smoothing = f" {row['smoothing']:g}" if row["smoothing"] else ""
            lines.append(
                f"{row['method'] + smoothing + ', ' + row['start']:24}"
                f"{row['budget']:4} iterations {1e3 * row['seconds']:7.0f} ms"
                f" {row['error']:.3f}"
            )
    ratio = epoch["exact_seconds"] / epoch["seconds"]
    lines.append(
        f"epoch with its updates {1e3 * epoch['seconds']:.0f} ms, exact solutions "
        f"{1e3 * epoch['exact_seconds']:.0f} ms: {ratio:.0f} times"
    )
    return "\n".join(lines)


def check_timing(result: Result) -> list[Verdict]:
    """An epoch against exact solutions, and a warm start against cold ones."""
    epoch = result.scalars["epoch"]
    error = {
        (r["start"], r["budget"]): r["error"]
        for r in result.scalars["rows"]
        if r["method"] == GIBBS
    }
    budget = max(b for _, b in error if b <= 20)
    verdicts = [
        claim(
            f"error of {budget} iterations: warm over {start}",
            error["warm", budget] / error[start, budget],
            "at most",
            1.0,
        )
        for start in ("cold", "cold, cooled")
    ]
    if result.scale != "quick":
        verdicts.append(
            claim(
                "exact solutions' time over an epoch's",
                epoch["exact_seconds"] / epoch["seconds"],
                "at least",
                50.0,
            )
        )
    return verdicts
