"""Which method when: curves of `studies/comparison`, their figures and tables."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.plotting.colors import OKABE_ITO
from ebmtut.random import make_generator
from ebmtut.results import Result, load_result

STUDIES = Path(__file__).parents[3] / "studies"
#: Stored problems: file, and the name on the page.
SAMPLING = {
    "sampling-lattice-01": "lattice, 0.1",
    "sampling-lattice-critical": "lattice, 0.22",
    "sampling-lattice-03": "lattice, 0.3",
    "sampling-digits": "digits",
    "sampling-strip-1": "2D glass, 1",
    "sampling-strip-2": "2D glass, 2",
    "sampling-two-modes": "two modes",
    "sampling-spin-glass": "spin glass",
    "sampling-independent-sets": "sets",
    "sampling-rbm": "RBM",
    "sampling-network": "network",
}
LEARNING = {
    "learning-couplings-critical": "couplings, lattice",
    "learning-digits": "RBM, digits",
    "learning-bars": "RBM, bars",
    "learning-16-bits-checkerboard": "16 bits, checkerboard",
    "learning-16-bits-pinwheel": "16 bits, pinwheel",
    "learning-32-bits-2spirals": "32 bits, two spirals",
    "learning-32-bits-pinwheel": "32 bits, pinwheel",
    "learning-plane-checkerboard": "plane, checkerboard",
    "learning-plane-pinwheel": "plane, pinwheel",
}
#: The same with equally many evaluations, for which settings were tuned.
BY_EVALUATIONS = {
    file.replace("learning-", "learning-by-evaluations-"): name
    for file, name in LEARNING.items()
}
#: Where the recipe of the page was followed, and the stored problem of samplers.
RECIPE = {file.replace("sampling-", "recipe-"): file for file in SAMPLING}
RECIPE |= {"recipe-hidden": "hidden mode"}
#: Names of columns that must be short to stand beside each other on a telephone.
COLUMNS = {
    "DMALA": "DMA-\nLA",
    "tempering": "tem-\npering",
    "ratio matching": "ratio\nm.",
    "score matching": "score\nm.",
    "recovery": "recov-\nery",
    "ED-Bern": "ED-\nBern",
    "ED-Grid": "ED-\nGrid",
    "ED-Gauss": "ED-\nGauss",
    "baseline": "base-\nline",
}
#: What a method asks for or gives, by which the widget filters.
ASKS = {
    "values": "need no gradient",
    "gradient": "need values or gradients",
    "log Z": "estimate log Z",
    "no chains": "need no chains",
}


class Method(NamedTuple):
    """Colour, marker, line style, and the `ASKS` that a method meets."""

    color: str
    marker: str
    style: str = "-"
    asks: tuple[str, ...] = ()


#: Colours that Okabe and Ito's do not have. PMP is not blue as on other pages, where it
#: stands beside neither the flow nor ED-Bern.
WINE, INDIGO, BROWN = "#882255", "#332288", "#8C510A"
METHODS: Mapping[str, Method] = {
    "Gibbs": Method(COLORS["Gibbs"], "o", asks=("values", "gradient")),
    "GWG": Method(COLORS["GWG"], "s", asks=("gradient",)),
    "DMALA": Method(COLORS["DMALA"], "^", asks=("gradient",)),
    "tempering": Method(OKABE_ITO["vermillion"], "D", asks=("values", "gradient")),
    "AIS": Method(OKABE_ITO["purple"], "v", asks=("values", "gradient", "log Z")),
    "SMC": Method(OKABE_ITO["black"], "P", asks=("values", "gradient", "log Z")),
    "PMP": Method(WINE, "X", "--"),
    "flow": Method(COLORS["DNFS"], "*", asks=("log Z",)),
    "ED-Bern": Method(COLORS["ED-Bern"], "o", asks=("gradient", "no chains")),
    "ED-Gauss": Method(INDIGO, "p", asks=("gradient", "no chains")),
    "ED-Grid": Method(COLORS["ED-Grid"], "d", asks=("gradient", "no chains")),
    "PL": Method(COLORS["PL"], ">", asks=("gradient", "no chains")),
    "ratio matching": Method(OKABE_ITO["green"], "h", "--", ("gradient", "no chains")),
    "score matching": Method(BROWN, "8", "--", ("gradient", "no chains")),
    "recovery": Method(OKABE_ITO["sky blue"], "^", asks=("gradient",)),
    "CD": Method(COLORS["CD"], "<", asks=("gradient",)),
    "PCD": Method(OKABE_ITO["black"], "s", asks=("gradient",)),
}
COSTS = {"seconds": "CPU seconds", "evaluations": "energy evaluations"}
#: What the widget adds to the name of a method.
UNCOUNTED = {"flow": " (training not counted)"}
#: Labels of the errors by their stored names.
MEASURES = {
    "energy": "energy error [sd]",
    "energy and spin": "energy + spin error [sd]",
    "pairs": "RMSE of products",
    "log Z": "error of log Z [nats]",
    "RMSE of the couplings": "RMSE of couplings",
    "NLL of held-out digits [nats]": "NLL of digits [nats]",
    "KL to the data [nats]": "KL to the data [nats]",
}
#: An error within this factor of that of exact samples counts as arrived.
NEAR = 2.0
#: Costs within this factor count as equal.
EQUAL = 2.0
#: Up to so many bits all states are enumerated at about the cost of sampling.
FEW_BITS = 18


class Curve(NamedTuple):
    """Cost and error of a method: median, lowest and highest over the runs."""

    cost: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray


def load(files: Iterable[str], root: Path = STUDIES) -> dict[str, Result]:
    """Load the stored problems."""
    return {file: load_result(f"comparison/{file}", "full", root) for file in files}


def curve(
    result: Result, method: str, cost: str, error: str | None = None
) -> Curve | None:
    """Return a method's curve; None where it was not run or has no such cost."""
    if method not in result.arrays:
        return None
    columns = list(result.scalars["columns"])
    runs = result.arrays[method].astype(float)
    x = np.median(runs[:, :, columns.index(cost)], 0)
    y = runs[:, :, columns.index(error or result.scalars["shown"])]
    kept = np.isfinite(x) & np.isfinite(y).all(0)
    if not kept.any():
        return None
    y = y[:, kept].clip(1e-12)
    return Curve(x[kept], np.median(y, 0), y.min(0), y.max(0))


