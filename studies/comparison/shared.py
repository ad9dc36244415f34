"""What sampling and learning share: tuning on another seed, curves, storing."""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebmtut.results import (
    Result,
    ResultNotFound,
    collect_provenance,
    load_result,
    save_result,
)
from ebmtut.results.provenance import git_commit

FOLDER = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
TUNING_SEED = 100
#: Options by name, and the values that tuning tries.
Grid = Mapping[str, Sequence[Any]]


def settings(grid: Grid) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a grid."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def tuned(
    run: Callable[[dict[str, Any], int], np.ndarray],
    grid: Grid,
    column: int,
    beyond: str = "",
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], float | None]]]:
    """Choose the setting with the lowest last error on the seed for tuning.

    The rule is the same for all methods: one run of each setting at the whole budget;
    the mean logarithm of the errors at the last two points decides. Where the best
    value of the option ``beyond`` is the lowest or the highest, the next value by the
    factor of the grid is tried, until it is neither.
    """
    waiting = list(settings(grid))
    if len(waiting) == 1:
        return waiting[0], []
    tried: list[tuple[dict[str, Any], float | None]] = []
    best, options = math.inf, waiting[0]
    while waiting:
        for asked in waiting:
            errors = run(asked, TUNING_SEED)[-2:, column]
            score = float(np.log(errors + 1e-12).mean())
            tried.append((asked, score if math.isfinite(score) else None))
            if score < best:
                best, options = score, asked
        waiting = []
        if beyond and math.isfinite(best):
            values = sorted({asked[beyond] for asked, _ in tried})
            factor = grid[beyond][1] / grid[beyond][0]
            edge = {values[0]: 1 / factor, values[-1]: factor}
            if options[beyond] in edge:
                further = options[beyond] * edge[options[beyond]]
                waiting = [{**options, beyond: float(f"{further:.3g}")}]
    return options, tried


def padded(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Stack runs of different lengths, with NaN where a run has ended."""
    out = np.full((len(runs), max(map(len, runs)), runs[0].shape[1]), np.nan)
    for row, run in zip(out, runs, strict=True):
        row[: len(run)] = run
    return out


def identity(name: str) -> str:
    """Name the stored curves of a problem."""
    return "comparison/" + name.lower().replace(" ", "-").replace(".", "")


def interrupted(name: str, root: Path = FOLDER) -> tuple[dict[str, Any], ...]:
    """Return methods and curves that a run of the same commit has stored."""
    try:
        old = load_result(identity(name), "full", root)
    except ResultNotFound:
        return {}, {}
    if old.provenance is None or old.provenance.commit != git_commit():
        return {}, {}
    return dict(old.scalars["methods"]), dict(old.arrays)


def store(
    name: str,
    config: Mapping[str, Any],
    scalars: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    began: float,
    root: Path = FOLDER,
) -> None:
    """Store the curves of one problem with their provenance."""
    made = collect_provenance(seed=SEEDS[0], started=began)
    kept = {key: value.astype("float32") for key, value in arrays.items()}
    result = Result(identity(name), "full", dict(config), dict(scalars), kept, made)
    print(save_result(result, root), flush=True)


def command_line(
    doc: str | None, problems: Mapping[str, Any], study: Callable[[str], None]
) -> None:
    """Run the problems that are named, or all, on one thread."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=str([*problems]))
    torch.set_num_threads(1)
    for name in parser.parse_args().problems or problems:
        since = time.process_time()
        study(name)
        print(f"{name}: {time.process_time() - since:.0f} CPU seconds", flush=True)
