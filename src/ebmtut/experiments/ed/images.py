"""Experiment ed/images (Figure 11): energies of binary images, and their samples.

Source: Schröder, Ou, Li and Duncan (2023), Section 5 and Appendix E.3.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut import losses, samplers
from ebmtut.checks import (
    Count,
    DivergenceError,
    NonNegative,
    OneOf,
    Positive,
    Range,
    check_choice,
    checked,
)
from ebmtut.data import ImageData, binarize, load_digits, load_omniglot
from ebmtut.data.images import small_digits
from ebmtut.energies import MLPEnergy, ResNetEnergy
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, stream
from ebmtut.experiments.negatives import flips, persistent
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.losses import Grid, PersistentChains, Perturbation, Pool
from ebmtut.metrics.nll import effective_sample_size, estimate_log_mean_exp
from ebmtut.paths import BasePath
from ebmtut.plotting import image_grid, panel_size
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.training import Loss, TrainConfig, TrainResult, train

# Ink of a one: Omniglot's thin strokes leave less than a half in an averaged pixel.
_INK = 0.2
_KEPT = 36  # images of each set that the result keeps


class BinaryImages(NamedTuple):
    """Binary images: training images (probabilities if dynamic) and held-out ones."""

    side: int
    pixels: Float[Tensor, "n_images n_sites"]
    held_out: Float[Tensor, "n_samples n_sites"]
    source: str

    @property
    def means(self) -> Float[Tensor, " n_sites"]:
        """Means of the pixels, as if one more image were half ink: never 0 or 1."""
        return (self.pixels.sum(0) + 0.5) / (len(self.pixels) + 1)

    def independent_nll(self) -> float:
        """NLL of held-out images under independent bits with those means, in nats."""
        return float(_bernoulli_log_prob(self.held_out, self.means[None]).mean().neg())


def _mnist(side: int) -> tuple[ImageData, int]:
    # The training images only at the paper's size: not every machine has them.
    data = load_digits("train" if side == 28 else "test", generator=make_generator(0))
    images = nn.functional.avg_pool2d(data.images[:, None], 28 // side)[:, 0]
    return data._replace(images=images), 2000


def _omniglot(side: int) -> tuple[ImageData, int]:
    data = load_omniglot(side=side)
    return data._replace(images=(data.images > _INK).float()), 1000


_SETS: Mapping[str, Callable[[], tuple[ImageData, int]]] = {
    "digits 8x8": lambda: (small_digits(), 300),
    "MNIST 14x14": lambda: _mnist(14),
    "Omniglot 14x14": lambda: _omniglot(14),
    "MNIST 28x28": lambda: _mnist(28),
    "Omniglot 28x28": lambda: _omniglot(28),
}
_DYNAMIC = ", dynamic"
IMAGE_SETS = (*_SETS, f"MNIST 14x14{_DYNAMIC}", f"MNIST 28x28{_DYNAMIC}")


@cache
def binary_images(name: str) -> BinaryImages:
    """Load a set, always divided in the same way; dynamic sets keep probabilities."""
    check_choice("data", name, IMAGE_SETS)
    data, n_held_out = _SETS[name.removesuffix(_DYNAMIC)]()
    generator = make_generator(0)
    images = data.images[torch.randperm(len(data.images), generator=generator)]
    pixels = images.flatten(1) if name.endswith(_DYNAMIC) else binarize(images)
    held_out = binarize(pixels[:n_held_out, None], generator=generator)
    kept = pixels[n_held_out:].clone()
    return BinaryImages(images.shape[1], kept, held_out, data.source)


@checked
def mixture_nll(
    data: BinaryImages,
    n_components: Count = 50,
    n_rounds: Count = 50,
    *,
    generator: torch.Generator,
) -> float:
    """Return the held-out NLL of a mixture of independent bits, fitted by EM."""
    x = data.pixels
    start = torch.rand(len(x), n_components, generator=generator)
    shares = (20 * start).softmax(1)
    for _ in range(n_rounds):
        weight = shares.sum(0)
        # As `BinaryImages.means`, with the mean image in place of half ink.
        means = (shares.T @ x + data.means) / (weight[:, None] + 1)
        log_weight = (weight / weight.sum()).clamp_min(1e-30).log()
        shares = (_bernoulli_log_prob(x, means) + log_weight).softmax(1)
    log_prob = (_bernoulli_log_prob(data.held_out, means) + log_weight).logsumexp(1)
    nll = -float(log_prob.mean())
    return nll if math.isfinite(nll) else math.inf


def _bernoulli_log_prob(
    x: Float[Tensor, "n n_sites"], means: Float[Tensor, "n_components n_sites"]
) -> Float[Tensor, "n n_components"]:
    """Log-probability of each state under each distribution of independent bits."""
    return x @ torch.logit(means).T + torch.log1p(-means).sum(1)


DISCREPANCIES = ("ED-Bern", "ED-Grid", "ED-Pool")
#: Persistent chains of the likelihood, and the steps of an update that cost about as
#: much as the 32 negatives of a discrepancy.
CHAINS = {"PCD, Gibbs": 30, "PCD, GWG": 10, "PCD, DULA": 10}
METHODS = (*DISCREPANCIES, *CHAINS)


@checked
@dataclass(frozen=True)
class ImageModel:
    """How an energy of images is learned; the residual network is the paper's."""

    data: Annotated[str, OneOf(IMAGE_SETS)] = "digits 8x8"
    method: Annotated[str, OneOf(METHODS)] = "ED-Bern"
    network: Annotated[str, OneOf(("perceptron", "residual"))] = "perceptron"
    hidden: Count = 256  # units, or channels of the residual network
    n_steps: Count = 5000
    batch_size: Count = 100
    learning_rate: Positive = 2e-3
    decay: str = "cosine"
    n_negatives: Count = 32
    stabilizer: NonNegative = 1.0
    n_backward: Count | None = 4
    n_flips: Positive = 1.0  # mean number per image, of ED-Bern
    window: Count = 2  # side of ED-Pool's blocks
    langevin_step: Positive = 0.1

    def train_config(self) -> TrainConfig:
        """Return the part that the training loop needs."""
        return TrainConfig(
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
            ema_decay=0.999,
            precision="float32",
        )

    def energy(self, data: BinaryImages, seed: int) -> MLPEnergy | ResNetEnergy:
        """Make the network over a base with the data's means."""
        how: Any = {"base_probs": data.means, "generator": make_generator(seed)}
        if self.network == "residual":
            return ResNetEnergy(data.side, self.hidden, **how)
        return MLPEnergy(data.side**2, self.hidden, 3, **how)

    def perturbation(self, side: int) -> Perturbation:
        """Return what a method of energy discrepancy does to an image."""
        if self.method == "ED-Bern":
            return flips(self.n_flips / side**2)
        if self.method == "ED-Grid":
            return Grid()
        return Pool((self.window, self.window), (side, side))

    def sampler(self, energy: nn.Module) -> samplers.Sampler:
        """Return how the persistent chains of the likelihood move."""
        if self.method == "PCD, DULA":
            return samplers.dula(energy, self.langevin_step)
        if self.method == "PCD, Gibbs":
            return samplers.gibbs(energy)
        return samplers.gwg(energy)


