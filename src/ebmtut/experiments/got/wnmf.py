"""Wasserstein NMF of a set of images by three methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
from ebmtut.transport import (
    GridCost,
    WNMFState,
    grid_cost,
    grid_dual_value,
    instances_innermost,
    smoothed_wnmf,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

#: Problems that are solved exactly at a look.
MOST_LOOKED = 20
#: Plain, entropically smoothed, and ours.
METHODS = ("NMF", "smoothed W-NMF", "Gibbs-OT")


def cells(config: ImagesConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name a cell for every method."""
    return {method: {"method": method, "config": config} for method in METHODS}


def wnmf_job(
    method: str, config: ImagesConfig, seed: int, device: str = "cpu"
) -> Outcome:
    """Factorise by one method; plain NMF and exact costs stay on the CPU."""
    data = load_measures(config).to(device)
    cost = grid_cost(config.side, device=device)
    start = time.process_time()
    if method == "NMF":
        dictionary, mixtures = _learn_by_nmf(data.cpu(), config, seed)
        extra = Outcome({"seconds": time.process_time() - start})
    elif method == "smoothed W-NMF":
        dictionary, mixtures, extra = _learn_smoothed(data, config, seed)
    else:
        dictionary, mixtures, extra = _learn_by_gibbs_ot(data, cost, config, seed)
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
    data: Tensor, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor, Outcome]:
    data = data.double().contiguous()
    start = wnmf_start(data, config.wnmf, generator=make_generator(seed, data.device))
    before = time.process_time()
    learned = smoothed_wnmf(
        data,
        start.dictionary,
        smoothing=config.smoothing,
        entropy_memberships=config.entropy,
        entropy_dictionary=config.entropy,
        n_rounds=config.n_rounds,
        n_steps=config.n_steps,
    )
    seconds = time.process_time() - before
    mixtures = torch.einsum("nk,khw->nhw", learned.memberships, learned.dictionary)
    outcome = Outcome({"seconds": seconds, "n_rounds": config.n_rounds})
    return learned.dictionary, mixtures, outcome


def _learn_by_gibbs_ot(
    data: Tensor, cost: GridCost, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, evaluating the model along the way."""
    generator = make_generator(seed, data.device)
    state = wnmf_start(data, config.wnmf, generator=generator)
    seconds: list[float] = []
    looks: list[list[float]] = []
    every = max(1, config.wnmf.n_epochs // config.n_looks)
    which = looked_at(config, min(MOST_LOOKED, config.n_exact))
    for epoch in range(config.wnmf.n_epochs):
        before = time.process_time()
        wnmf_epoch(state, data, cost, config.wnmf, generator=generator)
        seconds.append(time.process_time() - before)
        if state.epoch % every == 0 or state.epoch == config.wnmf.n_epochs:
            temperature = wnmf_temperature(data, config.wnmf, epoch)
            measured = _look(state, data, cost, which)
            looks.append(
                [state.epoch, temperature, state.value, *measured, state.n_passes]
            )
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
