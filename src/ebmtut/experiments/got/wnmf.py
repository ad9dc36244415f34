"""Wasserstein NMF of a set of images by three methods, its figures and its claims."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.experiments.experiment import Runs
from ebmtut.experiments.got.wnmf_measures import (
    ImagesConfig,
    dual_bounds,
    exact_costs,
    exact_problems,
    grain,
    load_measures,
    looked_at,
    sharpness,
    solved,
)
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, compare
from ebmtut.plotting import COLORS, TEXT_WIDTH, figure_size, image_grid
from ebmtut.random import make_generator
from ebmtut.results import Result, Table
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.results.tables import Cell
from ebmtut.transport import (
    GridCost,
    SmoothedWNMF,
    WNMFConfig,
    WNMFState,
    grid_cost,
    grid_dual_value,
    instances_innermost,
    smoothed_wnmf,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

__all__ = [
    "METHODS",
    "all_alike",
    "by_method",
    "cells",
    "check_factors",
    "draw_course",
    "draw_factors",
    "epochs_table",
    "factors_table",
    "learn_by_gibbs_ot",
    "memberships_table",
    "rounds_table",
    "wnmf_job",
]

_KEPT = 25  # epochs between two checkpoints
_MOST_LOOKED = 20  # problems that are solved exactly at a look
METHODS = ("NMF", "smoothed W-NMF", "Gibbs-OT")
_COLUMNS = {"got/wnmf-digits": "200 fives", "got/wnmf-faces": "400 faces"}
_NAMES = {"Gibbs-OT": "W-NMF with Gibbs-OT"}


def cells(config: ImagesConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name a cell for every method."""
    return {method: {"method": method, "config": config} for method in METHODS}


def wnmf_job(
    method: str, config: ImagesConfig, seed: int, checkpoint: Path | None = None
) -> Outcome:
    """Factorise the images by one method and judge the result.

    Returns
    -------
    outcome
        Scalars: the mean exact transport cost of the chosen images and its
        standard error, the lower bound over all images, sharpness, and CPU
        seconds of the learning alone, without looks at it and over all sittings.
        Arrays: components as bytes, each scaled to its own largest value;
        for Gibbs-OT the looks at the learning, see `learn_by_gibbs_ot`.
    """
    data = load_measures(config)
    cost = grid_cost(config.side)
    start = time.process_time()
    if method == "NMF":
        dictionary, mixtures = _learn_by_nmf(data, config, seed)
        extra = Outcome({"seconds": time.process_time() - start})
    elif method == "smoothed W-NMF":
        learned = _learn_smoothed(data, config, seed, checkpoint)
        dictionary, mixtures, extra = learned
    else:
        learned = learn_by_gibbs_ot(data, cost, config, seed, checkpoint)
        dictionary, mixtures, extra = learned
    which = looked_at(config, config.n_exact)
    costs = exact_costs(mixtures, data, cost, which)
    scalars: dict[str, Any] = {
        "cost": float(costs.mean()),
        "stderr": float(costs.std(ddof=1)) / len(costs) ** 0.5,
        **sharpness(dictionary),
    }
    if config.n_bound_passes:
        bounds = dual_bounds(
            instances_innermost(mixtures.to(data)),
            data,
            cost,
            config.n_bound_passes,
            generator=make_generator(seed),
        )
        scalars["bound"] = float(bounds.mean())
        part = bounds[which.start :: which.step][: len(which)]
        scalars["bound_error"] = 1 - float(part.mean()) / scalars["cost"]
    scaled = dictionary / dictionary.amax((1, 2), keepdim=True)
    arrays = {"components": (255 * scaled).round().byte().numpy()}
    return Outcome(scalars | extra.scalars, arrays | extra.arrays)


