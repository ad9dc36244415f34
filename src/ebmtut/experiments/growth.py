"""Stored measurements of speed: growth beside a peer and a floor, a flow's steps."""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.plotting import OKABE_ITO, figure_size, part_rows
from ebmtut.results import Cell, Table, benchmarks_root

_COLORS = {"ours": OKABE_ITO["blue"], "floor": OKABE_ITO["black"]}
# What the page calls an operation, and the size at which its table shows it.
_SIDES = "{0}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{0}"
_SHOWN = {
    "Gibbs-OT": ("transport on a line†", 1024),
    "Gibbs-OT, plane": ("transport in a square†", 1024),
    "Gibbs, one coupling": ("Gibbs, one coupling", 64),
    "Gibbs, any couplings": ("Gibbs, a coupling per edge", 64),
    "Gibbs, one chain": ("Gibbs, a single chain", 64),
    "max-product, lattice": ("max-product on a lattice", 25),
}
# Rows of `benchmarks/gpu_rates.py` and what the page calls them.
_ON_GPU = {
    "PMP dense 900": "max-product, 900 sites, all pairs",
    "PMP RBM 784x500": "max-product, RBM of 784 and 500 units",
    "PMP edges 25x25": f"max-product, lattice {_SIDES.format(25)}",
    "PMP edges 128x128": f"max-product, lattice {_SIDES.format(128)}",
    "Gibbs lattice 25x25, 100 chains": f"Gibbs, 100 chains, {_SIDES.format(25)}",
    "Gibbs lattice 2048x2048, 64 chains": f"Gibbs, 64 chains, {_SIDES.format(2048)}",
    "Gibbs graph 262144 sites, 64 chains": "Gibbs, a coupling per edge, 64 chains, "
    f"{_SIDES.format(512)}",
    "min-plus separable, 1024 images of 4096": "transport between 1,024 images of "
    f"{_SIDES.format(64)}",
    "min-plus dense 2048, 64 problems": "transport, 2,048 points, 64 problems",
}


def load_report(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Load what a program in ``benchmarks/`` stored."""
    folder = folder or benchmarks_root()
    report: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return report


def speed_table(growth: dict[str, Any], discrepancy: dict[str, Any]) -> Table:
    """Tabulate the time of each program and of the package, at one size each."""
    rows: list[tuple[str, str, float, float]] = []
    for operation, (name, size) in _SHOWN.items():
        found = growth["operations"][operation]
        (row,) = [row for row in found["rows"] if row["size"] == size]
        peer, seconds = found["peer"], row["seconds"]
        rows.append((name, peer, seconds[peer], seconds["ours"]))
    steps = {row["variant"]: row["step_ms"] / 1e3 for row in discrepancy["rows"]}
    for kind, mark in (("float32", ""), ("bfloat16", "†")):
        times = (steps["official, float32"], steps["ours, " + kind])
        rows.append((f"energy discrepancy, {kind}{mark}", "authors' notebook", *times))
    return Table(
        {
            "operation": [row[0] for row in rows],
            "other program": [row[1] for row in rows],
            "its time": [_time(row[2]) for row in rows],
            "ebmtut": [_time(row[3]) for row in rows],
            "factor": [float(f"{row[2] / row[3]:.2g}") for row in rows],
        },
        caption="CPU time of one iteration, sweep or training step, on one core; a "
        "dagger marks unlike work. Transport has 1,024 points, Gibbs sampling 64 "
        f"chains or one on {_SIDES.format(64)} sites, max-product 100 perturbations on "
        f"{_SIDES.format(25)} sites. Measured on {growth['processor']}.",
    )


def gpu_table(report: dict[str, Any]) -> Table:
    """Tabulate how many times as fast as plain torch the kernels for a GPU are."""
    rates = {row["name"]: row for row in report["rows"]}
    rows = [rates[key] for key in _ON_GPU]
    return Table(
        {
            "operation": list(_ON_GPU.values()),
            "factor": [float(f"{row['kernel'] / row['torch']:.2g}") for row in rows],
        },
        caption="How many times as fast as plain PyTorch a kernel is, its start "
        "included; max-product has 100 perturbations. Between two runs, short calls "
        f"differ by up to 40 percent. Measured on one {report['device']}.",
    )


def _time(seconds: float) -> str:
    """Write a time with two significant digits and its unit."""
    units = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
    scale, unit = next((s, u) for s, u in units if s * seconds >= 1 or u == "µs")
    value = float(f"{scale * seconds:.2g}")
    return f"{value:.{int(value < 10)}f}\N{NO-BREAK SPACE}{unit}"


def step_table(report: dict[str, Any]) -> Table:
    """Tabulate a flow's steps of training and of time."""
    rows = report["rows"]
    first = {row["network"]: row for row in reversed(rows)}
    steps, rollouts = (
        [first[row["network"]][of] / row[of] for row in rows]
        for of in ("step ms", "rollout ms")
    )
    columns: dict[str, list[Cell]] = {
        "network": [row["network"] for row in rows],
        "code": [_program(row["party"]) for row in rows],
        "parameters": [row["parameters"] for row in rows],
        "step [ms]": [_digits(row["step ms"]) for row in rows],
        "times as fast": steps,
        "of a rollout [ms]": [_digits(row["rollout ms"]) for row in rows],
        "times as fast, rollout": rollouts,
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
        "code": [_program(row["variant"]) for row in rows],
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


def _program(name: str) -> str:
    """Name a program as the page does: the package by its own name."""
    return name.replace("ours", "ebmtut")


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
        columns[f"{_program(name)} [µs]"] = [*times, exponent]
    peer = found["peer"]
    if peer in power:
        ratios = [r["seconds"][peer] / r["seconds"]["ours"] for r in rows]
        columns["times as fast"] = [*ratios, None]
    for name in (name for name in power if name != "floor"):
        memory = [round(r["MiB"][name]) for r in rows]
        columns[f"{_program(name)} [MiB]"] = [*memory, None]
    return Table(
        columns,
        caption=f"{operation}. Size: {found['size is']}. Floor: {found['floor is']}. "
        f"MiB: memory at most. Measured on {found['provenance']['device']}.",
    )


def draw_ratios(report: dict[str, Any]) -> Figure:
    """Draw how many times as fast as its peer each operation is, over the sizes."""
    figure, ax = plt.subplots(figsize=(3.8, 4.0))
    for place, (operation, (name, _)) in enumerate(_SHOWN.items()):
        found = report["operations"][operation]
        peer, rows = found["peer"], found["rows"]
        ratios = [row["seconds"][peer] / row["seconds"]["ours"] for row in rows]
        ax.plot(ratios, [place] * len(rows), "o-", color=OKABE_ITO["blue"], linewidth=1)
        ax.plot(ratios[0], place, "o", color=OKABE_ITO["blue"], mfc="white")
        sizes = f"{rows[0]['size']} to {rows[-1]['size']}"
        label = f"{name.rstrip('†')}, beside {peer}: {sizes}"
        ax.text(2.1, place - 0.4, label, va="center")
    ax.set_ylim(len(_SHOWN) - 0.5, -0.8)
    ax.set(xscale="log", xlim=(2, 400), xlabel="times as fast", yticks=[])
    ax.set_xticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
    ax.minorticks_off()
    ax.grid(axis="x")
    return figure


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
            label = f"{_program(name)}, {power:.1f}"
            ax.plot(sizes, middle, style, color=color, label=label)
            band = ([1e6 * x for x in end] for end in (low, high))
            ax.fill_between(sizes, *band, color=color, alpha=0.25, linewidth=0)
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
