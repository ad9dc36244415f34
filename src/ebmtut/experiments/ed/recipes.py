"""How a density of the chapter is learned, and the jobs that learn and evaluate it.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.2, and its public notebook.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut import losses
from ebmtut.checks import DivergenceError, InputError, OneOf, checked
from ebmtut.data import DensityData, density_extent, sample_density
from ebmtut.energies import MLPEnergy
from ebmtut.experiments.ed.evaluation import (
    Evaluation,
    coverage,
    evaluate_density,
    landscape,
)
from ebmtut.experiments.experiment import stream, stream_seed
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.negatives import flips, persistent
from ebmtut.random import make_generator
from ebmtut.samplers import gwg
from ebmtut.training import Loss, TrainConfig, TrainResult, train, train_ensemble

ED_METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")
METHODS = (*ED_METHODS, "PCD")


@checked
@dataclass(frozen=True)
class Recipe:
    """How to learn one energy."""

    method: Annotated[str, OneOf(METHODS)] = "ED-Bern"
    n_steps: int = 20_000
    batch_size: int = 128
    learning_rate: float = 5e-3
    decay: str = "cosine"
    ema_decay: float = 0.998
    precision: str = "auto"
    n_negatives: int = 32
    stabilizer: float = 1.0
    n_backward: int | None = 4
    eps: float = 0.1
    window: int = 32
    n_chain_steps: int = 5

    def __post_init__(self) -> None:
        if self.method != "PCD":
            perturbation_of(self)
        self.train_config()

    def train_config(self) -> TrainConfig:
        """Return the part that the training loop needs."""
        return TrainConfig(
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
            ema_decay=self.ema_decay,
            precision=self.precision,
        )

    def discrepancy(self) -> Loss:
        """Return the loss of a method other than PCD."""
        return partial(
            losses.energy_discrepancy_loss,
            perturbation=perturbation_of(self),
            n_negatives=self.n_negatives,
            stabilizer=self.stabilizer,
            n_backward=self.n_backward,
        )


class _NoLoss:
    """The limits eps = 0 and 1 of `Bernoulli`: every negative is x itself."""

    def negatives(
        self, x: Tensor, n_negatives: int, *, generator: torch.Generator
    ) -> losses.Negatives:
        return losses.Negatives(x.unsqueeze(1).expand(-1, n_negatives, -1))


def perturbation_of(recipe: Recipe) -> losses.Perturbation:
    """Return a recipe's perturbation; ED-Bern may have the limits eps = 0 and 1."""
    if recipe.method == "ED-Bern":
        return _NoLoss() if recipe.eps in (0, 1) else flips(recipe.eps)
    if recipe.method == "ED-Grid":
        return losses.Grid()
    if recipe.method == "ED-Pool":
        return losses.Pool(recipe.window)
    raise InputError(f"method={recipe.method!r} has no perturbation")


def fit_density(
    density: str,
    recipe: Recipe,
    *,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
    progress: bool = False,
) -> TrainResult:
    """Learn the energy of one of the seven densities."""
    data = DensityData(density)
    energy, start, generator = _start(data, seed, device)
    buffers: dict[str, Tensor] = {}
    loss: Loss
    if recipe.method == "PCD":
        chains = losses.PersistentChains(
            start[: recipe.batch_size], n_steps=recipe.n_chain_steps
        )
        buffers["chains"] = chains.x
        loss = persistent(chains, gwg)
    else:
        loss = recipe.discrepancy()
    return train(
        energy,
        loss,
        data.sample_bits,
        recipe.train_config(),
        generator=generator,
        buffers=buffers,
        checkpoint=checkpoint,
        identity={"density": density, "recipe": asdict(recipe), "seed": seed},
        on_step=on_step,
        progress=progress,
        label=f"{recipe.method} {density}",
    )


def fit_densities(
    densities: Sequence[str],
    recipes: Sequence[Recipe],
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    checkpoint: Path | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
) -> list[TrainResult | DivergenceError]:
    """Learn several energies as one batch: a density, a recipe and a seed each."""
    if not len(densities) == len(recipes) == len(seeds) > 0:
        raise InputError(
            "densities, recipes and seeds must be equally many, at least one, got "
            f"{len(densities)}, {len(recipes)} and {len(seeds)}"
        )
    configs = [recipe.train_config() for recipe in recipes]
    for recipe, config in zip(recipes, configs, strict=True):
        if recipe.method == "PCD" or config != configs[0]:
            raise InputError(
                "recipes of one batch must be of energy discrepancy and train alike, "
                f"got {recipe.method} with {config}"
            )
    data = [DensityData(density) for density in densities]
    starts = [_start(d, seed, device) for d, seed in zip(data, seeds, strict=True)]
    return train_ensemble(
        [energy for energy, _, _ in starts],
        [recipe.discrepancy() for recipe in recipes],
        [d.sample_bits for d in data],
        configs[0],
        generators=[generator for _, _, generator in starts],
        checkpoint=checkpoint,
        identity={
            "densities": list(densities),
            "recipes": [asdict(recipe) for recipe in recipes],
            "seeds": list(seeds),
        },
        cuda_graph=cuda_graph,
        progress=progress,
        label=f"{len(recipes)} energies",
    )


