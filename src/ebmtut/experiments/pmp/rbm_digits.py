"""RBMs that learn digits and are evaluated: what three experiments share."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.nn.functional import max_pool2d

from ebmtut import metrics
from ebmtut.checks import Count, Natural, OneOf, Positive, Range, checked
from ebmtut.data import digits_at_hand
from ebmtut.data.contours import SOURCES
from ebmtut.experiments.experiment import Cells, Experiment, Names, Runs, nested, stream
from ebmtut.experiments.jobs import Outcome, one_thread, timed_loop
from ebmtut.experiments.pmp.shared import baseline, parts
from ebmtut.experiments.verdicts import Verdict, Verdicts, claim, lead
from ebmtut.losses import draw_rbm, learn_rbm, random_rbm
from ebmtut.losses.rbm_learning import check_rbm_method
from ebmtut.plotting import image_grid
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.training import CpuClock

N_SHOWN = 25


@checked
@dataclass(frozen=True)
class RBMConfig:
    """Which digits, how they are learned, and how the samples are evaluated."""

    methods: tuple[str, ...] = ("PMP", "Gibbs-reset", "PCD-1", "PCD-100")
    samplers: tuple[str, ...] = ("own",)
    digit: Annotated[int, Range(-1, 9)] = -1
    source: Annotated[str, OneOf(SOURCES)] = "auto"
    shrink: Annotated[int, Range(1, 28)] = 1
    n_hidden: Count = 100
    n_steps: Count = 1000
    learning_rate: Positive = 0.01
    optimizer: Annotated[str, OneOf(("adam", "sgd"))] = "adam"
    hidden: Annotated[str, OneOf(("mean", "sample"))] = "mean"
    batch_size: Count = 100
    n_chains: Count = 50
    n_sweeps: Count = 100
    n_sweeps_of: Mapping[str, Count] = field(default_factory=dict)
    sweeps: tuple[Count, ...] = (50, 100, 200, 2000)
    n_judged: Annotated[int, Range(low=2)] = 100
    n_seeds: Count = 1
    lp_shrink: Annotated[int, Range(1, 28)] = 4
    lp_hidden: Count = 10
    lp_steps: Natural = 0
    lp_chains: Count = 20

    def __post_init__(self) -> None:
        for method in (*self.methods, *self.n_sweeps_of):
            check_rbm_method("methods", method)
        for sampler in self.samplers:
            check_rbm_method("samplers", sampler, "own")


def rbm_data(config: RBMConfig, seed: int) -> tuple[Tensor, str]:
    """Return the digits as bits, (n, n_visible), in random order, and their source."""
    generator = make_generator(seed)
    data = digits_at_hand(config.source, generator=generator)
    images = data.images
    if config.digit >= 0:
        images = images[data.labels == config.digit]
    x = max_pool2d((images > 0.5).float()[:, None], config.shrink).flatten(1)
    return x[torch.randperm(len(x), generator=generator)], data.source


class Reference(NamedTuple):
    """Data to compare samples with, and what of them is expensive to compute."""

    x: Tensor
    within: dict[str, float]
    pairs: Tensor


def reference(x: Tensor) -> Reference:
    """Prepare data, bits of shape (n, n_visible), for `distances`."""
    rates = {"log_mmd2": 1 / x.shape[1], "sharp": 0.1}
    within = {
        name: metrics.hamming_kernel_mean(x, x, rate) for name, rate in rates.items()
    }
    return Reference(x, within, metrics.pair_covariances(x))


def distances(samples: Tensor, data: Reference) -> dict[str, float]:
    """How far samples are from data, by four measures."""
    rates = {"log_mmd2": 1 / samples.shape[1], "sharp": 0.1}
    squared = {
        name: metrics.hamming_kernel_mean(samples, samples, rate)
        + data.within[name]
        - 2 * metrics.hamming_kernel_mean(samples, data.x, rate)
        for name, rate in rates.items()
    }
    nearest = metrics.hamming_distances(samples, data.x).min(1).values.mean()
    # At a zero, samples that are the data, rounding may fall below.
    logs = {name: math.log(max(value, 1e-12)) for name, value in squared.items()}
    return logs | {
        "pairs": metrics.covariance_error(samples, data.pairs),
        "nearest": float(nearest) / samples.shape[1],
    }


def distances_of_data(x: Tensor, n: int) -> dict[str, float]:
    """Return what a perfect sampler's n draws can expect of `distances` from x."""
    others = reference(x[n:])
    return {
        "log_mmd2": math.log(metrics.mmd_of_fresh_sample(x, n, "average_hamming")),
        "sharp": math.log(metrics.mmd_of_fresh_sample(x, n, bandwidth=0.1)),
        "pairs": metrics.covariance_error_of_fresh_sample(x, n),
        "nearest": distances(x[:n], others)["nearest"],
    }


