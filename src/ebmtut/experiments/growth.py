"""The stored measurement of growth: time beside a peer and a floor, size by size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.plotting import OKABE_ITO, figure_size
from ebmtut.results import default_root
from ebmtut.results.tables import Table

__all__ = ["draw_growth", "growth_table", "load_growth"]

_COLORS = {"ours": OKABE_ITO["blue"], "floor": OKABE_ITO["black"]}


def load_growth(folder: Path | None = None) -> dict[str, Any]:
    """Load what ``benchmarks/growth.py`` stored.

    Parameters
    ----------
    folder
        Where ``growth.json`` lies; by default the repository's own results.

    Returns
    -------
    report
        The operations' rows and exponents, the processor and the provenance.
    """
    folder = folder or default_root().parent / "benchmarks" / "results"
    report: dict[str, Any] = json.loads((folder / "growth.json").read_text("utf-8"))
    return report


def growth_table(report: dict[str, Any], operation: str) -> Table:
    """Tabulate one operation.

    Parameters
    ----------
    report
        From `load_growth`.
    operation
        One of its operations.

    Returns
    -------
    table
        Microseconds of an iteration or a sweep, medians, and the peer's over
        ours.
    """
    found = report["operations"][operation]
    peer, rows, power = found["peer"], found["rows"], found["exponents"]
    ours = [1e6 * row["seconds"]["ours"] for row in rows]
    theirs = [1e6 * row["seconds"][peer] for row in rows]
    floor = [1e6 * row["seconds"]["floor"] for row in rows]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return Table(
        {
            "size": [*(str(row["size"]) for row in rows), "exponent"],
            "ours [us]": [*ours, power["ours"]],
            f"{peer} [us]": [*theirs, power[peer]],
            "floor [us]": [*floor, power["floor"]],
            f"{peer} over ours": [*ratios, None],
        },
        caption=f"{operation}. Size: {found['size is']}. Floor: {found['floor is']}.",
    )


def draw_growth(report: dict[str, Any]) -> Figure:
    """Draw time against size, a panel an operation, with quartiles.

    Parameters
    ----------
    report
        From `load_growth`.
    """
    operations = report["operations"]
    width, height = figure_size("full")
    figure, axes = plt.subplots(2, 2, figsize=(width, 1.5 * height))
    for ax, (operation, found) in zip(axes.flat, operations.items(), strict=False):
        sizes = [row["size"] for row in found["rows"]]
        for name, power in found["exponents"].items():
            middle = [1e6 * row["seconds"][name] for row in found["rows"]]
            low, high = zip(*(r["quartiles"][name] for r in found["rows"]), strict=True)
            color = _COLORS.get(name, OKABE_ITO["orange"])
            style = ":" if name == "floor" else "-"
            ax.plot(sizes, middle, style, color=color, label=f"{name}, {power:.1f}")
            ax.fill_between(
                sizes,
                [1e6 * x for x in low],
                [1e6 * x for x in high],
                color=color,
                alpha=0.25,
                linewidth=0,
            )
        ax.set(xscale="log", yscale="log", title=operation)
        ax.set_xlabel(found["size is"])
        ax.set_ylabel("CPU time [us]")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.legend(title="exponent")
    return figure