def _start(
    data: DensityData, seed: int, device: str
) -> tuple[MLPEnergy, Tensor, torch.Generator]:
    """Return an untrained energy, 10,000 data points, and the generator."""
    generator = make_generator(seed, device)
    start = data.sample_bits(10_000, generator=generator)
    base = start.mean(0).clamp(1e-3, 1 - 1e-3).cpu()
    energy = MLPEnergy(data.n_sites, base_probs=base, generator=make_generator(seed))
    return energy.to(device), start, generator


def density_job(
    density: str,
    recipe: Recipe,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
) -> Outcome:
    """Learn and evaluate one energy."""
    start = time.perf_counter()
    try:
        how: Any = {"seed": seed, "device": device, "checkpoint": checkpoint}
        result = fit_density(density, recipe, on_step=on_step, **how)
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.perf_counter() - start
    return _evaluated(result, seconds, density, evaluation, seed, n_pixels, device)


def density_jobs(
    jobs: Mapping[str, Mapping[str, Any]],
    *,
    without: Collection[str] = (),
    checkpoint: Path | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
) -> Iterator[tuple[str, Outcome]]:
    """Make the jobs of `density_job`: those that train alike in one batch, but PCD."""
    alike: dict[Any, list[str]] = {}
    for name, job in jobs.items():
        recipe = job["recipe"]
        # Batches of the same length, too: the shorter ones would be padded.
        key = (job["device"], recipe.train_config(), recipe.n_negatives)
        alone = name if recipe.method == "PCD" else ""
        alike.setdefault((*key, alone), []).append(name)
    for k, ((device, *_, alone), names) in enumerate(alike.items()):
        wanted = [name for name in names if name not in without]
        file = checkpoint and checkpoint.with_stem(f"{checkpoint.stem}-{k}")
        start = time.perf_counter()
        if not wanted:
            continue
        if alone:
            outcome = density_job(**jobs[alone], checkpoint=file)
            outcome.seconds = time.perf_counter() - start
            yield alone, outcome
            continue
        results = fit_densities(
            [jobs[name]["density"] for name in names],
            [jobs[name]["recipe"] for name in names],
            seeds=[jobs[name]["seed"] for name in names],
            device=device,
            checkpoint=file,
            cuda_graph=cuda_graph,
            progress=progress,
        )
        seconds = (time.perf_counter() - start) / len(names)
        for name in wanted:
            result, job = results[names.index(name)], jobs[name]
            start = time.perf_counter()
            if isinstance(result, DivergenceError):
                outcome = Outcome({"diverged_at": result.step})
            else:
                keys = ("density", "evaluation", "seed", "n_pixels", "device")
                outcome = _evaluated(result, seconds, *(job[key] for key in keys))
            outcome.seconds = seconds + time.perf_counter() - start
            yield name, outcome


def _evaluated(
    result: TrainResult,
    seconds: float,
    density: str,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str,
) -> Outcome:
    """Evaluate one energy for `density_job`."""
    picture = landscape(result.energy, density, n_pixels=n_pixels)
    held_out = sample_density(density, 10_000, generator=stream("evaluation", seed))
    extent = density_extent(density)
    inside, area = coverage(picture, held_out.numpy(), extent)
    scalars = {"seconds": seconds, "inside": inside, "area": area}
    if evaluation is not None:
        scalars |= evaluate_density(
            result.energy,
            density,
            evaluation,
            seed=stream_seed("evaluation", seed),
            device=device,
        )
    parts = np.array_split(result.losses, 50)
    means = np.array([part.mean() for part in parts if len(part)], dtype=np.float32)
    # Half precision is fine near zero, where the mass is, and ends at 65504.
    picture = (picture - picture.max()).clip(-6e4).astype(np.float16)
    return Outcome(scalars, {"landscape": picture, "losses": means})


#: What the paper prints of its learning.
PAPER_RECIPE = Recipe(
    n_steps=100_000,
    learning_rate=2e-3,
    decay="constant",
    ema_decay=0.999,
    n_backward=None,
)