@one_thread()
def rbm_job(
    method: str,
    config: RBMConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn with one method, sample, and compare with the data."""
    x = rbm_data(config, seed)[0].to(device)
    generator = stream("training of the RBM", seed, device)
    clock = CpuClock()
    which: dict[str, Any] = {"method": method, "seed": seed}
    learned = learn_rbm(
        x,
        method,
        n_hidden=config.n_hidden,
        n_steps=config.n_steps,
        n_sweeps=config.n_sweeps_of.get(method, config.n_sweeps),
        batch_size=min(config.batch_size, len(x)),
        n_chains=config.n_chains,
        learning_rate=config.learning_rate,
        optimizer="sgd" if config.optimizer == "sgd" else "adam",
        hidden="sample" if config.hidden == "sample" else "mean",
        init="zero",
        generator=generator,
        on_step=clock.tick,
        loop=timed_loop(checkpoint, config, clock, generator=generator, **which),
    )
    scalars = {"seconds": float(clock.seconds), "diverged": float(learned.diverged)}
    arrays = {}
    if not learned.diverged:
        data = reference(x)
        for sampler in config.samplers:
            draw = partial(draw_rbm, method if sampler == "own" else sampler)
            of: dict[str, Any] = {"init": "zero", "generator": generator}
            drawn = draw(learned.model, config.n_judged, config.sweeps, **of)
            for k, sample in drawn.items():
                v = sample[:, : x.shape[1]]
                for name, value in distances(v, data).items():
                    scalars[f"{sampler}/{name}@{k}"] = value
                arrays[f"{sampler}@{k}"] = v[:N_SHOWN].to(torch.uint8).cpu().numpy()
    return Outcome(scalars, arrays)


def cells(config: RBMConfig) -> Cells:
    """Name a cell for every method; and of a problem that linear programs can do."""
    own = replace(config, methods=(), n_seeds=1, lp_steps=0)
    small = _reduced(own, config.lp_steps)
    whole = {(m,): {"method": m, "config": own} for m in config.methods}
    methods = ("PMP", "Gibbs-reset", "LP") if config.lp_steps else ()
    return whole | {("reduced", m): {"method": m, "config": small} for m in methods}


def _reduced(config: RBMConfig, n_steps: int) -> RBMConfig:
    """Return the smaller problem that linear programs can do."""
    return replace(
        config,
        shrink=config.lp_shrink,
        n_hidden=config.lp_hidden,
        n_steps=max(1, n_steps),
        n_chains=config.lp_chains,
        sweeps=(config.n_sweeps,),
    )


def n_seeds(config: RBMConfig, names: Names) -> int:
    """Repeat all but the smaller problem."""
    return 1 if names[0] == "reduced" else config.n_seeds


def gather(config: RBMConfig, runs: Runs) -> Outcome:
    """Make the table, and ``reduced``, the table of the smaller problem."""
    whole, small = parts(runs)
    arrays = {
        f"{method}/{key}": pictures
        for (method,), found in whole.items()
        for key, pictures in found[0].arrays.items()
    }
    reduced = nested(small).get("reduced", {})
    return Outcome({"table": nested(whole), "reduced": reduced}, arrays)


def references(config: RBMConfig, seed: int) -> Outcome:
    """Score what needs no learning, and show some of it."""
    x, source = rbm_data(config, seed)
    null = _independent(x, config.n_judged, seed)
    small = {}
    if config.lp_steps:
        y, _ = rbm_data(_reduced(config, config.lp_steps), seed)
        small = _ends(y, _independent(y, config.n_judged, seed))
    seconds = _lp_seconds(seed) if config.lp_steps else {}
    ends = _ends(x, null) | {"reduced_ends": small, "lp_seconds": seconds}
    shown = {"data": x[:N_SHOWN], "null": null[:N_SHOWN]}
    arrays = {name: z.to(torch.uint8).numpy() for name, z in shown.items()}
    return Outcome({"source": source, "n_data": len(x), **ends}, arrays)


def _independent(x: Tensor, n: int, seed: int) -> Tensor:
    """Draw n pictures of independent pixels with the means of x."""
    coins = torch.rand(n, x.shape[1], generator=make_generator(seed))
    return (coins < x.mean(0)).to(x)


def _ends(x: Tensor, null: Tensor) -> dict[str, dict[str, float]]:
    """Score independent pixels, and a perfect sampler, against x."""
    return {
        "null": distances(null, reference(x)),
        "data": distances_of_data(x, len(null)),
    }


def _lp_seconds(seed: int) -> dict[str, float]:
    """CPU seconds of one perturbed linear program, by the model's size."""
    seconds = {}
    for n_hidden, n_visible in ((10, 49), (20, 100), (20, 196), (50, 196)):
        generator = make_generator(seed)
        model = random_rbm(n_hidden, n_visible, scale=0.3, generator=generator)
        start = time.process_time()
        draw_rbm("LP", model, 1, (1,), generator=generator)
        seconds[f"{n_hidden}x{n_visible}"] = time.process_time() - start
    return seconds


_CLAIMED = {
    "log_mmd2": "log MMD^2",
    "sharp": "log MMD^2, sharp kernel",
    "pairs": "error of pair covariances",
}


def scores(
    result: Result, method: str, measure: str, sampler: str = "own"
) -> dict[int, list[float]]:
    """Scores by number of sweeps, one a seed; NaN if learning diverged."""
    row = result.scalars["table"][method]
    lost = [float("nan")] * len(row["seconds"])
    return {
        k: row.get(f"{sampler}/{measure}@{k}", lost) for k in result.config["sweeps"]
    }


def pmp_is_lowest(result: Result) -> Verdicts:
    """Set every method beside PMP at the sweeps of learning."""
    k, measure = result.config["n_sweeps"], "pairs"
    ours = scores(result, "PMP", measure)
    for method in (m for m in result.scalars["table"] if m != "PMP"):
        ahead, stderr = lead(scores(result, method, measure), ours, k)
        name = f"{_CLAIMED[measure]} of {method} minus that of PMP at {k} sweeps"
        n = len(ours[k])
        yield claim(name, ahead, "at least", 0.0, stderr=stderr, n_seeds=n)


def sees_pairs(
    result: Result, k: int, sampler: str = "own", measure: str = "pairs"
) -> Verdict:
    """Set PMP beside independent pixels, by a measure that sees more than means."""
    own = scores(result, "PMP", measure, sampler)
    null = result.scalars["null"][measure]
    of_null = {j: [null] * len(seeds) for j, seeds in own.items()}
    behind, stderr = lead(own, of_null, k)
    name = f"{_CLAIMED[measure]}: PMP minus independent pixels"
    return claim(name, behind, "at most", 0.0, stderr=stderr, n_seeds=len(own[k]))


def independent_pixels(result: Result) -> Result:
    """Return the scores of independent pixels for every method: nothing learned."""
    null = result.scalars["null"]
    return baseline(result, lambda name: null.get(name.split("/")[-1].split("@")[0]))


def sheet(
    ax: Axes, pictures: np.ndarray | None, n: int, n_columns: int, **kwargs: Any
) -> None:
    """Show some pictures, or say that there are none."""
    if pictures is None:
        ax.text(0.5, 0.5, "diverged", ha="center", va="center")
        ax.set_axis_off()
        return
    side = round(pictures.shape[1] ** 0.5)
    image_grid(ax, pictures[:n].reshape(-1, side, side), n_columns, **kwargs)


def name_row(ax: Axes, text: str, rotation: int = 90) -> None:
    """Write the name of a row of pictures to its left."""
    place: Any = {"va": "center", "ha": "right", "transform": ax.transAxes}
    ax.text(-0.03, 0.5, text, rotation=rotation, **place)


PAPER = RBMConfig(
    n_hidden=500, n_steps=120_000, optimizer="sgd", n_chains=100, n_judged=1000
)
QUICK = RBMConfig(
    source="drawn",
    shrink=2,
    n_hidden=64,
    n_steps=150,
    n_sweeps=25,
    sweeps=(12, 25, 50, 100, 200),
    n_judged=200,
)


#: An experiment with RBMs: which ones, and how they are shown and checked, differs.
rbm_row = partial(
    Experiment,
    cells=cells,
    job=rbm_job,
    n_seeds=n_seeds,
    gather=gather,
    extras=references,
    baseline=independent_pixels,
    devices=("cpu", "cuda"),
)
