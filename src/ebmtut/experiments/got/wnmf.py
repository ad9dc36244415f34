"""Wasserstein NMF of a set of images by three methods: what two experiments share."""

import math
import warnings
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, Runs
from ebmtut.experiments.got import measures
from ebmtut.experiments.got.measures import ImagesConfig, timed
from ebmtut.experiments.verdicts import Verdict, Verdicts, claim, compare
from ebmtut.plotting import COLORS, image_grid
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.training import ResumableLoop
from ebmtut.transport import GridCost
from ebmtut.transport.grid_cost import instances_innermost


def dual_bounds(
    p: Tensor, q: Tensor, cost: GridCost, n_passes: int, *, generator: torch.Generator
) -> Tensor:
    """Lower bounds of the transport costs by Gibbs-OT from a cold start, (n,).

    The temperature falls from 0.01 / m to a thousandth of that.
    """
    schedule = measures.three_decades(0.01 / p[0].numel(), n_passes)
    cold = torch.zeros_like(q)
    U = measures.run_passes(cold, p, q, cost, schedule, generator=generator)
    return transport.grid_dual_value(U, p, q, cost)


def sharpness(dictionary: Tensor) -> dict[str, float]:
    """How concentrated and how rough components are, on average."""
    flat = dictionary.double().flatten(1)
    flat = flat / flat.sum(1, keepdim=True)
    images = flat.view(dictionary.shape)
    variation = images.diff(dim=1).abs().sum() + images.diff(dim=2).abs().sum()
    entropy = -torch.special.xlogy(flat, flat).sum(1)
    return {
        "support": float(entropy.exp().mean()),
        "variation": float(variation) / len(flat),
    }


def evenly_chosen(config: ImagesConfig, n: int) -> range:
    """Choose n images evenly."""
    step = config.n_images // n
    return range(0, n * step, step)


#: Problems that are solved exactly at an evaluation.
MOST_SOLVED = 20
#: Plain, entropically smoothed, and by Gibbs-OT.
METHODS = ("NMF", "smoothed W-NMF", "Gibbs-OT")


def cells(config: ImagesConfig) -> Cells:
    """Name a cell for every method."""
    return {method: {"method": method, "config": config} for method in METHODS}


