"""drl/langevin-steps (Figure 9): quality over training for several K."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from ebmtut.checks import Count, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.plotting import OKABE_ITO, figure_size, mean_band, plain_log
from ebmtut.random import make_generator
from ebmtut.results import Result


@checked
@dataclass(frozen=True)
class StepsConfig:
    """Numbers of Langevin steps, and how often a run is evaluated."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    n_chain_steps: tuple[Count, ...] = (1, 3, 6, 12)
    n_sampling: Count = 6
    n_looks: Count = 4
    n_samples: Annotated[int, Range(low=4)] = 500
    n_seeds: Count = 1


def steps_job(
    recipe: shared.ImageRecipe,
    n_sampling: int,
    n_looks: int,
    n_samples: int,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn, and measure the averaged energy on the way."""
    evaluated = replace(recipe, n_chain_steps=n_sampling)
    at = np.linspace(0, recipe.n_steps, n_looks + 1).round().astype(int)[1:]
    distances = torch.full((n_looks,), torch.nan, dtype=torch.float64)
    of_set = (recipe.data, shared.classifier_of(recipe.data))

    def evaluate(step: int, averaged: nn.Module) -> None:
        for k in np.flatnonzero(at == step + 1).tolist():
            of = {"generator": make_generator(seed + 2, device)}
            made = shared.draw_images(averaged, evaluated, n_samples, **of)
            distances[k] = shared.measure(made[0], *of_set)["distance"]

    how: dict[str, Any] = {"device": device, "found": {"distances": distances}}
    trained = shared.train_images(recipe, seed, checkpoint, on_step=evaluate, **how)
    return Outcome(
        {"distance": float(distances[-1]), "steps": trained.cost["steps"]},
        {"looks": at, "distances": distances.numpy()},
    )


def cells(config: StepsConfig) -> Cells:
    """Name a cell for every K."""
    alike = {k: getattr(config, k) for k in ("n_sampling", "n_looks", "n_samples")}
    return {
        (f"K = {n}",): {"recipe": replace(config.recipe, n_chain_steps=n), **alike}
        for n in config.n_chain_steps
    }


def draw_steps(result: Result) -> Figure:
    """Draw the distance over training, a line for each K."""
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    colors = [OKABE_ITO[c] for c in ("vermillion", "orange", "blue", "green", "purple")]
    for name, color in zip(result.scalars["table"], colors, strict=False):
        steps, runs = (result.arrays[f"{k}/{name}"] for k in ("looks", "distances"))
        mean_band(ax, steps[0], runs, color=color, marker="o", label=name)
    ax.set(xlabel="training steps", ylabel="distance from data")
    plain_log(ax.yaxis)
    ax.legend()
    return figure


steps_table = Pivot(
    head="chain",
    rows={"{chain}": "table/{chain}"},
    columns={"distance": "distance"},
    caption="{recipe[n_steps]} steps of training. Seeds: {n_seeds}.",
)


def check_steps(result: Result) -> Verdicts:
    """Ask that too few steps cost quality."""
    rows = result.scalars["table"]
    if not {"K = 1", "K = 6"} <= set(rows):
        return []
    few, stderr = mean_and_stderr(rows["K = 1"]["distance"])
    base, _ = mean_and_stderr(rows["K = 6"]["distance"])
    n_seeds = len(rows["K = 1"]["distance"])
    label = "K = 1: distance over that of K = 6"
    error = None if stderr is None else stderr / base
    return [claim(label, few / base, "at least", 1.5, stderr=error, n_seeds=n_seeds)]


def all_alike(result: Result) -> Result:
    """Return the result had the number of steps not mattered."""
    table = result.scalars["table"]
    same = {name: table.get("K = 6", row) for name, row in table.items()}
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = shared.image_row(
    id="drl/langevin-steps",
    title="Quality over the Langevin steps",
    presets={
        "quick": StepsConfig(shared.ImageRecipe(n_steps=600), (1, 6), n_looks=3),
        "full": StepsConfig(n_seeds=3),
        # 2500 samples every 15,000 steps, as Figure 9. Its K are those of Table 2; that
        # all are evaluated by chains of 30 steps is our choice.
        "paper": StepsConfig(
            shared.CIFAR10,
            n_chain_steps=(10, 30, 50),
            n_sampling=30,
            n_looks=66,
            n_samples=2500,
        ),
    },
    cells=cells,
    job=steps_job,
    arrays={"*": "{name}/{cell}"},
    stack=True,
    figure=draw_steps,
    check=check_steps,
    baseline=all_alike,
)