def training(result: Result) -> dict[str, float]:
    """Mean cost of training the flow, in the units of the axes."""
    spent = np.mean(result.scalars["methods"]["flow"]["training"], axis=0)
    return dict(zip(COSTS, map(float, spent), strict=True))


def spin_glass(n: int = 18, strength: float = 3.0) -> BoltzmannMachine:
    """Dense spin glass without fields: couplings N(0, strength^2 / n) of each pair."""
    coupling = strength * torch.randn(n, n, generator=make_generator(7)) / n**0.5
    coupling = coupling.triu(1)
    return BoltzmannMachine.from_ising(Ising((coupling + coupling.T) / 2))


def _measure(result: Result) -> str:
    """Label the error of a problem."""
    return MEASURES[result.scalars.get("measure", result.scalars["shown"])]


def _per(result: Result) -> str:
    """Say what evaluations are counted for: only problems of losses name a measure."""
    return "in total" if "measure" in result.scalars else "per sample"


def _panel(
    ax: Axes,
    result: Result,
    cost: str,
    error: str | None = None,
) -> None:
    """Draw all methods over one cost, with the baseline and exact samples."""
    shown = error or result.scalars["shown"]
    for kind, values in result.scalars["references"].items():
        if values.get(shown) is not None:
            style = "-" if kind == "exact" else ":"
            ax.axhline(values[shown], color="#888888", ls=style, lw=1.2, zorder=0)
    for name in result.scalars["methods"]:
        found = curve(result, name, cost, error)
        if found is None:
            continue
        color, marker, style, _ = METHODS[name]
        line: Any = {"color": color, "label": name, "marker": marker, "ms": 4}
        if len(found.cost) == 1:  # a point alone must stand out of the lines
            line |= {"ms": 10, "mec": "white", "mew": 1.2, "zorder": 5}
        ax.plot(found.cost, found.error, style, **line)
        ax.fill_between(found.cost, found.low, found.high, color=color, alpha=0.1)
        if name == "flow":
            total = found.cost + training(result)[cost]
            ax.plot(total, found.error, marker, color=color, ms=7, mfc="white")
    ax.set(xscale="log", yscale="log")
    _label_decades(ax)


