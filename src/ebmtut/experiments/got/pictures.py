"""Tables and drawings that only the pages of this chapter show."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.experiments.got.coupling_1d import methods_of
from ebmtut.experiments.got.lines import SIDES, Method
from ebmtut.experiments.got.wnmf import in_pixels, sharpness
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.plotting import COLORS, image_grid, plain_log
from ebmtut.results import Cell, Result, Table, load_result
from ebmtut.transport import ExactOT

_N_LEVELS = 4000


def draw_duality(
    x: Tensor, y: Tensor, p: Tensor, q: Tensor, cost: Tensor, solved: ExactOT
) -> Figure:
    """Draw the mass that moves, and beside it the slack of every pair."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.6, 2.6))
    price = solved.g[:, None] - solved.h
    middle: Any = {"ha": "center", "va": "center"}
    right.matshow(cost - price < 1e-9, cmap="Blues", vmax=2)
    for i, j in (solved.plan >= 0).nonzero().tolist():
        mass = float(solved.plan[i, j])
        if mass > 0:
            left.plot([x[i], y[j]], [1, 0], color="#9ecae1", lw=20 * mass, zorder=1)
        text = f"{cost[i, j]:.0f} − {price[i, j]:.0f}".replace("− -", "+ ")
        right.text(j, i, text, **middle)
    for at, level, masses, name in ((x, 1, p, "p"), (y, 0, q, "q")):
        left.scatter(at, [level] * len(at), s=1100 * masses, c=SIDES[name], zorder=3)
        left.text(min(x.min(), y.min()) - 1.1, level, name, va="center")
        for place, mass in zip(at.tolist(), masses.tolist(), strict=True):
            left.text(place, 1.5 * level - 0.25, f"{mass:.1f}", **middle)
    left.margins(0.25)
    left.axis("off")
    right.set_xticks(range(len(y)), [f"{j + 1}" for j in range(len(y))])
    right.set_yticks(range(len(x)), [f"{i + 1}" for i in range(len(x))])
    right.set(xlabel="hole", ylabel="heap", title="slack: cost − price")
    return figure


def quantile_barycentre(x: Tensor, given: Tensor) -> Tensor:
    """Return the distribution whose quantile function is the mean of those given.

    The mass of a point is spread evenly over its cell of [0, 1].
    """
    edges = np.linspace(0, 1, len(x) + 1)
    levels = np.linspace(0, 1, _N_LEVELS + 1)
    below = torch.nn.functional.pad(given.cumsum(1), (1, 0)).numpy()
    quantiles = np.mean([np.interp(levels, row / row[-1], edges) for row in below], 0)
    return torch.from_numpy(np.diff(np.interp(edges, quantiles, levels))).to(x)


def draw_barycentre(x: Tensor, given: Tensor, found: Tensor) -> Figure:
    """Draw what was learned over the given distributions and their barycentre."""
    figure, ax = plt.subplots(figsize=(4.6, 2.5))
    for row in given:
        ax.fill_between(x, row, color="#DDDDDD", lw=0)
        top = int(row.argmax())
        at_top = float(x[top]), float(row[top])
        ax.text(*at_top, "given", c="#777777", ha="center", va="bottom")
    exact = quantile_barycentre(x, given)
    ax.plot(x, exact, "--", color=COLORS["exact"], zorder=3)
    ax.plot(x, found, color=COLORS["Gibbs-OT"], lw=3)
    top = int(exact.argmax())
    for name, at, height in (
        ("learned", "Gibbs-OT", 0.92),
        ("exact\nbarycentre", "exact", 0.65),
    ):
        place = float(x[top]) - 0.08, height * float(exact[top])
        ax.text(*place, name, c=COLORS[at], ha="right", va="center")
    ax.set(xlabel="position x", ylabel="mass", ylim=(0, 1.15 * float(given.max())))
    return figure


def draw_problem(x: Tensor, p: Tensor, q: Tensor) -> Figure:
    """Draw two distributions on a line."""
    figure, ax = plt.subplots(figsize=(4.6, 2.0))
    for name, mass in (("p", p), ("q", q)):
        ax.fill_between(x, mass, color=SIDES[name], alpha=0.5, lw=0)
        top = int(mass.argmax())
        at = float(x[top]), float(mass[top])
        ax.text(*at, name, c=SIDES[name], ha="center", va="bottom")
    top_mass = float(torch.stack([p, q]).max())
    ax.set(xlabel="position x", ylabel="mass", ylim=(0, 1.15 * top_mass))
    return figure


def oracle_study() -> Result:
    """Return what `studies/got/oracles.py` has stored."""
    return load_result("got/oracles", "full", Path(__file__).parents[4] / "studies")


