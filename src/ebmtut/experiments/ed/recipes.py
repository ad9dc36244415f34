"""How the energy of one of the seven densities is learned.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.2, and its public notebook.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor, nn

from ebmtut import losses
from ebmtut.checks import DivergenceError, InputError, OneOf, checked
from ebmtut.data import DensityData
from ebmtut.energies import MLPEnergy
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


#: What the paper prints of its learning.
PAPER_RECIPE = Recipe(
    n_steps=100_000,
    learning_rate=2e-3,
    decay="constant",
    ema_decay=0.999,
    n_backward=None,
)