def _label_decades(ax: Axes) -> None:
    """Label powers of ten, and between them where an axis has fewer than two."""
    low, high = ax.get_ylim()
    if high < 2.5 * low:
        ax.set_yscale("linear")
        return
    told = "2345" if high < 10 * low else "25" if high < 100 * low else ""
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in told else ""
    )


def _legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """Draw one legend of all lines below the panels."""
    known: dict[str, Any] = {}
    for ax in axes:
        lines, labels = ax.get_legend_handles_labels()
        known |= dict(zip(labels, lines, strict=True))
    figure.legend(known.values(), known.keys(), ncol=2, loc="outside lower center")


#: Narrower than the text, so that labels are legible on a telephone.
WIDTH = 0.6 * TEXT_WIDTH


def draw(
    results: Mapping[str, Result],
    error: str | None = None,
    by_evaluations: Mapping[str, Result] | None = None,
) -> Figure:
    """Draw a row for each problem and a column for each cost, with one legend.

    ``by_evaluations`` has the runs of the second column, if they are others.
    """
    of: Any = {"sharey": "row", "sharex": "col", "squeeze": False}
    n, size = len(results), (WIDTH, 2.1 * len(results) + 1.2)
    figure, axes = plt.subplots(n, len(COSTS), figsize=size, **of)
    names = SAMPLING | LEARNING
    others = (by_evaluations or results).values()
    for row, (file, result), other in zip(axes, results.items(), others, strict=True):
        for ax, cost, of_cost in zip(row, COSTS, (result, other), strict=True):
            _panel(ax, of_cost, cost, error)
        row[0].set_title(names.get(file, file), loc="left")
        row[0].set_ylabel(MEASURES[error] if error else _measure(result))
    evaluations = f"evaluations {_per(next(iter(results.values())))}"
    for ax, cost in zip(axes[-1], COSTS, strict=True):
        ax.set_xlabel(evaluations if cost == "evaluations" else COSTS[cost])
        if cost == "seconds":
            ax.xaxis.set_major_formatter("{x:g}")
    _legend(figure, axes[:, 0])
    return figure


def cost_to_arrive(
    result: Result, method: str, cost: str, near: float = NEAR
) -> float | None:
    """Return the cost from which on the error stays near that of exact samples.

    Between two runs the error follows a power of the cost.
    """
    goal = near * result.scalars["references"]["exact"][result.scalars["shown"]]
    found = curve(result, method, cost)
    if found is None or found.error[-1] > goal:
        return None
    far = np.flatnonzero(found.error > goal)
    if not len(far):
        return float(found.cost[0])
    k = far[-1]
    share = np.log(found.error[k] / goal) / np.log(found.error[k] / found.error[k + 1])
    return float(found.cost[k] * (found.cost[k + 1] / found.cost[k]) ** share)


def _arrivals(
    results: Mapping[str, Result], methods: Sequence[str], cost: str
) -> np.ndarray:
    """Tell what each method (column) spends until it is near, infinite if never."""
    return np.array(
        [
            [cost_to_arrive(r, m, cost) or np.inf for m in methods]
            for r in results.values()
        ]
    )


def draw_arrivals(results: Mapping[str, Result]) -> Figure:
    """Draw what each sampler spends until it is near, darkest where that is least.

    Grey, after ">", is what one spent that is not near. Below a line are energies whose
    states can be enumerated.
    """
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 7.6))
    large = sum(r.scalars["n_sites"] > FEW_BITS for r in results.values())
    titles = ("milliseconds for 1,000 samples", "evaluations per sample")
    for ax, cost, title in zip(axes, COSTS, titles, strict=True):
        methods = _methods(results, cost)
        spent = _arrivals(results, methods, cost)
        factor = spent / spent.min(1, keepdims=True)
        _shaded(
            ax,
            np.where(np.isinf(factor), np.nan, np.log10(factor)),
            np.array([[_told(r, m, cost) for m in methods] for r in results.values()]),
            factor <= EQUAL,
            [SAMPLING[file] for file in results],
            [COLUMNS.get(method, method) for method in methods],
        )
        ax.set_title(title, loc="left")
        ax.axhline(large - 0.5, color="#333333", lw=1.5)
    return figure


