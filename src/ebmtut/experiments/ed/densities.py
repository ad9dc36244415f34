"""Rows ed/densities (Figures 3 and 4) and ed/densities-table (Table 1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ebmtut.checks import DivergenceError, check_choice, check_range
from ebmtut.data import DENSITIES, density_extent, exact_entropy, sample_density
from ebmtut.experiments.ed.density_reports import (
    check_landscapes,
    check_table,
    draw_landscapes,
    draw_table,
)
from ebmtut.experiments.ed.judging import (
    Evaluation,
    coverage,
    evaluate_density,
    landscape,
)
from ebmtut.experiments.ed.recipes import (
    METHODS,
    Recipe,
    fit_density,
)
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.registry import Experiment
from ebmtut.random import make_generator
from ebmtut.results import Result

__all__ = [
    "LANDSCAPES",
    "TABLE",
    "DensityConfig",
    "density_job",
    "run_densities",
]

ED_METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")


@dataclass(frozen=True)
class DensityConfig:
    """Which densities, methods and seeds, and how each is learned.

    Parameters
    ----------
    densities
        Names, from `ebmtut.data.DENSITIES`.
    methods
        Number of independent runs of each method, by its name in `METHODS`;
        run k has seed ``seed + k``.
    recipe
        Common to all methods; the method's name is filled in.
    evaluation
        How each energy is judged.
    n_pixels
        Pixels a side of the stored landscapes.
    """

    densities: tuple[str, ...] = DENSITIES
    methods: Mapping[str, int] = field(
        default_factory=lambda: dict.fromkeys(METHODS, 1)
    )
    recipe: Recipe = field(default_factory=Recipe)
    evaluation: Evaluation = field(default_factory=Evaluation)
    n_pixels: int = 128

    def __post_init__(self) -> None:
        for name in self.densities:
            check_choice("densities", name, DENSITIES)
        for name, n_seeds in self.methods.items():
            check_choice("methods", name, METHODS)
            check_range(f"methods[{name!r}]", n_seeds, low=1, integer=True)
        check_range("n_pixels", self.n_pixels, low=2, high=1024, integer=True)


def recipe_of(method: str, recipe: Recipe) -> Recipe:
    """Return the recipe for one method.

    PCD needs a smaller step: its gradient has no lower bound to rest on.
    """
    recipe = replace(recipe, method=method)
    if method == "PCD":
        recipe = replace(recipe, learning_rate=recipe.learning_rate / 5)
    return recipe


def density_job(
    density: str,
    recipe: Recipe,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str = "cpu",
    checkpoint: str | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
) -> Outcome:
    """Learn and judge one energy.

    Returns
    -------
    Outcome
        Scalars of `evaluate_density` with the coverage and the seconds of
        training; the landscape (float16) and the losses, averaged over
        50 equal parts of the run. Only ``diverged_at`` if it diverged.
    """
    start = time.perf_counter()
    path = Path(checkpoint) if checkpoint else None
    try:
        result = fit_density(
            density,
            recipe,
            seed=seed,
            device=device,
            checkpoint=path,
            on_step=on_step,
        )
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.perf_counter() - start
    picture = landscape(result.energy, density, n_pixels=n_pixels)
    held_out = sample_density(density, 10_000, generator=make_generator(seed + 10**6))
    inside, area = coverage(picture, held_out.numpy(), density_extent(density))
    scalars = {"seconds": seconds, "inside": inside, "area": area}
    if evaluation is not None:
        scalars |= evaluate_density(
            result.energy, density, evaluation, seed=seed + 10**6, device=device
        )
    if path is not None:
        path.unlink(missing_ok=True)
    parts = np.array_split(result.losses, 50)
    losses = np.array([part.mean() for part in parts if len(part)], dtype=np.float32)
    # Half precision is fine near zero, where the mass is, and ends at 65504.
    picture = (picture - picture.max()).clip(-6e4).astype(np.float16)
    return Outcome(scalars, {"landscape": picture, "losses": losses})


def density_jobs(
    config: DensityConfig, seed: int, device: str, checkpoints: Path | None
) -> dict[str, dict[str, Any]]:
    """List the jobs of a configuration, all pairs of one seed before the next."""
    jobs: dict[str, dict[str, Any]] = {}
    for k in range(max(config.methods.values())):
        for method in (m for m, n_seeds in config.methods.items() if k < n_seeds):
            for density in config.densities:
                name = job_name(method, density, seed + k)
                jobs[name] = {
                    "density": density,
                    "recipe": recipe_of(method, config.recipe),
                    "evaluation": config.evaluation,
                    "seed": seed + k,
                    "n_pixels": config.n_pixels,
                    "device": device,
                }
                if checkpoints is not None:
                    part = checkpoints / "parts" / f"{name}.safetensors"
                    jobs[name]["checkpoint"] = str(part)
    return jobs


def job_name(method: str, density: str, seed: int) -> str:
    """Name a job."""
    return f"{method}-{density}-{seed}"


def run_densities(
    config: DensityConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
    id: str = "ed/densities-table",
) -> Result:
    """Learn and judge every energy of a configuration.

    Parameters
    ----------
    config
        What to run.
    seed, device, progress
        As for every experiment.
    checkpoints
        Folder that outlives a killed run.
    id
        The row that the result is for.

    Returns
    -------
    Result
        ``scalars["table"][method][density][metric]`` lists the seeds, NaN
        for one that diverged; arrays ``method/density`` and ``truth/density``
        are landscapes of the first seed that did not, and
        ``losses/method/density`` its losses. A cell of which all seeds
        diverged has neither.
    """
    outcomes = run_jobs(
        density_job,
        density_jobs(config, seed, device, checkpoints),
        folder=checkpoints,
        n_workers=1 if device == "cuda" else None,
        progress=progress,
        label=id,
    )
    arrays: dict[str, np.ndarray] = {}
    table: dict[str, Any] = {method: {} for method in config.methods}
    learned = [o.scalars for o in outcomes.values() if "diverged_at" not in o.scalars]
    metrics = dict.fromkeys(metric for scalars in learned for metric in scalars)
    for density in config.densities:
        truth = landscape(None, density, n_pixels=config.n_pixels)
        # Half precision is enough for a picture; it ends at -65504.
        arrays[f"truth/{density}"] = truth.clip(-6e4).astype(np.float16)
        for method, n_seeds in config.methods.items():
            runs = [
                outcomes[job_name(method, density, seed + k)] for k in range(n_seeds)
            ]
            # A run that diverged has no arrays.
            if first := next((run.arrays for run in runs if run.arrays), None):
                arrays[f"{method}/{density}"] = first["landscape"]
                arrays[f"losses/{method}/{density}"] = first["losses"]
            table[method][density] = scalars_of(runs, metrics)
    scalars = {
        "table": table,
        "entropy": {name: exact_entropy(name) for name in config.densities},
        "training_seconds": float(sum(scalars["seconds"] for scalars in learned)),
        "commits": commits_of(outcomes),
    }
    return Result(id, "quick", asdict(config), scalars, arrays)


_QUICK = DensityConfig(
    densities=("2spirals", "circles", "checkerboard"),
    methods=dict.fromkeys(ED_METHODS, 1),
    recipe=Recipe(n_steps=2_000, batch_size=64, ema_decay=0.99),
    evaluation=Evaluation(n_uniform=0, n_proposal=20_000, n_repeats=1),
    n_pixels=96,
)
# Half the paper's batch and a fifth of its steps: four minutes of a core a run, and
# 84 of them for the table.
_FULL = DensityConfig(
    methods=dict.fromkeys(METHODS, 3),
    recipe=Recipe(n_steps=20_000, batch_size=64),
)
# The paper's own protocol; a GPU's work.
_PAPER = DensityConfig(
    methods=dict.fromkeys(METHODS, 3),
    recipe=Recipe(n_steps=100_000, n_backward=None),
    evaluation=Evaluation(n_uniform=1_000_000),
)

LANDSCAPES = Experiment(
    id="ed/densities",
    title="Learned landscapes of densities",
    presets={
        "quick": _QUICK,
        "full": replace(_FULL, methods=dict.fromkeys(ED_METHODS, 1)),
        "paper": replace(_PAPER, methods=dict.fromkeys(ED_METHODS, 1)),
    },
    run=partial(run_densities, id="ed/densities"),
    figure=draw_landscapes,
    check=check_landscapes,
    resumes=True,
)
TABLE = Experiment(
    id="ed/densities-table",
    title="NLL and MMD on seven densities",
    presets={"quick": _QUICK, "full": _FULL, "paper": _PAPER},
    run=run_densities,
    figure=draw_table,
    check=check_table,
    resumes=True,
)
