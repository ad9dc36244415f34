"""What the experiments share: baselines, reduced problems and curves."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from ebmtut.experiments.experiment import Runs, with_cells
from ebmtut.plotting import COLORS
from ebmtut.results import Result


def baseline(result: Result, of: Callable[[str], float | None]) -> Result:
    """Give every method the scores of a baseline: those that ``of`` has a value for."""

    def scores(row: Mapping[str, Sequence[float]], method: str) -> dict[str, Any]:
        known = {name: of(name) for name in row}
        return {k: [v] * len(row[k]) for k, v in known.items() if v is not None}

    return with_cells(result, scores)


def parts(runs: Runs) -> tuple[Runs, Runs]:
    """Split runs into those of the whole problem and those of the reduced one."""
    small = {names: found for names, found in runs.items() if names[0] == "reduced"}
    return {names: runs[names] for names in runs if names not in small}, small


def draw_curves(
    ax: Axes,
    curves: Mapping[str, Mapping[int, float]],
    levels: Mapping[str, tuple[str, float]],
    dashed: Collection[str] = (),
) -> None:
    """Draw scores over sweeps by method, and levels by their label and colour."""
    for name, curve in curves.items():
        style = "--" if name in dashed else "-"
        x, y = [*curve], [*curve.values()]
        ax.plot(x, y, style, marker="o", ms=3, color=COLORS.get(name), label=name)
    for label, (color, level) in levels.items():
        ax.axhline(level, color=COLORS[color], lw=1, label=label)


def log_ticks(ax: Axes, values: Sequence[int]) -> None:
    """Put the x axis on a logarithmic scale that names just these values."""
    ax.set_xscale("log")
    ax.set_xticks(values, [str(value) for value in values])
    ax.minorticks_off()