def draw_fives(study: Result) -> Figure:
    """Draw images above their models and components, by different gradients."""
    rows = {"images": "images"}
    for name, method in study.config["methods"].items():
        rows[f"{name}/models"] = f"{name}, {method['budgets'][-1]} epochs"
        rows[f"{name}/components"] = f"{name}, its eight components"
    figure, axes = plt.subplots(len(rows), 1, figsize=(4.6, 5.6))
    for ax, (key, title) in zip(axes, rows.items(), strict=True):
        images = study.arrays[key]
        image_grid(ax, images, 8, vmin=0, vmax=255)
        title += f": {sharpness(torch.from_numpy(images))['support']:.0f} pixels"
        color = COLORS.get(key.split("/")[0], "k")
        ax.set_title(title, color=color, fontsize=10, pad=2)
    return figure


def oracle_points(study: Result) -> dict[str, np.ndarray]:
    """List CPU seconds, root of the mean cost in pixels and its error, per method.

    Seconds are the epochs of a run times the median CPU time of an epoch, which other
    work on the machine disturbs little.
    """
    points = {}
    for name, cells in study.scalars["table"].items():
        every = [t for cell in cells.values() for t in cell["epoch_seconds"]]
        epoch = float(np.median(every))
        rows = []
        for n, cell in cells.items():
            cost = np.sqrt(cell["cost"])
            error = cost.std(ddof=1) / len(cost) ** 0.5 if len(cost) > 1 else 0.0
            rows.append([int(n), int(n) * epoch, cost.mean(), error])
        points[name] = np.array(rows)
    return points


def draw_oracles(study: Result) -> Figure:
    """Draw the exact cost of learned models over the CPU time of their learning."""
    figure, ax = plt.subplots(figsize=(4.6, 3.4))
    low, high = 1.1, 1.65
    for name, rows in oracle_points(study).items():
        epochs, seconds, cost, error = rows.T
        color = COLORS[name]
        ax.errorbar(seconds, cost, error, fmt="o-", color=color, capsize=3)
        first = min(k for k in range(len(rows)) if cost[k] < high)
        for k, (n, at) in enumerate(zip(epochs, cost, strict=True)):
            text = f"{name}, {n:.0f} epochs" if k == first else f"{n:.0f}"
            how: dict[str, Any] = {"color": color, "textcoords": "offset points"}
            how["fontsize"] = 10
            if at > high:  # the line leaves the axis
                text, at = f"↑ {n:.0f} epochs: {at:.2f}", high - 0.02
                how |= {"xytext": (-20, 0), "ha": "right"}
                ax.annotate(text, (seconds[first], at), **how)
            else:
                above = (6 * (k > first) - 4, 10), "left" if k == first else "center"
                how["xytext"], how["ha"] = ((8, -4), "left") if first else above
                ax.annotate(text, (seconds[k], at), **how)
    plain_log(ax.xaxis)
    ax.set(xlabel="CPU seconds of the learning", xlim=(0.2, 90), ylim=(low, high))
    ax.set_ylabel("root of transport cost, pixels")
    return figure


def draw_budgets(result: Result, falling: Mapping[int, tuple[float, float]]) -> Figure:
    """Draw what potentials and plans of Sinkhorn and Gibbs-OT (k = 2) are worth.

    `falling` has the gap and the excess cost of Sinkhorn with a falling epsilon, in
    percent, for each number of iterations.
    """
    shown = ("Sinkhorn", "Gibbs-OT")
    methods = [m for m in methods_of(result.config) if m.solver in shown]
    table = result.scalars["table"]
    figure, axes = plt.subplots(1, 2, figsize=(4.6, 3.6), sharex=True)
    styles = dict(zip(result.config["epsilons"], ("-", "--", ":"), strict=False))
    ends: list[dict[str, tuple[float, str]]] = [{}, {}]
    for method in (m for m in methods if m.parameter != 4.0):  # one power of Gibbs-OT
        row, color = table[method.key], COLORS[method.solver]
        entropic = method.solver == "Sinkhorn"
        line = styles[method.parameter] if entropic else "-"
        label = f"ε = {method.parameter:g}/N" if entropic else "Gibbs-OT"
        for ax, metric, end in zip(axes, ("dual", "excess"), ends, strict=True):
            if all(metric in cell for cell in row.values()):
                n = [int(budget) for budget in row]
                found = [mean_and_stderr(cell[metric]) for cell in row.values()]
                mean = [100 * m for m, _ in found]
                error = [100 * (e or 0) for _, e in found]
                ax.errorbar(n, mean, error, marker="o", ms=3, color=color, ls=line)
                end[label] = mean[-1], color
    color = COLORS["Sinkhorn"]
    for k, (ax, end) in enumerate(zip(axes, ends, strict=True)):
        values = [both[k] for both in falling.values()]
        ax.plot([*falling], values, "s-", ms=4, lw=2, color=color)
        end["falling ε"] = values[-1], color
    for ax, title, end in zip(
        axes, ("potentials: duality gap, %", "plan: excess cost, %"), ends, strict=True
    ):
        ax.set(xscale="log", yscale="log", xlabel="iterations", title=title)
        ax.set(xlim=(0.7, 6e5), xticks=[1, 10, 100, 1000])
        ax.set_xticklabels(["1", "10", "100", "1000"])
        ax.minorticks_off()
        label_ends(ax, max(int(n) for n in next(iter(table.values()))), end)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def label_ends(ax: Axes, x: float, ends: Mapping[str, tuple[float, str]]) -> None:
    """Name curves at their right ends on a logarithmic axis, a line of text apart."""
    lowest = 0.0
    for label, (y, color) in sorted(ends.items(), key=lambda item: item[1][0]):
        lowest = max(y, 1.6 * lowest)
        ax.text(1.5 * x, lowest, label, c=color, va="center")


