"""Stored measurements of speed: growth beside a peer and a floor, a flow's steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.plotting import OKABE_ITO, figure_size, part_rows
from ebmtut.results import benchmarks_root
from ebmtut.results.tables import Cell, Table

_COLORS = {"ours": OKABE_ITO["blue"], "floor": OKABE_ITO["black"]}


def load_report(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Load what a program in ``benchmarks/`` stored."""
    folder = folder or benchmarks_root()
    report: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return report


def load_growth(folder: Path | None = None) -> dict[str, Any]:
    """Load what ``benchmarks/growth.py`` stored."""
    return load_report("growth", folder)


def step_table(report: dict[str, Any]) -> Table:
    """Tabulate a flow's steps of training and of time."""
    rows = report["rows"]
    first = {row["network"]: row for row in reversed(rows)}
    ratios = [
        (first[row["network"]][f"{what} ms"] / row[f"{what} ms"])
        for row in rows
        for what in ("step", "rollout")
    ]
    columns: dict[str, list[Cell]] = {
        "network": [row["network"] for row in rows],
        "code": [row["party"] for row in rows],
        "parameters": [row["parameters"] for row in rows],
        "step [ms]": [_digits(row["step ms"]) for row in rows],
        "times as fast": list(ratios[0::2]),
        "of a rollout [ms]": [_digits(row["rollout ms"]) for row in rows],
        "as fast": list(ratios[1::2]),
    }
    whole = [row.get("64 steps s") for row in rows]
    if any(seconds is not None for seconds in whole):
        columns["64 steps [s]"] = whole
    return Table(
        columns,
        caption=f"CPU ms of one step; {report['batch']} states of {report['sites']} "
        f"sites, medians of {report['rounds']} rounds. "
        f"Measured on {report['provenance']['device']}.",
        digits=3,
    )


def discrepancy_table(report: dict[str, Any]) -> Table:
    """Tabulate a step of training by energy discrepancy."""
    rows = report["rows"]
    (notebook,) = [r for r in rows if r["variant"].startswith("official")]
    setting = report["setting"]
    columns: dict[str, list[Cell]] = {
        "code": [row["variant"] for row in rows],
        "step [ms]": [row["step_ms"] for row in rows],
        "times as fast": [notebook["step_ms"] / row["step_ms"] for row in rows],
        "products alone [ms]": [row["gemm_floor_ms"] for row in rows],
    }
    return Table(
        columns,
        caption=f"A step of {setting['batch']} data with {setting['n_negatives']} "
        f"negatives each; medians of {setting['repeats']} rounds. "
        f"Measured on {report['provenance']['device']}.",
        digits=3,
    )


def _digits(value: float) -> float:
    """Whole numbers, where three digits leave nothing behind the point."""
    return round(value) if value >= 100 else value


def growth_table(report: dict[str, Any], operation: str) -> Table:
    """Tabulate one operation."""
    found = report["operations"][operation]
    rows, power = found["rows"], found["exponents"]
    columns: dict[str, list[Any]] = {
        "size": [*(str(row["size"]) for row in rows), "exponent"]
    }
    for name, exponent in power.items():
        times = [1e6 * row["seconds"][name] for row in rows]
        columns[f"{name} [µs]"] = [*times, exponent]
    peer = found["peer"]
    if peer in power:
        ratios = [r["seconds"][peer] / r["seconds"]["ours"] for r in rows]
        columns[f"{peer} over ours"] = [*ratios, None]
    for name in (name for name in power if name != "floor"):
        columns[f"{name} [MiB]"] = [*(round(r["MiB"][name]) for r in rows), None]
    return Table(
        columns,
        caption=f"{operation}. Size: {found['size is']}. Floor: {found['floor is']}. "
        f"MiB: grown by at most. Measured on {found['provenance']['device']}.",
    )


def draw_growth(report: dict[str, Any]) -> Figure:
    """Draw time against size, a panel an operation, with quartiles."""
    operations = report["operations"]
    width, height = figure_size("full")
    n_rows = -(-len(operations) // 2)
    figure, axes = plt.subplots(n_rows, 2, figsize=(width, 0.75 * n_rows * height))
    for ax in axes.flat[len(operations) :]:
        ax.remove()
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
        ax.set_ylabel("CPU time [µs]")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        low, high = ax.get_ylim()
        ax.set_ylim(low, 6 * high)  # room for the legend
        ax.legend(title="exponent")
    part_rows(figure)
    return figure
