"""Figures and verdicts of relearned graphs."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.experiments.pmp.chains import (
    CHAINS,
    Work,
    equal_sweeps,
    work,
)
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results import Result

__all__ = ["check_structured", "draw_structured", "structured_table"]

_LABELS = {"log_mmd2": "log MMD²", "rmse": "RMSE of J"}
_AMOUNTS = {"reset": "sweeps", "persistent": "single-site updates a step"}


def draw_structured(result: Result) -> Figure:
    """Draw a row of panels for each graph: both metrics, in both ways of learning."""
    table = result.scalars["table"]
    panels = [(mode, metric) for mode in _AMOUNTS for metric in _LABELS]
    figure, axes = plt.subplots(
        len(table),
        len(panels),
        figsize=panel_size(len(table), len(panels), aspect=1.1, title=0.5),
        squeeze=False,
    )
    for line, (graph, modes) in zip(axes, table.items(), strict=True):
        for ax, (mode, metric) in zip(line, panels, strict=True):
            _panel(ax, modes[mode], metric)
            ax.set_title(f"{graph}, {mode}", fontsize=7)
            ax.set_ylabel(_LABELS[metric], fontsize=7)
            ax.set_xlabel(_AMOUNTS[mode], fontsize=7)
            ax.tick_params(labelsize=6)
    axes[0, 0].legend(fontsize=5.5)
    return figure


def _panel(ax: Axes, rows: dict[str, dict], metric: str) -> None:
    amounts = [int(amount) for amount in next(iter(rows.values()))]
    for method, row in rows.items():
        values = [np.mean(cell[metric]) for cell in row.values()]
        ax.plot(amounts, values, "o-", ms=2.5, color=COLORS[method], label=method)
    cell = next(iter(next(iter(rows.values())).values()))
    ax.axhline(
        np.mean(cell[f"null_{metric}"]), color=COLORS["null"], lw=1, label="null"
    )
    if metric == "log_mmd2":
        level = np.mean(cell["data_log_mmd2"])
        ax.axhline(level, color=COLORS["exact"], lw=1, label="fresh data")
    ax.set_xscale("log")
    ax.set_xticks(amounts, [str(amount) for amount in amounts])
    ax.minorticks_off()


def check_structured(result: Result) -> list[Verdict]:
    """PMP is ahead of chains that make as few sweeps, or take as long.

    "Ahead" is meant over the whole axis: the mean difference over its points.
    """
    verdicts = []
    for graph, modes in result.scalars["table"].items():
        for mode, rows in modes.items():
            ours = _mean_over_axis(rows["PMP"])
            for method in (m for m in rows if not m.startswith("PMP")):
                ahead = _mean_over_axis(rows[method]) - ours
                name = f"{graph}, {mode}: mean log MMD^2 of {method} minus PMP's"
                verdicts.append(claim(name, ahead, "at least", 0.0))
    return verdicts


def structured_table(result: Result) -> str:
    """Tabulate means over the axis, and what its last point computed."""
    head = f"{'':16}log MMD2    RMSE  updates  energies  messages CPU"
    lines = [f"{head}\n{'':32}{'of the last point, 1e9':>27}"]
    for graph, modes in result.scalars["table"].items():
        for mode, rows in modes.items():
            lines.append(f"{graph}, {mode}")
            for method, row in rows.items():
                amount, last = [*row.items()][-1]
                counts = _work_of_learning(result, graph, mode, method, int(amount))
                error = np.mean([np.mean(cell["rmse"]) for cell in row.values()])
                lines.append(
                    f"  {method:14}{_mean_over_axis(row):8.2f}{error:9.4f}"
                    + "".join(f" {count / 1e9:8.3g}" for count in counts)
                    + f" {np.mean(last['seconds']):.1f} s"
                )
    return "\n".join(lines)


def _work_of_learning(
    result: Result, graph: str, mode: str, method: str, amount: int
) -> Work:
    config = result.config
    n = config["n_nodes"] if graph == "random graph" else config["side"] ** 2
    n_chains, n_sweeps = config["n_chains"], float(amount)
    if mode == "persistent":
        n_chains = config["n_chains_persistent"]
        n_sweeps = amount / n if method in CHAINS else equal_sweeps(amount, n)
    pairs = n * (n - 1) / 2
    return work(method, n_chains * config["n_steps"], n_sweeps, n, n_pairs=pairs)


def _mean_over_axis(row: dict[str, dict]) -> float:
    return float(np.mean([np.mean(cell["log_mmd2"]) for cell in row.values()]))
