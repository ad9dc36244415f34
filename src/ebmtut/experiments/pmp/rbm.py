"""Rows pmp/rbm (Figures 3, 6), pmp/rbm-twos (7) and pmp/coordinate-descent (8)."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from ebmtut.experiments.jobs import (
    Outcome,
    commits_of,
    one_thread,
    run_jobs,
    runs_of,
    scalars_of,
    seeded_jobs,
)
from ebmtut.experiments.pmp.rbm_data import RBMConfig, rbm_data
from ebmtut.experiments.pmp.rbm_measures import (
    distances,
    distances_of_data,
    reference,
)
from ebmtut.experiments.pmp.rbm_reports import (
    check_descent,
    check_digits,
    check_twos,
    draw_descent,
    draw_digits,
    draw_twos,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.losses import draw_rbm, learn_rbm, random_rbm
from ebmtut.random import make_generator
from ebmtut.results import Result

__all__ = [
    "COORDINATE_DESCENT",
    "RBM_DIGITS",
    "RBM_TWOS",
    "rbm_job",
    "run_rbm",
]

N_SHOWN = 25


@one_thread()
def rbm_job(method: str, config: RBMConfig, seed: int) -> Outcome:
    """Learn with one method, sample, and compare with the data.

    Returns
    -------
    Outcome
        Scalars ``seconds`` of CPU, ``diverged``, and ``sampler/measure@sweeps``
        by `distances`; arrays ``sampler@sweeps``, some visible units.
    """
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
        independent pixels with the data's means score, ``data`` what a perfect
        sampler can expect.
        ``reduced`` is the table of the smaller problem, with linear programs,
        and ``lp_seconds`` what one program takes, by pairs of the model.
        Arrays ``method/sampler@sweeps``, ``data`` and ``null``.
    """
    own = replace(config, methods=(), n_seeds=1, lp_steps=0)
    seeds = range(seed, seed + config.n_seeds)
    jobs = seeded_jobs({m: {"method": m, "config": own} for m in config.methods}, seeds)
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
        runs = runs_of(outcomes, method, seeds)
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
    scalars = {
        "table": table,
        "reduced": {m: scalars_of([outcomes[f"reduced-{m}"]]) for m in reduced},
        "lp_seconds": _lp_seconds(seed) if reduced else {},
        "source": source,
        "n_data": len(x),
        "null": distances(null, reference(x)),
        "data": distances_of_data(x, config.n_judged),
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
        "quick": replace(_QUICK, n_steps=250),
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