def budgets_table(
    result: Result,
    methods: Iterable[Method],
    metric: str,
    caption: str = "",
    *,
    percent: bool = False,
) -> Table:
    """Write one number: a budget per row, a method that has it per column."""
    unit = 100 if percent else 1
    table = result.scalars["table"]
    columns: dict[str, list[Cell]] = {"iterations": [*next(iter(table.values()))]}
    for method in methods:
        if all(found := [cell.get(metric) for cell in table[method.key].values()]):
            columns[method.label] = [
                mean_and_stderr([unit * value for value in values]) for values in found
            ]
    return Table(columns, caption=caption)


#: When each rule stops a chain, and what is missing then.
stops_table = Pivot(
    head="T",
    rows={"{T}/N": "stopping/{T}"},
    columns={
        "paper's rule stops at": "mixed_at",
        "gap [%]": "mixed_error",
        "settled at": "settled_at",
        "then gap [%]": "settled_error",
        "certified [%]": "settled_gap",
    },
    factors=dict.fromkeys(("gap [%]", "then gap [%]", "certified [%]"), 100),
    caption="Iteration at which each rule stops, and the relative duality gap then; "
    "means of {n_seeds} chains",
)


bands_table = Pivot(
    head="iterations",
    rows={"{n}": "table/{n}"},
    columns={"in the bands [%]": "inside", "duality gap [%]": "dual"},
    factors={"in the bands [%]": 100, "duality gap [%]": -100},
    caption="Samples in the bands, and relative duality gap",
)


def draw_course(result: Result) -> Figure:
    """Draw the exact cost of the model over the epochs, beside other methods' costs."""
    epoch, _, _, cost, *_ = result.arrays["looks"].T
    figure, ax = plt.subplots(figsize=(5.2, 2.8))
    ax.plot(epoch, in_pixels(cost, result), "o-", color=COLORS["Gibbs-OT"])
    ax.text(epoch[-1], 0.80, "Gibbs-OT", color=COLORS["Gibbs-OT"], ha="right")
    for method in ("NMF", "smoothed W-NMF"):
        level = in_pixels(result.scalars["methods"][method]["cost"], result)
        ax.axhline(level, ls="--", color=COLORS[method])
        ax.text(epoch[-1], level + 0.03, method, color=COLORS[method], ha="right")
    ax.set(xlabel="epoch", ylabel="root of transport cost, pixels", ylim=(0.7, 2.1))
    return figure


def factors_table(results: Mapping[str, Result]) -> Table:
    """Write transport cost and time of each method, for several sets of images."""
    methods = [*next(iter(results.values())).scalars["methods"]]
    columns: dict[str, list[Cell]] = {"method": [*methods]}
    for name, result in results.items():
        rows = result.scalars["methods"].values()
        costs: list[Cell] = []
        for row in rows:
            pixels = float(in_pixels(row["cost"], result))
            costs.append((pixels, pixels * row["stderr"] / row["cost"] / 2))
        columns[f"{name}: cost [pixels]"] = costs
        columns[f"{name}: CPU s"] = [row["seconds"] for row in rows]
    return Table(
        columns,
        caption="Root of the mean exact transport cost with its standard error over "
        "the images that were solved, and CPU seconds of the learning",
    )


def shapes_table(result: Result) -> Table:
    """Write how concentrated and how rough the components of each method are."""
    methods = result.scalars["methods"]
    return Table(
        {
            "method": [*methods],
            "cost [1e-3]": [
                (1e3 * row["cost"], 1e3 * row["stderr"]) for row in methods.values()
            ],
            "support": [round(row["support"]) for row in methods.values()],
            "variation": [row["variation"] for row in methods.values()],
        },
        caption="Exact transport cost in units of the side squared; support in pixels",
    )


def timing_table(result: Result, budgets: tuple[int, ...]) -> Table:
    """Write what the potentials lack after some budgets, and what they cost."""
    rows = [row for row in result.scalars["rows"] if row["budget"]]
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        smoothing = f", ε = {row['smoothing']:g}" if row["smoothing"] else ""
        name = f"{row['method']}{smoothing}, {row['start']}"
        found.setdefault(name, {})[row["budget"]] = row
    names, last = sorted(found), budgets[-1]
    columns: dict[str, list[Cell]] = {"iterations": [*names]}
    columns |= {
        f"{b}": [100 * found[name][b]["error"] for name in names] for b in budgets
    }
    columns[f"ms for {last}"] = [round(1e3 * found[n][last]["seconds"]) for n in names]
    n = result.scalars["epoch"]["n_problems"]
    return Table(
        columns,
        caption=f"Relative duality gap of {n} problems after so many iterations, "
        "percent, and CPU time of all together",
    )
