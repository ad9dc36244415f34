"""Wasserstein NMF of a set of images by three methods: what two experiments share."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, OneOf, Range, check_range, checked
from ebmtut.data import ImageData, drawn_faces, load_mnist, load_olivetti
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, Runs
from ebmtut.experiments.verdicts import Verdict, Verdicts, claim, compare
from ebmtut.plotting import COLORS, image_grid
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table
from ebmtut.transport import (
    GridCost,
    WNMFConfig,
    WNMFState,
    as_measures,
    grid_cost,
    grid_dual_value,
    grid_gibbs_pass,
    instances_innermost,
    smoothed_wnmf,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

SOURCES = ("small digits", "MNIST", "drawn faces", "ORL")


@checked
@dataclass(frozen=True)
class ImagesConfig:
    """Which images, and how they are factorised and evaluated."""

    source: Annotated[str, OneOf(SOURCES)] = "MNIST"
    n_images: int = 200
    side: Annotated[int, Range(low=4)] = 28
    wnmf: WNMFConfig = field(default_factory=WNMFConfig)
    smoothing: float = 1 / 100
    entropy: float = 1 / 200
    n_rounds: Count = 10
    n_steps: Count = 20
    n_iterations: Count = 1000
    n_exact: int = 200
    n_bound_passes: Natural = 0
    n_looks: Count = 15

    def __post_init__(self) -> None:
        check_range("n_images", self.n_images, low=self.wnmf.n_components, integer=True)
        check_range("n_exact", self.n_exact, low=1, high=self.n_images, integer=True)


def load_measures(config: ImagesConfig) -> Tensor:
    """Load the images, each divided by its mass, (n, side, side) in float32."""
    images, source = _load(config.source), config.source
    n, side = images.shape[:2]
    if n < config.n_images:
        message = f"n_images must be at most {n} for {source}, got {config.n_images}"
        raise InputError(message)
    images = images[: config.n_images]
    factor, rest = divmod(side, config.side)
    if rest:
        raise InputError(f"side must divide {side} for {source}, got {config.side}")
    return as_measures(torch.nn.functional.avg_pool2d(images[:, None], factor)[:, 0])


def _load(source: str) -> Tensor:
    if source == "ORL":
        return load_olivetti().images
    if source == "drawn faces":
        return drawn_faces(400, generator=make_generator(0)).images
    if source == "MNIST":
        return _fives(load_mnist("test"))
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None]
    images = torch.nn.functional.interpolate(images, scale_factor=2, mode="bilinear")
    return _fives(ImageData(images[:, 0], torch.from_numpy(digits.target), source))


def _fives(data: ImageData) -> Tensor:
    return data.images[data.labels == 5]


def exact_problems(
    p: Tensor, q: Tensor, cost: GridCost, which: range
) -> list[tuple[np.ndarray, ...]]:
    """Masses and costs of some of the pairs for an exact solver, float64.

    Pixels with less than 1e-9 of the mass are left out, the rest normalised.
    """
    matrix = cost.dense().double().cpu().numpy()
    problems: list[tuple[np.ndarray, ...]] = []
    for i in which:
        a, b = (x[i].flatten().double().cpu().numpy() for x in (p, q))
        keep_a, keep_b = a > 1e-9, b > 1e-9
        a, b = a[keep_a] / a[keep_a].sum(), b[keep_b] / b[keep_b].sum()
        problems.append((a, b, np.ascontiguousarray(matrix[np.ix_(keep_a, keep_b)])))
    return problems


def exact_costs(p: Tensor, q: Tensor, cost: GridCost, which: range) -> np.ndarray:
    """Transport costs of some of the pairs by the network simplex."""
    return solved(exact_problems(p, q, cost, which))


def solved(problems: Sequence[tuple[np.ndarray, ...]]) -> np.ndarray:
    """Transport costs by POT's network simplex, ``ot.emd2``; what is timed."""
    import ot

    return np.array([ot.emd2(*problem, numItermax=10_000_000) for problem in problems])


def dual_bounds(
    p: Tensor, q: Tensor, cost: GridCost, n_passes: int, *, generator: torch.Generator
) -> Tensor:
    """Lower bounds of the transport costs by Gibbs-OT from a cold start, (n,).

    The temperature falls from 0.01 / m to a thousandth of that.
    """
    schedule = three_decades(0.01 / p[0].numel(), n_passes)
    U = run_passes(torch.zeros_like(q), p, q, cost, schedule, generator=generator)
    return grid_dual_value(U, p, q, cost)


