"""Wasserstein NMF of a set of images by three methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.experiments.experiment import Runs
from ebmtut.experiments.got.wnmf_measures import (
    ImagesConfig,
    dual_bounds,
    exact_costs,
    exact_problems,
    load_measures,
    looked_at,
    sharpness,
    solved,
)
from ebmtut.experiments.jobs import Outcome
from ebmtut.random import make_generator
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.transport import (
    GridCost,
    SmoothedWNMF,
    WNMFState,
    grid_cost,
    grid_dual_value,
    instances_innermost,
    smoothed_wnmf,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

_KEPT = 25  # epochs between two checkpoints
#: Problems that are solved exactly at a look.
MOST_LOOKED = 20
#: Plain, entropically smoothed, and ours.
METHODS = ("NMF", "smoothed W-NMF", "Gibbs-OT")


def cells(config: ImagesConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name a cell for every method."""
    return {method: {"method": method, "config": config} for method in METHODS}


def wnmf_job(
    method: str,
    config: ImagesConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Factorise the images by one method and judge the result.

    Plain NMF and exact costs stay on the CPU.
    """
    data = load_measures(config).to(device)
    cost = grid_cost(config.side, device=device)
    start = time.process_time()
    if method == "NMF":
        dictionary, mixtures = _learn_by_nmf(data.cpu(), config, seed)
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
        **sharpness(dictionary.cpu()),
    }
    if config.n_bound_passes:
        bounds = dual_bounds(
            instances_innermost(mixtures.to(data)),
            data,
            cost,
            config.n_bound_passes,
            generator=make_generator(seed, device),
        )
        scalars["bound"] = float(bounds.mean())
        part = bounds[which.start :: which.step][: len(which)]
        scalars["bound_error"] = 1 - float(part.mean()) / scalars["cost"]
    scaled = dictionary / dictionary.amax((1, 2), keepdim=True)
    arrays = {"components": (255 * scaled).round().byte().cpu().numpy()}
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
    start = wnmf_start(data, config.wnmf, generator=make_generator(seed, data.device))
    learned: SmoothedWNMF | None = None
    seconds = 0.0
    if path is not None and path.is_file():
        tensors, meta = load_checkpoint(path)
        if meta["config"] == repr((config, seed)):
            there = {name: part.to(data.device) for name, part in tensors.items()}
            learned, seconds = SmoothedWNMF(**there), meta["seconds"]
    while learned is None or len(learned.objectives) < config.n_rounds:
        before = time.process_time()
        learned = smoothed_rounds(data, start, config, 1, learned)
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
    return learned.dictionary, smoothed_mixtures(learned), outcome


def smoothed_rounds(
    data: Tensor,
    start: WNMFState,
    config: ImagesConfig,
    n_rounds: int,
    before: SmoothedWNMF | None,
) -> SmoothedWNMF:
    """Let the smoothed method make some more rounds."""
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


def smoothed_mixtures(learned: SmoothedWNMF) -> Tensor:
    """Return the model of every image."""
    return torch.einsum("nk,khw->nhw", learned.memberships, learned.dictionary)


def learn_by_gibbs_ot(
    data: Tensor, cost: GridCost, config: ImagesConfig, seed: int, path: Path | None
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, stopping for looks and checkpoints."""
    generator = make_generator(seed, data.device)
    state = wnmf_start(data, config.wnmf, generator=generator)
    seconds: list[float] = []
    looks: list[list[float]] = []
    if path is not None and path.is_file():
        tensors, meta = load_checkpoint(path)
        if meta["config"] == repr((config, seed)):
            generator.set_state(tensors["generator"])
            there = {name: part.to(data.device) for name, part in tensors.items()}
            state = WNMFState.from_tensors(there)
            seconds, looks = meta["seconds"], meta["looks"]
    every = max(1, config.wnmf.n_epochs // config.n_looks)
    n_looked = min(MOST_LOOKED, config.n_exact)
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
    duals = grid_dual_value(state.U, p, data, cost).cpu()[list(which)]
    return float(exact), 1 - float(duals.mean()) / float(exact), seconds


def by_method(config: ImagesConfig, runs: Runs) -> Outcome:
    """Gather numbers and components by method, and the looks at the learning."""
    first = {method: runs[(method,)][0] for method in METHODS}
    arrays = {name: run.arrays["components"] for name, run in first.items()}
    arrays["looks"] = first["Gibbs-OT"].arrays["looks"]
    return Outcome({"methods": {n: run.scalars for n, run in first.items()}}, arrays)