def draw_recipe(
    results: Mapping[str, Result], sampling: Mapping[str, Result]
) -> Figure:
    """Draw how the recipe ended: medians over the seeds; errors in blue are near.

    The cost is that of all its runs over that of one run of SMC that reaches the
    target, in evaluations; errors are in units of that of exact samples.
    """
    columns = ("steps", "cost", "rise", "error\nSMC", "error\nGibbs", "agree")
    texts, shade = [], np.full((len(results), len(columns)), np.nan)
    for file, row in zip(results, shade, strict=True):
        result = results[file]
        name, runs = RECIPE[file], result.arrays["recipe"][:, 0].astype(float)
        of = dict(zip(result.scalars["columns"], np.median(runs, axis=0), strict=True))
        unit = result.scalars["references"]["exact"][result.scalars["measure"]]
        one = name in sampling and cost_to_arrive(sampling[name], "SMC", "evaluations")
        errors = of["error"] / unit, of["Gibbs error"] / unit
        row[3:5] = [1.0 if error <= NEAR else np.nan for error in errors]
        cost = f"{of['evaluations'] / one:.0f}" if one else ""
        told = [f"{of['steps']:.0f}", cost, f"{of['rise']:z.1f}"]
        agree = f"{runs[:, -2].sum():.0f}/{len(runs)}"
        texts.append([*told, *map(_digits, errors), agree])
    figure, ax = plt.subplots(figsize=(WIDTH, 4.4))
    names = [SAMPLING.get(name, name) for name in RECIPE.values()]
    _shaded(ax, shade, np.array(texts), shade > np.inf, names, columns)
    return figure


def draw_ends(results: Mapping[str, Result]) -> Figure:
    """Draw the last error of each loss, for models of bits and of the plane.

    Errors of couplings are in thousandths. Darkest is the lowest of a model. Bold are
    the lowest median and those that are not distinguishable from it: either median is
    within the range of the other's runs.
    """
    kinds = [
        {f: r for f, r in results.items() if ("plane" in f) == plane}
        for plane in (False, True)
    ]
    kinds = [kind for kind in kinds if kind]
    of: Any = {"height_ratios": [0.8 + len(kind) for kind in kinds], "squeeze": False}
    height = 0.42 * len(results) + 0.7 * len(kinds)
    figure, axes = plt.subplots(len(kinds), 1, figsize=(WIDTH, height), **of)
    for ax, kind in zip(axes[:, 0], kinds, strict=True):
        _draw_ends(ax, kind)
    return figure


def _draw_ends(ax: Axes, results: Mapping[str, Result]) -> None:
    """Draw a row for each model and a column for each loss, and the baselines."""
    methods = _methods(results)
    found = [[_end(result, m) for m in methods] for result in results.values()]
    base = [r.scalars["references"]["baseline"]["error"] for r in results.values()]
    unit = np.array([[1000.0 if "couplings" in file else 1.0] for file in results])
    error, low, high = np.moveaxis(np.array(found), 2, 0)
    least = np.nanmin(error, axis=1, keepdims=True)
    best = np.take_along_axis(high, np.nanargmin(error, axis=1)[:, None], 1)
    worst = np.nanmax(error, axis=1, keepdims=True)
    blank = np.full_like(error[:, :1], np.nan)
    written = np.vectorize(_written)
    _shaded(
        ax,
        np.hstack([2 * np.log(error / least) / np.log(worst / least), blank]),
        np.hstack([written(unit * error), written(unit * np.array(base)[:, None])]),
        np.hstack([(error <= best) & (low <= least), blank > 0]),
        [(LEARNING | BY_EVALUATIONS)[file].replace(", ", ",\n") for file in results],
        [COLUMNS.get(name, name) for name in (*methods, "baseline")],
    )