def three_decades(temperature: float, n_passes: int) -> list[float]:
    """Cool geometrically to a thousandth, over as many iterations as there are."""
    return [temperature * 1e-3 ** (k / n_passes) for k in range(n_passes)]


def run_passes(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperatures: Sequence[float],
    *,
    generator: torch.Generator,
) -> Tensor:
    """Run an iteration of Gibbs-OT at each temperature; return U."""
    for temperature in temperatures:
        U = grid_gibbs_pass(U, p, q, cost, temperature, generator=generator).U
    return U


def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """CPU seconds, and what the function returns."""
    before = time.process_time()
    value = function(*args, **kwargs)
    return time.process_time() - before, value


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
    method: str, config: ImagesConfig, seed: int, device: str = "cpu"
) -> Outcome:
    """Factorise by one method; plain NMF and exact costs stay on the CPU."""
    data = load_measures(config).to(device)
    cost = grid_cost(config.side, device=device)
    if method == "NMF":
        seconds, learned = timed(_learn_by_nmf, data.cpu(), config, seed)
        (dictionary, mixtures), extra = learned, Outcome({"seconds": seconds})
    elif method == "smoothed W-NMF":
        dictionary, mixtures, extra = _learn_smoothed(data, config, seed)
    else:
        dictionary, mixtures, extra = _learn_by_gibbs_ot(data, cost, config, seed)
    which = evenly_chosen(config, config.n_exact)
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
    seconds, learned = timed(
        smoothed_wnmf,
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
    data: Tensor, cost: GridCost, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, evaluating the model along the way."""
    generator = make_generator(seed, data.device)
    state = wnmf_start(data, config.wnmf, generator=generator)
    seconds: list[float] = []
    evaluations: list[list[float]] = []
    every = max(1, config.wnmf.n_epochs // config.n_looks)
    which = evenly_chosen(config, min(MOST_SOLVED, config.n_exact))
    for epoch in range(config.wnmf.n_epochs):
        learn = partial(wnmf_epoch, state, data, cost, config.wnmf)
        seconds.append(timed(learn, generator=generator)[0])
        if state.epoch % every == 0 or state.epoch == config.wnmf.n_epochs:
            temperature = wnmf_temperature(data, config.wnmf, epoch)
            measured = _evaluate(state, data, cost, which)
            evaluations.append(
                [state.epoch, temperature, state.value, *measured, state.n_passes]
            )
    scalars = {
        "seconds": sum(seconds),
        "epoch_seconds": float(np.median(seconds)),
        "exact_seconds": float(np.median([row[5] for row in evaluations])) * len(data),
        "dual_error": evaluations[-1][4],
        "n_passes": float(np.mean([row[6] for row in evaluations])),
    }
    outcome = Outcome(scalars, {"looks": np.array(evaluations)})
    return state.dictionary, state.reconstruction, outcome


def _evaluate(
    state: WNMFState, data: Tensor, cost: GridCost, which: range
) -> tuple[float, float, float]:
    """Exact cost, error of the feasible duals, seconds a problem."""
    p = state.reconstruction
    problems = exact_problems(p, data, cost, which)
    seconds, costs = timed(solved, problems)
    exact = float(costs.mean())
    duals = grid_dual_value(state.U, p, data, cost).cpu()[list(which)]
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
        ax.set_title(
            f"{method}: root of transport cost {cost:.2f} pixels", color=COLORS[method]
        )
    return figure


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


def in_pixels(cost: Any, result: Result) -> Any:
    """Turn a mean squared distance in units of the side into its root in pixels."""
    return np.sqrt(cost) * result.config["side"]


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
        spreads = [
            _spread(result.arrays[name], measure)
            for name in ("Gibbs-OT", "smoothed W-NMF")
        ]
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
        yield compare(result.id, "time an epoch", "Gibbs-OT", column, seconds)


# What the paper prints of its learning: 40 components, gamma = 2.0 for components
# and memberships alike, accelerated steps of the memberships, T that falls by its
# factor after every epoch. Its unit of cost, the first temperature and the number of
# epochs, in which T falls a thousandfold, are our choice.
PAPER = ImagesConfig(
    wnmf=WNMFConfig(
        n_components=40,
        n_epochs=210,
        step_size=2.0,
        accelerate=True,
        n_hold=0,
        slowness=1.0,
        shrink_steps=False,
    )
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