def _learn_by_nmf(
    data: Tensor, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor]:
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    model = NMF(
        config.wnmf.n_components,
        init="nndsvda",
        random_state=seed,
        max_iter=config.n_iterations,
        tol=1e-5,
    )
    with warnings.catch_warnings():
        # The budget is part of the configuration.
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = model.fit_transform(data.flatten(1).numpy() * data[0].numel())
    mixtures = torch.from_numpy(weights @ model.components_).view(data.shape)
    dictionary = torch.from_numpy(model.components_).view(-1, *data.shape[1:])
    return (
        dictionary / dictionary.sum((1, 2), keepdim=True),
        mixtures / mixtures.sum((1, 2), keepdim=True),
    )


def _learn_smoothed(
    data: Tensor, config: ImagesConfig, seed: int, path: Path | None
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn round by round, stopping for checkpoints."""
    data = data.double().contiguous()
    start = wnmf_start(data, config.wnmf, generator=make_generator(seed))
    learned: SmoothedWNMF | None = None
    seconds = 0.0
    if path is not None and path.is_file():
        tensors, meta = load_checkpoint(path)
        if meta["config"] == repr((config, seed)):
            learned, seconds = SmoothedWNMF(**tensors), meta["seconds"]
    while learned is None or len(learned.objectives) < config.n_rounds:
        before = time.process_time()
        learned = _smoothed_rounds(data, start, config, 1, learned)
        seconds += time.process_time() - before
        if path is not None and len(learned.objectives) < config.n_rounds:
            meta = {"config": repr((config, seed)), "seconds": seconds}
            save_checkpoint(path, learned._asdict(), meta)
            if out_of_time():
                done = len(learned.objectives)
                raise OutOfTime(f"round {done} of {config.n_rounds}")
    if path is not None:
        path.unlink(missing_ok=True)
    outcome = Outcome({"seconds": seconds, "n_rounds": config.n_rounds})
    return learned.dictionary, _mixtures(learned), outcome


def _smoothed_rounds(
    data: Tensor,
    start: WNMFState,
    config: ImagesConfig,
    n_rounds: int,
    before: SmoothedWNMF | None,
) -> SmoothedWNMF:
    """Let the smoothed rival make some more rounds."""
    return smoothed_wnmf(
        data,
        start.dictionary,
        smoothing=config.smoothing,
        entropy_memberships=config.entropy,
        entropy_dictionary=config.entropy,
        n_rounds=n_rounds,
        n_steps=config.n_steps,
        start=before,
    )


def _mixtures(learned: SmoothedWNMF) -> Tensor:
    """Return the model of every image."""
    return torch.einsum("nk,khw->nhw", learned.memberships, learned.dictionary)


def learn_by_gibbs_ot(
    data: Tensor, cost: GridCost, config: ImagesConfig, seed: int, path: Path | None
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, stopping for looks and checkpoints.

    Returns
    -------
    learned
        Scalars of the outcome: CPU seconds of all epochs, of the median one and of
        the exact solution of all its problems, and the duals' error in the last look.
        ``looks`` has a row for each look: epoch, temperature, V, mean exact
        cost of up to 20 images, the error of their feasible duals, iterations
        of the epoch, seconds of exact solutions a problem.
    """
    generator = make_generator(seed)
    state = wnmf_start(data, config.wnmf, generator=generator)
    seconds: list[float] = []
    looks: list[list[float]] = []
    if path is not None and path.is_file():
        tensors, meta = load_checkpoint(path)
        if meta["config"] == repr((config, seed)):
            generator.set_state(tensors["generator"])
            state = WNMFState.from_tensors(tensors)
            seconds, looks = meta["seconds"], meta["looks"]
    every = max(1, config.wnmf.n_epochs // config.n_looks)
    n_looked = min(_MOST_LOOKED, config.n_exact)
    for epoch in range(state.epoch, config.wnmf.n_epochs):
        before = time.process_time()
        wnmf_epoch(state, data, cost, config.wnmf, generator=generator)
        seconds.append(time.process_time() - before)
        last = state.epoch == config.wnmf.n_epochs
        if state.epoch % every == 0 or last:
            temperature = wnmf_temperature(data, config.wnmf, epoch)
            measured = _look(state, data, cost, looked_at(config, n_looked))
            looks.append(
                [state.epoch, temperature, state.value, *measured, state.n_passes]
            )
        over = path is not None and out_of_time()
        if path is not None and (over or state.epoch % _KEPT == 0) and not last:
            tensors = state.tensors() | {"generator": generator.get_state()}
            meta = {"config": repr((config, seed)), "seconds": seconds, "looks": looks}
            save_checkpoint(path, tensors, meta)
            if over:
                raise OutOfTime(f"epoch {state.epoch} of {config.wnmf.n_epochs}")
    if path is not None:
        path.unlink(missing_ok=True)
    scalars = {
        "seconds": sum(seconds),
        "epoch_seconds": float(np.median(seconds)),
        "exact_seconds": float(np.median([look[5] for look in looks])) * len(data),
        "dual_error": looks[-1][4],
        "n_passes": float(np.mean([look[6] for look in looks])),
    }
    outcome = Outcome(scalars, {"looks": np.array(looks)})
    return state.dictionary, state.reconstruction, outcome


def _look(
    state: WNMFState, data: Tensor, cost: GridCost, which: range
) -> tuple[float, float, float]:
    """Exact cost, error of the feasible duals, seconds a problem."""
    p = state.reconstruction
    problems = exact_problems(p, data, cost, which)
    before = time.process_time()
    exact = solved(problems).mean()
    seconds = (time.process_time() - before) / len(which)
    duals = grid_dual_value(state.U, p, data, cost)[list(which)]
    return float(exact), 1 - float(duals.mean()) / float(exact), seconds


def by_method(config: ImagesConfig, runs: Runs) -> Outcome:
    """Gather numbers and components by method, and the looks at the learning."""
    first = {method: runs[(method,)][0] for method in METHODS}
    arrays = {name: run.arrays["components"] for name, run in first.items()}
    arrays["looks"] = first["Gibbs-OT"].arrays["looks"]
    return Outcome({"methods": {n: run.scalars for n, run in first.items()}}, arrays)


def draw_factors(result: Result) -> Figure:
    """Draw the components of each method, each scaled to its own largest value."""
    methods = result.scalars["methods"]
    n = len(result.arrays["NMF"])
    across = 10 if n >= 10 else n
    down = -(-n // across)
    height = TEXT_WIDTH * down / across + 0.3
    figure, axes = plt.subplots(
        len(methods), 1, figsize=(TEXT_WIDTH, len(methods) * height)
    )
    # Photographs are light on dark, ink is dark on light.
    faces = result.config["source"] in ("ORL", "drawn faces")
    for ax, (method, row) in zip(axes, methods.items(), strict=True):
        kwargs = {"cmap": "gray"} if faces else {}
        image_grid(ax, result.arrays[method], across, vmin=0, vmax=255, **kwargs)
        ax.set_title(
            f"{_NAMES.get(method, method)}: transport cost {row['cost']:.2e}, "
            f"support {row['support']:.0f} pixels",
            color=COLORS[method],
        )
    return figure


def draw_course(result: Result) -> Figure:
    """Draw cost and duals' error of the learning with Gibbs-OT over its epochs."""
    epoch, temperature, value, cost, error, _, _ = result.arrays["looks"].T
    figure, (left, right) = plt.subplots(1, 2, figsize=figure_size("full"))
    left.plot(epoch, 1e3 * cost, "o-", color=COLORS["exact"], label="exact cost")
    left.plot(epoch, 1e3 * value, "s-", color=COLORS["Gibbs-OT"], label="V(z)")
    for method in ("NMF", "smoothed W-NMF"):
        other = 1e3 * result.scalars["methods"][method]["cost"]
        left.axhline(other, ls="--", color=COLORS[method], label=method)
    left.set(xlabel="epoch", ylabel="mean transport cost, 1e-3", yscale="log")
    left.legend()
    right.plot(epoch, error, "o-", color=COLORS["Gibbs-OT"], label="duals' error")
    right.set(xlabel="epoch", ylabel="1 − feasible dual / exact", ylim=(0, None))
    cooling = right.twinx()
    cooling.plot(epoch, temperature, ":", color=COLORS["data"])
    cooling.set(ylabel="temperature (dotted)", yscale="log")
    return figure


def factors_table(result: Result) -> Table:
    """Write what each method's components cost and how sharp they are."""
    methods = result.scalars["methods"]
    exact = result.config["n_exact"]
    return Table(
        {
            "method": list(methods),
            "cost [1e-3]": [
                (1e3 * row["cost"], 1e3 * row["stderr"]) for row in methods.values()
            ],
            "support": [round(row["support"]) for row in methods.values()],
            "variation": [row["variation"] for row in methods.values()],
            "grain": [grain(result.arrays[name]) for name in methods],
            "CPU s": [row["seconds"] for row in methods.values()],
        },
        caption=f"Exact transport costs, means of {exact} images ± their standard "
        "error; support in pixels; seconds of the learning",
    )


def epochs_table(results: Mapping[str, Result]) -> Table:
    """Write what an epoch with Gibbs-OT takes, beside exact solutions of its problems.

    Parameters
    ----------
    results
        By the images' name.
    """
    ours = [result.scalars["methods"]["Gibbs-OT"] for result in results.values()]
    few = map(str, map(_n_timed, results.values()))
    return Table(
        {
            "images": list(results),
            "an epoch": [row["epoch_seconds"] for row in ours],
            "exactly, extrapolated": [_two_digits(r["exact_seconds"]) for r in ours],
            "times as long": [
                _two_digits(row["exact_seconds"] / row["epoch_seconds"]) for row in ours
            ],
            "lacks [%]": [100 * row["dual_error"] for row in ours],
        },
        caption="CPU seconds of an epoch, and of exact solutions of its problems, "
        f"extrapolated from {' and '.join(few)} of them; "
        "what the duals lack at the end of the learning",
    )


def rounds_table(
    data: Tensor, config: ImagesConfig, rounds: Sequence[int], *, seed: int = 0
) -> Table:
    """Write what more rounds bring the smoothed rival.

    Parameters
    ----------
    data
        Measures, as of `load_measures`.
    config
        How they are factorised; its number of rounds is not used.
    rounds
        When to look, rising.
    seed
        Of the start.
    """
    start = wnmf_start(data.double(), config.wnmf, generator=make_generator(seed))
    cost, which = grid_cost(config.side), looked_at(config, config.n_exact)
    learned: SmoothedWNMF | None = None
    columns: dict[str, list[Cell]] = {"rounds": [], "cost [1e-3]": [], "support": []}
    done = 0
    for n in rounds:
        learned = _smoothed_rounds(data.double(), start, config, n - done, learned)
        done = n
        exact = 1e3 * exact_costs(_mixtures(learned), data, cost, which)
        error = float(exact.std(ddof=1)) / len(exact) ** 0.5
        numbers: tuple[Cell, ...] = (
            f"{n}",
            (float(exact.mean()), error),
            round(sharpness(learned.dictionary)["support"]),
        )
        for column, number in zip(columns.values(), numbers, strict=True):
            column.append(number)
    return Table(
        columns,
        caption=f"Smoothed W-NMF, {config.n_images} images of {config.side} × "
        f"{config.side}: exact transport costs ± their standard error",
    )


def memberships_table(
    data: Tensor,
    config: WNMFConfig,
    trials: Mapping[str, tuple[float, bool]],
    seed: int,
) -> Table:
    """Write how the learning goes with other steps of the memberships.

    Parameters
    ----------
    data
        Measures, as of `load_measures`; twenty of them are judged.
    config
        The learning, which is looked at half way and at the end.
    trials
        By name, the step and whether it is accelerated.
    seed
        Of start and noise.
    """
    cost = grid_cost(data.shape[1])
    looks = (config.n_epochs // 2, config.n_epochs)
    heads = [f"after {n} epochs" for n in looks]
    columns: dict[str, list[Cell]] = {"memberships": [*trials]}
    columns.update((head, []) for head in heads)
    for size, accelerate in trials.values():
        trial = replace(config, accelerate=accelerate, membership_step_size=size)
        generator = make_generator(seed)
        state = wnmf_start(data, trial, generator=generator)
        for epoch in range(1, trial.n_epochs + 1):
            wnmf_epoch(state, data, cost, trial, generator=generator)
            if epoch in looks:
                exact = exact_costs(state.reconstruction, data, cost, range(20))
                head = heads[looks.index(epoch)]
                columns[head].append(1e3 * float(exact.mean()))
    return Table(
        columns, caption="Mean transport cost of 20 images, 1e-3, one run each"
    )


def _n_timed(result: Result) -> int:
    """Problems whose exact solution was timed."""
    return int(min(_MOST_LOOKED, result.config["n_exact"]))


def _spread(components: np.ndarray, measure: str) -> float:
    """Standard error of a measure's mean over components, relative to that mean."""
    each = torch.from_numpy(components).split(1)
    values = np.array([sharpness(component)[measure] for component in each])
    return float(values.std(ddof=1) / values.mean()) / len(values) ** 0.5


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def all_alike(result: Result) -> Result:
    """Return methods that do not differ, from duals of zero, at the solver's pace."""
    plain = result.scalars["methods"]["NMF"]
    ours = result.scalars["methods"]["Gibbs-OT"]
    slow = {"epoch_seconds": ours["exact_seconds"], "dual_error": 1.0}
    methods = {"NMF": plain, "smoothed W-NMF": plain, "Gibbs-OT": ours | plain | slow}
    return replace(result, scalars=result.scalars | {"methods": methods})


def check_factors(result: Result) -> list[Verdict]:
    """Gibbs-OT against plain NMF in cost, against smoothed W-NMF in sharpness."""
    methods = result.scalars["methods"]
    ours, smoothed = methods["Gibbs-OT"], methods["smoothed W-NMF"]

    def cost_over(rival: str) -> Verdict:
        other = methods[rival]
        ratio = ours["cost"] / other["cost"]
        # Of the images that were solved exactly, as if drawn anew for each method.
        spreads = (row["stderr"] / row["cost"] for row in (ours, other))
        return claim(
            f"transport cost: Gibbs-OT over {rival}",
            ratio,
            "at most",
            1.0,
            stderr=ratio * math.hypot(*spreads),
        )

    def shape_over(measure: str, rule: Literal["at least", "at most"]) -> Verdict:
        ratio = ours[measure] / smoothed[measure]
        # Of the components, as if drawn anew for each method.
        spreads = [
            _spread(result.arrays[name], measure)
            for name in ("Gibbs-OT", "smoothed W-NMF")
        ]
        return claim(
            f"{measure} of a component: Gibbs-OT over smoothed W-NMF",
            ratio,
            rule,
            1.0,
            stderr=ratio * math.hypot(*spreads),
        )

    verdicts = [
        cost_over("smoothed W-NMF"),
        shape_over("support", "at most"),
        shape_over("variation", "at least"),
    ]
    # On the small drawn faces plain NMF has the lower cost, as the page says.
    if result.id == "got/wnmf-digits" or result.scale != "quick":
        verdicts.insert(0, cost_over("NMF"))
    if result.scale != "quick":
        images = _COLUMNS[result.id].split()[1]
        verdicts += [
            claim(
                f"exact solutions' time over an epoch's, extrapolated from "
                f"{_n_timed(result)} {images}",
                ours["exact_seconds"] / ours["epoch_seconds"],
                "at least",
                50.0,
            ),
            claim(
                "relative error of the warm duals, last epoch",
                ours["dual_error"],
                "at most",
                0.15,
            ),
            compare(
                result.id,
                "time an epoch",
                "Gibbs-OT",
                _COLUMNS[result.id],
                ours["epoch_seconds"],
            ),
        ]
    return verdicts
