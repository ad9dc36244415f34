"""Rows pmp/rbm (Figures 3, 6), pmp/rbm-twos (7) and pmp/coordinate-descent (8)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from ebmtut.checks import check_choice, check_range
from ebmtut.data import digits_at_hand
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.perturb_and_max_product.rbm_learning import (
    METHODS,
    draw_rbm,
    learn_rbm,
    random_rbm,
)
from ebmtut.experiments.perturb_and_max_product.rbm_reports import (
    check_descent,
    check_digits,
    check_twos,
    draw_descent,
    draw_digits,
    draw_twos,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.metrics import hamming_distances, hamming_kernel_mean
from ebmtut.random import make_generator
from ebmtut.results import Result

__all__ = [
    "COORDINATE_DESCENT",
    "RBM_DIGITS",
    "RBM_TWOS",
    "RBMConfig",
    "distances",
    "rbm_data",
    "rbm_job",
    "reference",
    "run_rbm",
]

N_SHOWN = 25


@dataclass(frozen=True)
class RBMConfig:
    """Which digits, how they are learned, and how the samples are judged.

    Parameters
    ----------
    methods
        Some of `METHODS`.
    samplers
        By which every learned model is sampled, some of `METHODS`; "own" is that
        of its learning.
    digit
        The only digit to learn, or -1 for all.
    source
        Where the digits come from, as for `ebmtut.data.digits_at_hand`.
    shrink
        Pixels a side that are pooled into one: 1 for 28x28.
    n_hidden, n_steps, learning_rate, optimizer, hidden, batch_size, n_chains
        As for `learn_rbm`.
    n_sweeps
        Sweeps a sample of learning takes.
    n_sweeps_of
        Other numbers of sweeps, by method.
    sweeps
        At which samples of the learned model are judged.
    n_judged
        Samples by which a model is judged.
    n_seeds
        Independent runs; run k has seed ``seed + k``.
    lp_shrink, lp_hidden, lp_steps, lp_chains
        The smaller problem on which linear programs are compared with PMP;
        ``lp_steps`` 0 leaves it out.
    """

    methods: tuple[str, ...] = ("PMP", "Gibbs-reset", "PCD-1", "PCD-100")
    samplers: tuple[str, ...] = ("own",)
    digit: int = -1
    source: str = "auto"
    shrink: int = 1
    n_hidden: int = 100
    n_steps: int = 1000
    learning_rate: float = 0.01
    optimizer: str = "adam"
    hidden: str = "mean"
    batch_size: int = 100
    n_chains: int = 50
    n_sweeps: int = 100
    n_sweeps_of: Mapping[str, int] = field(default_factory=dict)
    sweeps: tuple[int, ...] = (50, 100, 200, 2000)
    n_judged: int = 100
    n_seeds: int = 1
    lp_shrink: int = 4
    lp_hidden: int = 10
    lp_steps: int = 0
    lp_chains: int = 20

    def __post_init__(self) -> None:
        for method in (*self.methods, *self.n_sweeps_of):
            check_choice("methods", method, METHODS)
        for sampler in self.samplers:
            check_choice("samplers", sampler, ("own", *METHODS))
        check_range("digit", self.digit, low=-1, high=9, integer=True)
        for name in ("shrink", "n_hidden", "n_steps", "n_sweeps", "n_seeds"):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("n_judged", self.n_judged, low=2, integer=True)


def rbm_data(config: RBMConfig, seed: int) -> tuple[Tensor, str]:
    """Return the digits as bits, (n, n_visible), in random order, and their source.

    A pixel is 1 above one half, a pooled one if any of its pixels is.
    """
    generator = make_generator(seed)
    data = digits_at_hand(config.source, generator=generator)
    images = data.images
    if config.digit >= 0:
        images = images[data.labels == config.digit]
    x = max_pool2d((images > 0.5).float()[:, None], config.shrink).flatten(1)
    return x[torch.randperm(len(x), generator=generator)], data.source


class Reference(NamedTuple):
    """Data to judge samples by, and its mean kernels, which are dear to compute."""

    x: Tensor
    within: dict[str, float]


def reference(x: Tensor) -> Reference:
    """Prepare data, bits of shape (n, n_visible), for `distances`."""
    rates = {"log_mmd2": 1 / x.shape[1], "sharp": 0.1}
    return Reference(
        x, {name: hamming_kernel_mean(x, x, rate) for name, rate in rates.items()}
    )


def distances(samples: Tensor, data: Reference) -> dict[str, float]:
    """How far samples are from data, by three measures.

    Returns
    -------
    dict
        ``log_mmd2``: log of the squared MMD, a V-statistic, with the paper's
        kernel exp(-average Hamming distance). ``sharp``: the same with
        exp(-0.1 Hamming distance), which sees more than the pixels' means.
        ``nearest``: mean part of the pixels by which a sample differs from the
        datum nearest to it.
    """
    rates = {"log_mmd2": 1 / samples.shape[1], "sharp": 0.1}
    squared = {
        name: hamming_kernel_mean(samples, samples, rate)
        + data.within[name]
        - 2 * hamming_kernel_mean(samples, data.x, rate)
        for name, rate in rates.items()
    }
    nearest = hamming_distances(samples, data.x).min(1).values.mean()
    # At a zero, samples that are the data, rounding may fall below.
    logs = {name: math.log(max(value, 1e-12)) for name, value in squared.items()}
    return logs | {"nearest": float(nearest) / samples.shape[1]}


def rbm_job(method: str, config: RBMConfig, seed: int) -> Outcome:
    """Learn with one method, sample, and compare with the data.

    Returns
    -------
    Outcome
        Scalars ``seconds`` of CPU, ``diverged``, and ``sampler/measure@sweeps``
        by `distances`; arrays ``sampler@sweeps``, some visible units.
    """
    torch.set_num_threads(1)
    x, _ = rbm_data(config, seed)
    generator = make_generator(seed + 1)
    start = time.process_time()
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
        generator=generator,
    )
    seconds = time.process_time() - start
    scalars = {"seconds": seconds, "diverged": float(learned.diverged)}
    arrays = {}
    if not learned.diverged:
        data = reference(x)
        for sampler in config.samplers:
            with_ = method if sampler == "own" else sampler
            drawn = draw_rbm(
                with_,
                learned.model,
                config.n_judged,
                config.sweeps,
                generator=generator,
            )
            for k, sample in drawn.items():
                v = sample[:, : x.shape[1]]
                scalars |= {
                    f"{sampler}/{name}@{k}": value
                    for name, value in distances(v, data).items()
                }
                shown = v[:N_SHOWN].to(torch.uint8).numpy()
                arrays[f"{sampler}@{k}"] = shown
    return Outcome(scalars, arrays)


def run_rbm(
    config: RBMConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
    id: str = "pmp/rbm",
) -> Result:
    """Learn and judge by every method. The kernels are the CPU's.

    Returns
    -------
    Result
        ``scalars["table"][method][metric]`` lists the seeds; ``null`` is what
        independent pixels with the data's means score, ``data`` other data.
        ``reduced`` is the table of the smaller problem, with linear programs,
        and ``lp_seconds`` what one program takes, by pairs of the model.
        Arrays ``method/sampler@sweeps``, ``data`` and ``null``.
    """
    own = replace(config, methods=(), n_seeds=1, lp_steps=0)
    jobs: dict[str, Mapping[str, Any]] = {
        f"{method.replace(' ', '-')}-{seed + k}": {
            "method": method,
            "config": own,
            "seed": seed + k,
        }
        for k in range(config.n_seeds)
        for method in config.methods
    }
    small = replace(
        own,
        shrink=config.lp_shrink,
        n_hidden=config.lp_hidden,
        n_steps=max(1, config.lp_steps),
        n_chains=config.lp_chains,
        sweeps=(config.n_sweeps,),
    )
    reduced = ("PMP", "Gibbs-reset", "LP") if config.lp_steps else ()
    jobs |= {
        f"reduced-{method}": {"method": method, "config": small, "seed": seed}
        for method in reduced
    }
    outcomes = run_jobs(
        rbm_job,
        jobs,
        folder=checkpoints,
        # Where a job takes a few seconds, starting processes takes longer.
        n_workers=1 if config.n_steps < 300 else None,
        progress=progress,
        label=id,
    )
    table, arrays = {}, {}
    for method in config.methods:
        name = method.replace(" ", "-")
        runs = [outcomes[f"{name}-{seed + k}"] for k in range(config.n_seeds)]
        table[method] = scalars_of(runs)
        for key, pictures in runs[0].arrays.items():
            arrays[f"{method}/{key}"] = pictures
    x, source = rbm_data(config, seed)
    generator = make_generator(seed)
    arrays["data"] = x[:N_SHOWN].to(torch.uint8).numpy()
    null = (
        torch.rand(config.n_judged, x.shape[1], generator=generator) < x.mean(0)
    ).to(x)
    arrays["null"] = null[:N_SHOWN].to(torch.uint8).numpy()
    others = reference(x[config.n_judged :])
    scalars = {
        "table": table,
        "reduced": {m: scalars_of([outcomes[f"reduced-{m}"]]) for m in reduced},
        "lp_seconds": _lp_seconds(seed) if reduced else {},
        "source": source,
        "n_data": len(x),
        "null": distances(null, others),
        "data": distances(x[: config.n_judged], others),
        "commits": commits_of(outcomes),
    }
    return Result(id, "quick", asdict(config), scalars, arrays)


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


_PAPER = RBMConfig(
    n_hidden=500,
    n_steps=120_000,
    optimizer="sgd",
    n_chains=100,
    n_judged=1000,
)
_QUICK = RBMConfig(
    source="drawn",
    shrink=2,
    n_hidden=64,
    n_steps=150,
    n_sweeps=25,
    sweeps=(12, 25, 50, 100, 200),
    n_judged=200,
)
_TWOS = RBMConfig(
    digit=2, n_hidden=250, n_judged=500, sweeps=(100,), n_sweeps_of={"PMP": 25}
)
_DESCENT = ("PMP", "coordinate descent")

RBM_DIGITS = Experiment(
    id="pmp/rbm",
    title="RBM on MNIST",
    presets={
        "quick": _QUICK,
        "full": RBMConfig(
            n_hidden=500,
            n_sweeps_of={"PMP": 25},
            learning_rate=0.005,
        ),
        "paper": _PAPER,
    },
    run=run_rbm,
    figure=draw_digits,
    check=check_digits,
    resumes=True,
)
RBM_TWOS = Experiment(
    id="pmp/rbm-twos",
    title="RBM on the twos, with LP solver",
    presets={
        "quick": replace(_QUICK, digit=2, sweeps=(25,)),
        "full": replace(_TWOS, n_seeds=3, lp_steps=60),
        "paper": replace(_TWOS, n_sweeps_of={}, n_seeds=10),
    },
    run=partial(run_rbm, id="pmp/rbm-twos"),
    figure=draw_twos,
    check=check_twos,
    resumes=True,
)
COORDINATE_DESCENT = Experiment(
    id="pmp/coordinate-descent",
    title="Coordinate descent, no digits",
    presets={
        "quick": replace(
            _QUICK,
            methods=_DESCENT,
            samplers=("Gibbs-reset", "PMP", "coordinate descent"),
            sweeps=(25, 250),
            n_judged=100,
        ),
        "full": RBMConfig(
            methods=_DESCENT,
            samplers=("Gibbs-reset", "PMP", "coordinate descent"),
            learning_rate=0.005,
            n_steps=600,
            n_sweeps=25,
            sweeps=(100, 10_000),
            n_judged=50,
        ),
        "paper": replace(
            _PAPER,
            methods=_DESCENT,
            samplers=("Gibbs-reset", "PMP", "coordinate descent"),
            sweeps=(100, 10_000),
        ),
    },
    run=partial(run_rbm, id="pmp/coordinate-descent"),
    figure=draw_descent,
    check=check_descent,
    resumes=True,
)
