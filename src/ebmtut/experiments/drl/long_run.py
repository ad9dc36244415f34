"""drl/long-run (Figures 7 and 8): longer training, and chains far longer yet."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor, nn

from ebmtut.checks import Count, Range, checked
from ebmtut.energies import at_level, conditional_energy
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.metrics import ImageClassifier
from ebmtut.plotting import OKABE_ITO, figure_size, mean_band, plain_log
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.samplers import adapt_step_size, denoised, hmc, run_chain

#: Ten times as long, at a quarter of the rate.
LONGER = "ten times as long"
#: Trainings by name.
RECIPES = (("recipe", shared.QUICK), (LONGER, shared.FULL))
#: Four times the rate, and no clipping.
HOT = replace(shared.QUICK, learning_rate=16e-3, trust=0.0)


@checked
@dataclass(frozen=True)
class LongRunConfig:
    """Which trainings, and how long their chains."""

    recipes: tuple[tuple[str, shared.ImageRecipe], ...] = RECIPES
    factors: tuple[Count, ...] = (1, 4, 16, 64)
    n_moves: tuple[Count, ...] = (10, 100, 400)  # increasing
    n_samples: Annotated[int, Range(low=64)] = 500
    n_seeds: Count = 1
    collapse: shared.ImageRecipe = HOT


def long_run_job(
    recipe: shared.ImageRecipe,
    factors: tuple[int, ...],
    n_moves: tuple[int, ...],
    n_samples: int,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn; sample with longer and longer chains; continue on level 0."""
    trained = shared.trained_once(recipe, seed, checkpoint, device)
    if trained.message:
        return Outcome(trained.cost)
    generator = make_generator(seed + 2)
    of_set = (recipe.data, shared.classifier_of(recipe.data))
    energy, distances = trained.energy, []
    for factor in factors:
        longer = replace(recipe, n_chain_steps=factor * recipe.n_chain_steps)
        levels = shared.draw_images(energy, longer, n_samples, generator=generator)
        distances.append(shared.measure(levels[0], *of_set)["distance"])
        if factor == factors[0]:
            first = levels
    noise = recipe.noise
    data = shared.image_set(recipe.data)
    zeros = torch.zeros(len(data.held_out), dtype=torch.long)
    noisy = noise.perturb(data.held_out, zeros, generator=generator)[:n_samples]
    of = (n_moves, of_set[1], generator)
    walks = [walk(energy, recipe, x, *of) for x in (first[1], noisy)]
    steps = []  # of each level: size and acceptance rate, adapted to be 0.6 to 0.9
    for t in range(recipe.n_levels):
        x, above = first[t + 1, :64], first[t + 2, :64]
        given = conditional_energy(energy, noise, above, torch.full((len(x),), t))
        size, make = 0.5 * noise.noises[t], partial(hmc, given)
        steps.append(adapt_step_size(make, x, size, generator=generator)[:2])
    sizes, rates = np.array(steps).T
    return Outcome(
        {
            **trained.cost,
            "distance": distances[0],
            "distance of the longest": distances[-1],
            "after the walk": walks[0][-1],
        },
        {
            "distances": np.array(distances),
            "walk": np.array(walks),
            "step sizes": sizes,
            "acceptance": rates,
        },
    )


def walk(
    energy: nn.Module,
    recipe: shared.ImageRecipe,
    x: Tensor,
    n_moves: tuple[int, ...],
    classifier: ImageClassifier,
    generator: torch.Generator,
) -> list[float]:
    """Run Hamiltonian Monte Carlo on level 0; return distances on the way."""
    level, first = at_level(energy, 0), 0.5 * recipe.noise.noises[0]
    make = partial(hmc, level)
    size = adapt_step_size(make, x[:64], first, generator=generator).step_size
    distances = []
    for made, n in zip((0, 0, *n_moves), (0, *n_moves), strict=False):
        if n > made:
            x = run_chain(hmc(level, size), x, n - made, generator=generator).x_final
        clean = denoised(energy, recipe.noise, x).clamp(-1, 1)
        distances.append(shared.measure(clean, recipe.data, classifier)["distance"])
    return distances


