"""Row dnfs/ebm-table (Tables 2 and 3): likelihoods of energy and sampler."""

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import ebm_training
from ebmtut.plotting import COLORS
from ebmtut.results import Result

#: Between marks of one density, so that none hides another.
_APART = 0.11


def draw_scores(result: Result) -> Figure:
    """Draw the likelihood below the entropy, of energies, flow, bound and null."""
    table: dict[str, dict[str, Any]] = result.scalars["table"]
    figure, ax = plt.subplots(figsize=(4.8, 3.6))
    marks = [
        ("DNFS", "KL", "energy", "o", COLORS["DNFS"]),
        ("DNFS", "flow KL", "flow", "s", COLORS["LEAPS"]),
        ("DNFS", "flow bound", "flow, bound", "^", COLORS["LEAPS"]),
        ("EB-GFN", "KL", "energy, EB-GFN", "D", COLORS["EB-GFN"]),
        ("DNFS", "null KL", "independent bits", "_", COLORS["null"]),
    ]
    for place, (method, key, label, mark, color) in enumerate(marks):
        for k, cell in enumerate(table.get(method, {}).values()):
            # A noisy bound may lie below zero.
            values = [v if v > 0 else math.nan for v in cell[key]]
            name = label if k == 0 else None
            at = [k + _APART * (place - len(marks) // 2)] * len(values)
            ax.plot(at, values, mark, ls="none", color=color, label=name)
    densities = list(table["DNFS"])
    ax.set_xticks(range(len(densities)), densities, rotation=30, ha="right")
    ax.tick_params(labelsize=9)
    ax.set_ylabel("KL from the data [nats]", fontsize=10)
    ax.set_yscale("log")
    figure.legend(ncols=2, loc="outside lower center", fontsize=9)
    return figure


EXPERIMENT = replace(
    ebm_training.EXPERIMENT,
    id="dnfs/ebm-table",
    title="Likelihoods of energy and sampler",
    figure=draw_scores,
)