def wnmf_job(
    method: str,
    config: ImagesConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Factorise by one method; plain NMF and exact costs stay on the CPU."""
    data = measures.load_measures(config).to(device)
    cost = transport.grid_cost(config.side, device=device)
    if method == "NMF":
        seconds, learned = timed(_learn_by_nmf, data.cpu(), config, seed)
        (dictionary, mixtures), extra = learned, Outcome({"seconds": seconds})
    elif method == "smoothed W-NMF":
        dictionary, mixtures, extra = _learn_smoothed(data, config, seed)
    else:
        dictionary, mixtures, extra = _learn_by_gibbs_ot(
            data, cost, config, seed, checkpoint
        )
    which = evenly_chosen(config, config.n_exact)
    costs = measures.exact_costs(mixtures, data, cost, which)
    scalars: dict[str, Any] = {
        "cost": float(costs.mean()),
        "stderr": float(costs.std(ddof=1)) / len(costs) ** 0.5,
        **sharpness(dictionary.cpu()),
    }
    if config.n_bound_passes:
        p, n = instances_innermost(mixtures.to(data)), config.n_bound_passes
        bounds = dual_bounds(p, data, cost, n, generator=make_generator(seed, device))
        scalars["bound"] = float(bounds.mean())
        some = bounds[which.start : which.stop : which.step]
        scalars["bound_error"] = 1 - float(some.mean()) / scalars["cost"]
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
    # The budget is part of the configuration.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
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
    generator = make_generator(seed, data.device)
    start = transport.wnmf_start(data, config.wnmf, generator=generator)
    seconds, learned = timed(
        transport.smoothed_wnmf,
        data,
        start.dictionary,
        smoothing=config.smoothing,
        entropy_memberships=config.entropy,
        entropy_dictionary=config.entropy,
        n_rounds=config.n_rounds,
        n_steps=config.n_steps,
    )
    mixtures = torch.einsum("nk,khw->nhw", learned.memberships, learned.dictionary)
    scalars = {"seconds": seconds, "n_rounds": config.n_rounds}
    return learned.dictionary, mixtures, Outcome(scalars)


def _learn_by_gibbs_ot(
    data: Tensor,
    cost: GridCost,
    config: ImagesConfig,
    seed: int,
    checkpoint: Path | None,
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, evaluating the model along the way."""
    generator = make_generator(seed, data.device)
    state = transport.wnmf_start(data, config.wnmf, generator=generator)
    n = config.wnmf.n_epochs
    every = max(1, n // config.n_looks)
    which = evenly_chosen(config, min(MOST_SOLVED, config.n_exact))
    seconds = torch.zeros(n, dtype=torch.float64)
    looks = torch.zeros(-(-n // every), 7, dtype=torch.float64)
    loop = ResumableLoop(
        checkpoint,
        {"seed": seed, **asdict(config)},
        {"state": state},
        generator=generator,
        buffers={"seconds": seconds, "looks": looks},
        every=10,
    )
    for epoch in loop.steps(n):
        learn = partial(transport.wnmf_epoch, state, data, cost, config.wnmf)
        seconds[epoch] = timed(learn, generator=generator)[0]
        if state.epoch % every == 0 or state.epoch == n:
            temperature = transport.wnmf_temperature(data, config.wnmf, epoch)
            found = (temperature, state.value, *_evaluate(state, data, cost, which))
            looks[epoch // every] = torch.tensor([epoch + 1, *found, state.n_passes])
    scalars = {
        "seconds": float(seconds.sum()),
        "epoch_seconds": float(np.median(seconds)),
        "exact_seconds": float(np.median(looks[:, 5])) * len(data),
        "dual_error": float(looks[-1, 4]),
        "n_passes": float(looks[:, 6].mean()),
    }
    outcome = Outcome(scalars, {"looks": looks.numpy()})
    return state.dictionary, state.reconstruction, outcome


def _evaluate(
    state: transport.WNMFState, data: Tensor, cost: GridCost, which: range
) -> tuple[float, float, float]:
    """Exact cost, error of the feasible duals, seconds a problem."""
    p = state.reconstruction
    problems = measures.exact_problems(p, data, cost, which)
    seconds, costs = timed(measures.solved, problems)
    exact = float(costs.mean())
    duals = transport.grid_dual_value(state.U, p, data, cost).cpu()[list(which)]
    return exact, 1 - float(duals.mean()) / exact, seconds / len(which)


def by_method(config: ImagesConfig, runs: Runs) -> Outcome:
    """Gather numbers and components by method, and the evaluations on the way."""
    first = {method: runs[(method,)][0] for method in METHODS}
    arrays = {name: run.arrays["components"] for name, run in first.items()}
    arrays["looks"] = first["Gibbs-OT"].arrays["looks"]
    return Outcome({"methods": {n: run.scalars for n, run in first.items()}}, arrays)


_COLUMNS = {"got/wnmf-digits": "200 fives", "got/wnmf-faces": "400 faces"}


def draw_factors(result: Result) -> Figure:
    """Draw components of each method, all of faces, each scaled to its own top."""
    methods = result.scalars["methods"]
    # Photographs are light on dark, ink is dark on light.
    faces = result.config["source"] in ("ORL", "drawn faces")
    n = len(result.arrays["NMF"]) if faces else min(16, len(result.arrays["NMF"]))
    across = min(10 if faces else 8, n)
    down = -(-n // across)
    height = 5.2 * down / across + 0.3
    figure, axes = plt.subplots(len(methods), 1, figsize=(5.2, len(methods) * height))
    for ax, (method, row) in zip(axes, methods.items(), strict=True):
        kwargs = {"cmap": "gray"} if faces else {}
        image_grid(ax, result.arrays[method][:n], across, vmin=0, vmax=255, **kwargs)
        cost = in_pixels(row["cost"], result)
        title = f"{method}: root of transport cost {cost:.2f} pixels"
        ax.set_title(title, color=COLORS[method])
    return figure


def in_pixels(cost: Any, result: Result) -> Any:
    """Turn a mean squared distance in units of the side into its root in pixels."""
    return np.sqrt(cost) * result.config["side"]


def _spread(components: np.ndarray, measure: str) -> float:
    """Standard error of a measure's mean over components, relative to that mean."""
    each = torch.from_numpy(components).split(1)
    values = np.array([sharpness(component)[measure] for component in each])
    return float(values.std(ddof=1) / values.mean()) / len(values) ** 0.5


def all_alike(result: Result) -> Result:
    """Return methods that do not differ, from duals of zero, at the solver's pace."""
    plain = result.scalars["methods"]["NMF"]
    gibbs = result.scalars["methods"]["Gibbs-OT"]
    slow = {"epoch_seconds": gibbs["exact_seconds"], "dual_error": 1.0}
    methods = {"NMF": plain, "smoothed W-NMF": plain, "Gibbs-OT": gibbs | plain | slow}
    return replace(result, scalars=result.scalars | {"methods": methods})


def check_factors(result: Result) -> Verdicts:
    """Gibbs-OT against plain NMF in cost, against smoothed W-NMF in sharpness."""
    methods = result.scalars["methods"]
    gibbs, smoothed = methods["Gibbs-OT"], methods["smoothed W-NMF"]

    def cost_over(baseline: str) -> Verdict:
        other = methods[baseline]
        ratio = gibbs["cost"] / other["cost"]
        # Of the images that were solved exactly, as if sampled anew for each method.
        spreads = (row["stderr"] / row["cost"] for row in (gibbs, other))
        name, error = f"transport cost: Gibbs-OT over {baseline}", math.hypot(*spreads)
        return claim(name, ratio, "at most", 1.0, stderr=ratio * error)

    def shape_over(measure: str, rule: Literal["at least", "at most"]) -> Verdict:
        ratio = gibbs[measure] / smoothed[measure]
        # Of the components, as if sampled anew for each method.
        both = (result.arrays[name] for name in ("Gibbs-OT", "smoothed W-NMF"))
        spreads = [_spread(components, measure) for components in both]
        name = f"{measure} of a component: Gibbs-OT over smoothed W-NMF"
        return claim(name, ratio, rule, 1.0, stderr=ratio * math.hypot(*spreads))

    # On the small drawn faces plain NMF has the lower cost, as the page says.
    if result.id == "got/wnmf-digits" or result.scale != "quick":
        yield cost_over("NMF")
    yield cost_over("smoothed W-NMF")
    yield shape_over("support", "at most")
    yield shape_over("variation", "at least")
    if result.scale != "quick":
        column, seconds = _COLUMNS[result.id], gibbs["epoch_seconds"]
        ratio = gibbs["exact_seconds"] / seconds
        # The problems whose exact solution was timed.
        n_timed = min(MOST_SOLVED, result.config["n_exact"])
        faster = "exact solutions' time over an epoch's, extrapolated from "
        faster += f"{n_timed} {column.split()[1]}"
        warm = "relative error of the warm duals, last epoch"
        yield claim(faster, ratio, "at least", 50.0)
        yield claim(warm, gibbs["dual_error"], "at most", 0.15)
        limited = "at most ten iterations in an epoch, where the paper has a criterion"
        excuse = "" if result.scale == "paper" else limited
        yield compare(
            result.id, "time an epoch", "Gibbs-OT", column, seconds, excuse=excuse
        )


#: An experiment that factorises images: which ones differs.
wnmf_row = partial(
    Experiment,
    cells=cells,
    job=wnmf_job,
    devices=("cpu", "cuda"),
    gather=by_method,
    baseline=all_alike,
    figure=draw_factors,
    check=check_factors,
    parallel=False,  # their times are part of the result
)