def watched_collapse(recipe: shared.ImageRecipe, seed: int) -> np.ndarray:
    """Learn at a rate at which every training diverges, and note energy differences."""
    recovery = recipe.recovery(shared.image_set(recipe.data).images[0].numel())
    seen: list[list[float]] = []

    def watched(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        try:
            return recovery(energy, x, generator=generator)
        finally:
            if recovery.last is not None:
                data, samples, level = recovery.last
                with torch.no_grad():
                    gap = (energy(data, level) - energy(samples, level)).abs()
                seen.append([float(gap.median()), float(gap.max())])

    shared.train_images(recipe, seed, loss=watched)
    return np.array(seen, dtype=np.float64)


def cells(config: LongRunConfig) -> Cells:
    """Name a cell for every training."""
    alike = {k: getattr(config, k) for k in ("factors", "n_moves", "n_samples")}
    return {(name,): {"recipe": recipe} | alike for name, recipe in config.recipes}


def baselines(config: LongRunConfig, seed: int) -> Outcome:
    """Evaluate held-out data and a Gaussian fit; let one run collapse."""
    data = config.recipes[0][1].data
    found = shared.evaluated_baselines(data, config.n_samples, seed)
    collapse = watched_collapse(config.collapse, seed)
    return Outcome(found.distances(), {"collapse": collapse})


def draw_collapse(result: Result) -> Figure:
    """Draw the energy differences of a training that collapses, update by update."""
    figure, ax = plt.subplots(figsize=(4.8, 2.6))
    named = ("median", "blue", 25), ("largest", "vermillion", 900)
    for row, (name, color, y) in zip(result.arrays["collapse"].T, named, strict=False):
        ax.plot(row, color=OKABE_ITO[color])
        ax.text(120, y, f"{name} of the batch", color=OKABE_ITO[color])
    ax.set(yscale="log", xlabel="update", ylabel="energy difference", ylim=(1, 1e6))
    return figure


def draw_long_run(result: Result) -> Figure:
    """Draw the distance over the length of chains and walks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=figure_size("wide"), sharey=True)
    colors = [OKABE_ITO["orange"], OKABE_ITO["blue"], OKABE_ITO["green"]]
    factors = np.array(result.config["factors"])
    moves = np.array([0, *result.config["n_moves"]]) + 1
    for name, color in zip(result.scalars["table"], colors, strict=False):
        if f"distances/{name}" not in result.arrays:
            continue
        of: dict[str, Any] = {"color": color, "marker": "o"}
        mean_band(left, factors, result.arrays[f"distances/{name}"], label=name, **of)
        walks = result.arrays[f"walk/{name}"]
        mean_band(right, moves, walks[:, 0], **of)
        of |= {"marker": "s", "linestyle": "--"}
        mean_band(right, moves, walks[:, 1], **of)
    for ax in (left, right):
        for row, style in (("held-out data", "-"), ("Gaussian fit", ":")):
            ax.axhline(result.scalars[row], color="black", lw=1, ls=style)
        ax.set_xscale("log")
        plain_log(ax.yaxis)
    trained = result.config["recipes"][0][1]["n_chain_steps"]
    left.set_xticks(factors, [f"{k * trained}" for k in factors], minor=False)
    left.xaxis.set_minor_locator(NullLocator())
    left.legend()
    left.set(xlabel="steps per level", ylabel="distance")
    right.set(xlabel="1 + moves on level 0")
    return figure


def check_long_run(result: Result) -> Verdicts:
    """Ask that longer training helps in every seed, and that chains stay on data."""
    table = result.scalars["table"]
    if LONGER not in table:
        return
    row = table[LONGER]
    long = np.array(shared.distances_of(row))
    of: dict[str, Any] = {"n_seeds": len(long)}
    label = f"{LONGER}: fraction of runs that reach the end"
    finished = float(np.isfinite(long).mean())
    # A sanity check: where nothing is learned, nothing collapses.
    yield claim(label, finished, "at least", 1.0, sanity=True, **of)
    if "recipe" in table:
        worst = float(np.max(long / shared.distances_of(table["recipe"])))
        label = f"{LONGER}: distance over the recipe's, in the worst seed"
        yield claim(label, worst, "at most", 0.8, **of)
    for metric in ("distance of the longest", "after the walk"):
        ratios = (shared.distances_of(row, metric) / long).tolist()
        label = f"{LONGER}: {metric}, over the distance of its samples"
        yield claim(label, ratios, "at most", 1.5)


def nothing_learned(result: Result) -> Result:
    """Return the result had training longer not helped, nor chains stayed."""
    table = dict(result.scalars["table"])
    if LONGER in table:
        row = dict(table[LONGER])
        gaussian = [result.scalars["Gaussian fit"]] * len(row["steps"])
        row["distance of the longest"] = row["after the walk"] = gaussian
        if "recipe" in table and "distance" in row:
            table["recipe"] = table["recipe"] | {"distance": row["distance"]}
        table[LONGER] = row
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = shared.image_row(
    id="drl/long-run",
    title="Long-run chains",
    presets={
        "quick": LongRunConfig(RECIPES[:1], factors=(1, 4, 16), n_moves=(10, 100)),
        "full": LongRunConfig(n_seeds=5),
        # T1k and chains of 1, 10 and 100 steps per level. One Langevin step in training
        # stands for the normal approximation, so that chains have a length; the paper's
        # longer chains are Hamiltonian Monte Carlo's, as the walk is here.
        "paper": LongRunConfig(
            (("T1k", replace(shared.T1K, n_chain_steps=1)),),
            factors=(1, 10, 100),
            n_moves=(1, 10, 100),
        ),
    },
    cells=cells,
    job=long_run_job,
    arrays={"*": "{name}/{cell}"},
    stack=True,
    extras=baselines,
    figure=draw_long_run,
    check=check_long_run,
    baseline=nothing_learned,
)


walks_table = Pivot(
    head="training",
    rows={"short training": "table/recipe", "long training": f"table/{LONGER}"},
    columns={
        "its samples": "distance",
        "longest chains": "distance of the longest",
        "after the walk": "after the walk",
        "held-out data": "/held-out data",
        "Gaussian fit": "/Gaussian fit",
    },
    caption="Distance from the data. Trainings: {n_seeds}.",
)
