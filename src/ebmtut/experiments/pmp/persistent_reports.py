"""Figure and verdicts of persistent PMP."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, DENSITY_CMAP, panel_size
from ebmtut.results import Result

__all__ = [
    "check_persistent",
    "draw_persistent",
    "mean_curve",
    "persistent_table",
]

_MARKERS = "os^Dv"


def mean_curve(
    result: Result, size: str, way: str, metric: str = "error"
) -> dict[int, float]:
    """Mean of a metric over the seeds, by sweeps a step."""
    rows = result.scalars["table"][size][way]
    return {int(k): float(np.mean(row[metric])) for k, row in rows.items()}


def draw_persistent(result: Result) -> Figure:
    """Draw the error of the moments over the cost: fresh samples, and learning's own.

    A row is a size. Small marks are single seeds.
    """
    table = result.scalars["table"]
    figure, axes = plt.subplots(
        len(table), 2, figsize=panel_size(len(table), 2, aspect=0.8), squeeze=False
    )
    for (size, ways), line in zip(table.items(), axes, strict=True):
        kept = [way for way in ways if way != "PMP"]
        shades = plt.get_cmap(DENSITY_CMAP)(np.linspace(0.9, 0.1, len(kept)))
        colors = {"PMP": COLORS["PMP"], **dict(zip(kept, shades, strict=True))}
        for ax, metric in zip(line, ("error", "own error"), strict=True):
            for place, (way, rows) in enumerate(ways.items()):
                cost = [np.mean(row["updates"]) for row in rows.values()]
                curve = mean_curve(result, size, way, metric)
                is_pmp = way == "PMP"
                marker = "s" if is_pmp else _MARKERS[place % len(_MARKERS)]
                label = "PMP" if is_pmp else way.replace("rho=", "ρ = ")
                style = {
                    "color": colors[way],
                    "marker": marker,
                    "zorder": 3 if is_pmp else 2,
                }
                ax.plot(
                    cost,
                    curve.values(),
                    "-" if is_pmp else "--",
                    lw=2 if is_pmp else 1,
                    ms=4,
                    label=label,
                    **style,
                )
                for at, row in zip(cost, rows.values(), strict=True):
                    seeds = row[metric]
                    if len(seeds) > 1:
                        ax.plot([at] * len(seeds), seeds, ls="", ms=2, **style)
            first = next(iter(ways["PMP"].values()))
            for name in ("data", "null"):
                level = np.mean(first[f"{name} error"])
                text = "data" if name == "data" else "independent bits"
                ax.axhline(level, color=COLORS[name], lw=1, ls=":", label=text)
            ax.set(xscale="log", yscale="log", xlabel="message updates of learning")
        line[0].set_ylabel(f"{size} spins: error of moments")
    n_sweeps = result.config["judged_sweeps"]
    axes[0, 0].set_title(f"fresh PMP samples, {n_sweeps} sweeps", fontsize=9)
    axes[0, 1].set_title("samples of learning's own sampler", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, fontsize=7, ncol=4, loc="outside lower center", frameon=False
    )
    return figure


def check_persistent(result: Result) -> list[Verdict]:
    """What kept noise is for, and what it costs.

    With one sweep a step, noise that is kept nearly wholly learns better than
    fresh noise. Frozen noise is learned by heart: with many sweeps it is worse.
    """
    verdicts = []
    for size in result.scalars["table"]:
        pmp = mean_curve(result, size, "PMP")
        few, many = min(pmp), max(pmp)
        kept = mean_curve(result, size, "rho=0.99")[few]
        frozen = mean_curve(result, size, "rho=1")[many]
        verdicts.append(
            claim(
                f"{size} spins, {few} sweep(s) a step: error with fresh noise "
                "over that at rho = 0.99",
                pmp[few] / kept,
                "at least",
                1.0,
                n_seeds=result.config["n_seeds"],
            )
        )
        verdicts.append(
            claim(
                f"{size} spins, {many} sweeps a step: error with frozen noise "
                "over that with fresh noise",
                frozen / pmp[many],
                "at least",
                1.0,
                n_seeds=result.config["n_seeds"],
            )
        )
    return verdicts


def persistent_table(result: Result) -> str:
    """Tabulate the errors by what walks, a column for each number of sweeps."""
    lines = []
    for size, ways in result.scalars["table"].items():
        sweeps = mean_curve(result, size, "PMP")
        lines.append(f"{size} spins" + "".join(f"{k:>8}" for k in sweeps) + " sweeps")
        for way in ways:
            errors = mean_curve(result, size, way).values()
            lines.append(f"{way:8}" + "".join(f"{error:8.3f}" for error in errors))
    return "\n".join(lines)