def _end(result: Result, method: str) -> list[float]:
    """Return the median, lowest and highest error at the end."""
    found = curve(result, method, "seconds")
    if found is None:
        return [np.nan] * 3
    return [float(of[-1]) for of in (found.error, found.low, found.high)]


def _methods(results: Mapping[str, Result], cost: str = "seconds") -> list[str]:
    """Name the methods that have a curve over this cost for any of the problems."""
    return [m for m in METHODS if any(curve(r, m, cost) for r in results.values())]


def _told(result: Result, method: str, cost: str) -> str:
    """Write the cost until a method is near, or after ">" what it spent in vain."""
    if found := cost_to_arrive(result, method, cost):
        return _spent(cost, found)
    run = curve(result, method, cost)
    return f">{_spent(cost, run.cost[-1])}" if run else ""


def _spent(cost: str, spent: float) -> str:
    """Write milliseconds or a count, in thousands or millions where it is large."""
    value = 1000 * spent if cost == "seconds" else spent
    if value < 1e3:
        return _digits(value)
    return f"{_digits(value / 1e3)}k" if value < 1e6 else f"{_digits(value / 1e6)}M"


def _written(error: float) -> str:
    """Write the error of a loss, if there is one."""
    if np.isnan(error):
        return ""
    return f"{error:.1f}" if error > 10 else _digits(error)


def _digits(value: float) -> str:
    """Write two digits, or all before the point."""
    return f"{value:#.2g}" if value < 10 else f"{value:.0f}"


def _shaded(
    ax: Axes,
    shade: np.ndarray,
    texts: np.ndarray,
    bold: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """Draw a table whose entries are darker the nearer their shade, to 2, is to 0."""
    # Never so dark that black is hard to read.
    ax.imshow(shade, cmap="Blues_r", vmin=-2.2, vmax=2.2, aspect="auto")
    for (row, column), text in np.ndenumerate(texts):
        weight = "bold" if bold[row, column] else "normal"
        size = 12 if len(text) < 4 else 11 if len(text) < 5 else 9.5
        kind: Any = {"ha": "center", "va": "center", "fontsize": size, "weight": weight}
        if text.startswith(">"):
            kind |= {"fontsize": 8, "color": "#555555"}
        ax.text(column, row, text, **kind)
    ax.set_xticks(range(len(columns)), columns, fontsize=9)
    ax.set_yticks(range(len(rows)), rows, fontsize=12)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def filters(results: Mapping[str, Result]) -> dict[str, str]:
    """Return the `ASKS` that some method of these problems meets."""
    met = {asked for name in _methods(results) for asked in METHODS[name].asks}
    return {asked: words for asked, words in ASKS.items() if asked in met}


def explorer_curves(
    results: Mapping[str, Result], by_evaluations: Mapping[str, Result] | None = None
) -> list[dict[str, Any]]:
    """Return what the widget draws, a dictionary for each problem.

    ``by_evaluations`` has the runs over evaluations, if they are others.
    """
    names, problems = SAMPLING | LEARNING, []
    others = (by_evaluations or results).values()
    for (file, result), other in zip(results.items(), others, strict=True):
        shown, methods = result.scalars["shown"], []
        of_cost = {"seconds": result, "evaluations": other}
        for name in result.scalars["methods"]:
            found = {cost: curve(of_cost[cost], name, cost) for cost in COSTS}
            points = {
                cost: [[_short(v) for v in row] for row in zip(*c, strict=True)]
                for cost, c in found.items()
                if c is not None
            }
            color, _, style, asks = METHODS[name]
            kind = {"name": name + UNCOUNTED.get(name, ""), "color": color}
            kind |= {"dashed": style != "-"}
            methods.append(kind | {"asks": list(asks), "points": points})
        lines = {
            kind: _short(values[shown])
            for kind, values in result.scalars["references"].items()
            if values.get(shown) is not None
        }
        told = {"name": names.get(file, file), "measure": _measure(result)}
        told |= {"per": _per(result)}
        problems.append(told | {"lines": lines, "methods": methods})
    return problems


def _short(value: float) -> float:
    return float(f"{value:.4g}")
