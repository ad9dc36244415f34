"""What the rows of graph problems report: shares of the optimum, drawn and judged."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results import Result

#: Shares of the optimum with DMALA that the best draw is to reach, about the paper's.
TARGETS = {
    "max-independent-set": {"16-20": 0.998, "32-40": 0.979, "64-75": 0.976},
    "max-cut": {"16-20": 0.998, "32-40": 0.999, "64-75": 0.991},
}


def refined(name: str, n_refine: int) -> str:
    """Name a flow with DMALA steps after each of its own."""
    return f"{name} + DMALA {n_refine}" if n_refine else name


def shares(result: Result, size: str, metric: str) -> list[float]:
    """Mean score over the mean optimum, a seed at a time."""
    optimum = result.scalars["optimum"][size]
    return [value / optimum for value in result.scalars["table"][size][metric]]


_LINES = {
    "DNFS + DMALA {}": ("DNFS", "o", "flow + DMALA"),
    "DMALA {}": ("DMALA", "s", "annealed DMALA"),
    "Gibbs {}": ("Gibbs", "^", "annealed Gibbs"),
}


def draw_shares(result: Result) -> Figure:
    """Draw the share of the optimum over the steps of refinement, size by size."""
    sizes = list(result.scalars["table"])
    steps = [n for n in result.config["refinements"] if n]
    aspect = 0.6 if len(sizes) == 1 else 1.3
    figure, axes = plt.subplots(
        1, len(sizes), figsize=panel_size(1, len(sizes), aspect=aspect), squeeze=False
    )
    for ax, size in zip(axes[0], sizes, strict=True):
        for name, (color, marker, label) in _LINES.items():
            for kind, style in (("", "-"), (": best", "--")):
                values = [shares(result, size, name.format(n) + kind) for n in steps]
                ax.plot(
                    steps,
                    np.mean(values, 1),
                    marker + style,
                    color=COLORS[color],
                    ms=4,
                    lw=1,
                    label=None if kind else label,
                )
        alone = float(np.mean(shares(result, size, "DNFS")))
        ax.axhline(alone, color=COLORS["DNFS"], lw=1, ls=":", label="flow alone")
        ax.axhline(1, color=COLORS["exact"], lw=1, label="optimum")
        if size in result.scalars["exact law"]:
            share = result.scalars["exact law"][size] / result.scalars["optimum"][size]
            ax.axhline(share, color=COLORS["exact"], lw=1, ls="-.", label="exact law")
        ax.set(title=f"{size} vertices", xlabel="DMALA steps a time step")
        ax.set_xticks(steps)
    axes[0, 0].set_ylabel("share of the optimum")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
    return figure


def check_shares(result: Result, *, prefix: str, table: str) -> list[Verdict]:
    """Set sizes beside the paper's, and shares of the optimum to our bounds."""
    config = result.config
    most = max(config["refinements"])
    excuse = (
        "other graphs of the same kind, whose optimum differs: compare the shares "
        "of the optimum"
    )
    if result.scale == "quick":
        excuse = "a reduced setting: fewer graphs, shorter training"
    rows = {
        "untrained DNFS": "untrained DNFS",
        "DNFS": "DNFS",
        "DMALA": f"DMALA {most}",
        "DNFS + DMALA": f"DNFS + DMALA {most}",
    }
    verdicts = []
    for size, metrics in result.scalars["table"].items():
        for row, metric in rows.items():
            mean, stderr = mean_and_stderr(metrics[metric])
            where = (f"dnfs/{config['problem']}", table, row, prefix + size)
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(metrics[metric])}
            verdicts.append(compare(*where, mean, excuse=excuse, **of))
        verdicts += _refinements(result, size, prefix + size, excuse)
        gap = np.subtract(
            shares(result, size, "DNFS"), shares(result, size, "untrained DNFS")
        )
        mean, stderr = mean_and_stderr(list(gap))
        of = {"stderr": stderr, "n_seeds": len(gap)}
        name = f"{prefix}{size}: share that training adds"
        # The null is a flow that learned nothing: it adds nothing to itself.
        verdicts.append(claim(name, mean, "at least", 0.05, null=0.0, **of))
        for steps in (0, most):
            rival = shares(result, size, f"DMALA {steps}")
            gains = [
                np.subtract(shares(result, size, refined(flow, steps)), rival)
                for flow in ("DNFS", "untrained DNFS")
            ]
            mean, of["stderr"] = mean_and_stderr(list(gains[0]))
            null, _ = mean_and_stderr(list(gains[1]))
            kind = "share of the flow alone" if not steps else "share"
            name = f"{prefix}{size}: {kind} above DMALA of as many evaluations"
            verdicts.append(claim(name, mean, "at least", 0, null=null, **of))
        # No claim of what was learned: chains alone may reach as much.
        best = shares(result, size, f"{refined('DNFS', most)}: best")
        mean, of["stderr"] = mean_and_stderr(best)
        name = f"{prefix}{size}: share of the best of {config['n_copies']} draws"
        target = TARGETS[config["problem"]][size]
        verdicts.append(claim(name, mean, "at least", target, sanity=True, **of))
    return verdicts


def _refinements(result: Result, size: str, column: str, excuse: str) -> list[Verdict]:
    """Set sizes by DMALA steps beside the paper's, where it prints any."""
    problem, name = f"dnfs/{result.config['problem']}", f"refinement on {column}"
    if name not in [table.name for table in get_fact(problem).tables]:
        return []
    verdicts = []
    for steps in (n for n in result.config["refinements"] if n):
        for row, metric in (
            ("DMALA", f"DMALA {steps}"),
            ("DNFS + DMALA", refined("DNFS", steps)),
        ):
            values = result.scalars["table"][size][metric]
            mean, stderr = mean_and_stderr(values)
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(values)}
            where = (problem, name, row, str(steps))
            verdicts.append(compare(*where, mean, excuse=excuse, **of))
    return verdicts
