"""What sampling and learning share: tuning on another seed, curves, storing."""

import argparse
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebmtut.results import Result, collect_provenance, save_result

FOLDER = Path(__file__).resolve().parents[1]
SEEDS = (0, 1, 2)
TUNING_SEED = 100
#: Options by name, and the values that tuning tries.
Grid = Mapping[str, Sequence[Any]]
Options = dict[str, Any]


def tuned(
    run: Callable[..., np.ndarray], grid: Grid, column: int, beyond: str = ""
) -> tuple[Options, list[tuple[Options, float | None]]]:
    """Choose the setting with the lowest last error on the seed for tuning.

    The rule is the same for all methods: one run of each setting at the whole budget;
    the mean logarithm of the errors at the last two points decides. Where the best
    value of the option ``beyond`` is the lowest or the highest, the next value by the
    factor of the grid is tried, until it is neither.
    """
    combined = itertools.product(*grid.values())
    waiting = [dict(zip(grid, values, strict=True)) for values in combined]
    if len(waiting) == 1:
        return waiting[0], []
    tried: list[tuple[Options, float | None]] = []
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


def study(
    name: str,
    grids: Mapping[str, Grid],
    run: Callable[..., np.ndarray],
    scalars: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    seeds: Sequence[int] = SEEDS,
    trial: Callable[..., np.ndarray] | None = None,
    told: Callable[[str, Options], Options] = lambda method, options: {},
    beyond: str = "",
) -> None:
    """Tune every method on one problem, run it with each seed, store the curves.

    ``run(method, options, seed)`` gives a curve with the columns of ``scalars``,
    ``trial`` is a cheaper one with the same last two points, and ``told(method,
    options)`` is what else is stored.
    """
    began = time.time()
    identity = "comparison/" + name.lower().replace(" ", "-").replace(".", "")
    table: dict[str, Options] = {}
    arrays: dict[str, np.ndarray] = {}
    column = scalars["columns"].index(scalars["shown"])
    for method, grid in grids.items():
        options, tried = tuned(partial(trial or run, method), grid, column, beyond)
        found = [run(method, options, seed) for seed in seeds]
        # Seeds end at different lengths.
        runs = np.full((len(seeds), max(map(len, found)), found[0].shape[1]), np.nan)
        for row, rows in zip(runs, found, strict=True):
            row[: len(rows)] = rows
        arrays[method] = runs.astype("float32")
        table[method] = {"options": options, "tried": tried, **told(method, options)}
        print(name, method, options, runs[:, -1, column].tolist(), flush=True)
    made = collect_provenance(seed=seeds[0], started=began)
    stored = {**scalars, "methods": table}
    result = Result(identity, "full", dict(config), stored, arrays, made)
    print(save_result(result, FOLDER), flush=True)


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
