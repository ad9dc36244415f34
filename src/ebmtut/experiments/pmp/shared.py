"""What the experiments share: differences of scores, curves, timed learning."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from ebmtut.experiments.experiment import Runs
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.losses.loops import LoopMaker
from ebmtut.metrics import mmd
from ebmtut.plotting import COLORS
from ebmtut.results import Result
from ebmtut.training import CpuClock, ResumableLoop

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Scores of one method: by number of sweeps, one per seed.
Scores = Mapping[int, Sequence[float]]


def lead(theirs: Scores, ours: Scores, at: int) -> tuple[float, float | None]:
    """Mean difference of two methods' scores over the seeds, and its standard error.

    A single seed has an error, too, that of sampling: half the mean square step from
    one number of sweeps to the next, which a trend only makes larger.
    """
    both = zip(theirs[at], ours[at], strict=True)
    mean, stderr = mean_and_stderr([a - b for a, b in both])
    if stderr is None and len(ours) > 1:
        stderr = math.hypot(_scatter(theirs), _scatter(ours))
    return mean, stderr


def _scatter(scores: Scores) -> float:
    curve = [float(np.mean(scores[k])) for k in sorted(scores)]
    return float(np.sqrt(np.mean(np.diff(curve) ** 2) / 2))


def log_mmd2(samples: Tensor, x: Tensor) -> float:
    """Natural logarithm of the V-statistic with the average Hamming kernel."""
    return math.log(mmd(samples, x, kernel="average_hamming", statistic="v"))


def baseline(result: Result, of: Callable[[str], float | None]) -> Result:
    """Give every method the scores of a baseline: those that ``of`` has a value for."""
    table = {
        method: {
            name: seeds if (value := of(name)) is None else [value] * len(seeds)
            for name, seeds in row.items()
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


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


def timed_loop(
    checkpoint: Path | None,
    config: "DataclassInstance",
    clock: CpuClock,
    *,
    generator: torch.Generator,
    **which: Any,
) -> LoopMaker:
    """Make loops that continue where a time limit stopped them; they keep the clock."""
    return partial(
        ResumableLoop,
        checkpoint,
        {"config": asdict(config), **which},
        generator=generator,
        buffers={"seconds": clock.seconds},
    )