@checked
@dataclass(frozen=True)
class Annealing:
    """Annealed importance sampling by DMALA, once more with a quarter of the steps."""

    n_chains: Annotated[int, Range(low=2)] = 100
    n_steps: Annotated[int, Range(low=4)] = 1000
    step_size: Positive = 0.3


def fit_images(
    model: ImageModel, *, seed: int, device: str = "cpu", checkpoint: Path | None = None
) -> TrainResult:
    """Learn an energy of one of the sets, as `ebmtut.training.train` does."""
    data = binary_images(model.data)
    pixels = data.pixels.to(device)
    generator = make_generator(seed, device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        rows = torch.randint(len(pixels), (n,), generator=generator, device=device)
        # Bits stay as they are; probabilities become bits, new ones every time.
        return bernoulli(pixels[rows], generator=generator)

    buffers: dict[str, Tensor] = {}
    if model.method in CHAINS:
        start = sample(model.batch_size, generator=generator)
        chains = PersistentChains(start, n_steps=CHAINS[model.method])
        buffers["chains"] = chains.x
        loss: Loss = persistent(chains, model.sampler)
    else:
        loss = partial(
            losses.energy_discrepancy_loss,
            perturbation=model.perturbation(data.side),
            n_negatives=model.n_negatives,
            stabilizer=model.stabilizer,
            n_backward=model.n_backward,
        )
    return train(
        model.energy(data, seed).to(device),
        loss,
        sample,
        model.train_config(),
        generator=generator,
        buffers=buffers,
        checkpoint=checkpoint,
        identity={"model": asdict(model), "seed": seed, "source": data.source},
        label=f"{model.method} {model.data}",
    )


def anneal(
    energy: MLPEnergy | ResNetEnergy,
    how: Annealing,
    n_steps: int,
    *,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return last states and log-weights, whose mean weight is Z, from the base."""
    assert energy.base_logits is not None
    path = BasePath(energy, energy.base_logits)

    def move(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        chain = samplers.dmala(path.at(t), how.step_size)
        return samplers.run_chain(chain, x, 1, generator=generator).x_final

    x, log_weights, _ = samplers.annealed_importance_sampling(
        path, move, how.n_chains, n_steps, generator=generator
    )
    return x, log_weights + path.log_partition_start


def variety(x: Tensor) -> float:
    """Return the mean fraction of pixels in which two different images differ."""
    means = x.double().mean(0)
    n = len(x)
    return float((2 * means * (1 - means)).mean()) * n / (n - 1)


def evaluate_images(
    found: TrainResult, data: BinaryImages, annealing: Annealing, seed: int
) -> dict[str, Any]:
    """Estimate the NLL of held-out images by annealing to a learned energy."""
    energy = found.energy.requires_grad_(False)
    assert isinstance(energy, (MLPEnergy, ResNetEnergy))
    at = next(energy.parameters()).device
    generator = stream("evaluation", seed, at)
    _, few = anneal(energy, annealing, annealing.n_steps // 4, generator=generator)
    x, weights = anneal(energy, annealing, annealing.n_steps, generator=generator)
    log_z, quick = estimate_log_mean_exp(weights), estimate_log_mean_exp(few)
    with torch.no_grad():
        mean_energy = float(energy(data.held_out.to(at)).double().mean())
    return {
        "nll": mean_energy + log_z.value,
        "nll_se": log_z.stderr,
        "settled": log_z.value - quick.value,
        "ess": effective_sample_size(weights),  # as a fraction of the chains
        "variety": variety(x) / variety(data.held_out),
        "loss": float(np.mean(found.losses[-100:])),
        "samples": x,
    }


def image_job(
    model: ImageModel,
    annealing: Annealing,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy and evaluate it; keep some samples. Only a step if diverged."""
    data = binary_images(model.data)
    began = time.process_time()
    try:
        found = fit_images(model, seed=seed, device=device, checkpoint=checkpoint)
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.process_time() - began
    scalars = evaluate_images(found, data, annealing, seed)
    samples = scalars.pop("samples").reshape(-1, data.side, data.side)
    arrays = {"samples": samples[:_KEPT].bool().cpu().numpy()}
    return Outcome(scalars | {"seconds": seconds}, arrays)


# The loss of PCD has no lower bound, so it takes smaller steps, as for densities.
_SLOWER = 5
#: Samples as varied as the data, and those of a model that has collapsed.
VARIED, COLLAPSED = 0.8, 0.5


@checked
@dataclass(frozen=True)
class ImagesConfig:
    """Sets and methods, the common model, its evaluation, the mixture and the seeds."""

    data: tuple[Annotated[str, OneOf(IMAGE_SETS)], ...] = ("digits 8x8",)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = DISCREPANCIES
    model: ImageModel = field(default_factory=ImageModel)
    annealing: Annealing = field(default_factory=Annealing)
    n_components: Count = 50
    n_seeds: Count = 1


def cells(config: ImagesConfig) -> Cells:
    """Name an entry for every method and set."""
    rate = config.model.learning_rate
    return {
        (method, data): {
            "model": replace(
                config.model,
                data=data,
                method=method,
                learning_rate=rate / _SLOWER if method in CHAINS else rate,
            ),
            "annealing": config.annealing,
        }
        for method in config.methods
        for data in config.data
    }


def known(config: ImagesConfig, seed: int) -> Outcome:
    """Evaluate the baselines; keep held-out images and independent bits."""
    scalars: dict[str, dict[str, Any]] = {"null": {}, "mixture": {}, "source": {}}
    arrays = {}
    for name in config.data:
        data, generator = binary_images(name), make_generator(seed)
        mixture = mixture_nll(data, config.n_components, generator=generator)
        many = data.means.expand(len(data.held_out), -1)
        independent = bernoulli(many, generator=generator)
        scalars["null"][name] = {
            "nll": data.independent_nll(),
            "variety": variety(independent) / variety(data.held_out),
        }
        scalars["mixture"][name] = mixture
        scalars["source"][name] = data.source
        for kind, bits in (("held-out", data.held_out), ("independent", independent)):
            square = bits[:_KEPT].reshape(-1, data.side, data.side)
            arrays[f"{kind}/{name}"] = square.bool().numpy()
    return Outcome(scalars, arrays)


def draw_samples(
    result: Result, sets: Sequence[str] = (), panels: Sequence[str] = ()
) -> Figure:
    """Draw held-out images, independent bits and samples; four panels in two rows."""
    sets, table = list(sets or result.scalars["null"]), result.scalars["table"]
    arrays = {"held-out data": "held-out", "independent bits": "independent"}
    arrays |= {method: f"samples/{method}" for method in table}
    panels = list(panels or arrays)
    across = 2 if len(panels) == 4 else 4
    shape = (len(sets) * -(-len(panels) // across), across)
    size = (4.5, 5.0) if shape == (2, 2) else panel_size(*shape)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.12, hspace=0.08)
    for ax in axes.flat:
        ax.set_axis_off()
    for name, lines in zip(sets, axes.reshape(len(sets), -1), strict=True):
        for ax, label in zip(lines, panels, strict=False):
            images = result.arrays.get(f"{arrays[label]}/{name}")
            if images is None:
                ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=9)
            else:
                image_grid(ax, images[:16].astype(np.float32), 4, vmin=0, vmax=1)
            ax.set_title(label, fontsize=12)
        if len(sets) > 1:
            where = {"ha": "right", "va": "center", "transform": lines[0].transAxes}
            lines[0].text(-0.05, 0.5, name, fontsize=10, rotation=90, **where)
    return figure


def check_samples(result: Result) -> Verdicts:
    """As the paper says: ED-Bern and ED-Grid varied, ED-Pool collapsed."""
    for method, row in result.scalars["table"].items():
        for name, cell in row.items():
            mean, stderr = mean_and_stderr(cell.get("variety", [None]))
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
            label = f"{method}, {name}: variety of the samples relative to the data's"
            if method == "ED-Pool":
                yield claim(label, mean, "at most", COLLAPSED, **of)
            elif method in DISCREPANCIES:  # sanity: independent bits are as varied
                of["sanity"] = True
                yield claim(label, mean, "at least", VARIED, **of)


def independent_bits(result: Result) -> Result:
    """Return what independent bits with the data's means would have got."""
    null = result.scalars["null"]
    row = {name: {key: [v] for key, v in null[name].items()} for name in null}
    table = dict.fromkeys(result.scalars["table"], row)
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="ed/images",
    title="Samples of binary image models",
    presets={
        "quick": ImagesConfig(
            model=ImageModel(hidden=128, n_steps=400, batch_size=64, n_negatives=16),
            annealing=Annealing(64, 300),
        ),
        "full": ImagesConfig(
            data=("MNIST 14x14", "MNIST 14x14, dynamic", "Omniglot 14x14"),
            methods=METHODS,
            model=ImageModel(n_steps=3000),
            annealing=Annealing(64, 1000),
        ),
        # Without Caltech's silhouettes, which no loader here reads; eps is 0.001.
        "paper": ImagesConfig(
            data=("MNIST 28x28", "MNIST 28x28, dynamic", "Omniglot 28x28"),
            methods=METHODS,
            model=ImageModel(
                network="residual",
                hidden=64,
                n_steps=50_000,
                learning_rate=1e-4,
                decay="constant",
                n_flips=0.784,
                n_backward=None,
            ),
            annealing=Annealing(100, 300_000),
        ),
    },
    cells=cells,
    job=image_job,
    arrays={"samples": "samples/{cell}"},
    extras=known,
    baseline=independent_bits,
    figure=draw_samples,
    check=check_samples,
    devices=("cpu", "cuda"),
)
