"""Experiment ed/images (Figure 11): samples of energies of binary images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, OneOf, checked
from ebmtut.experiments.ed.image_models import (
    CHAINS,
    DISCREPANCIES,
    IMAGE_SETS,
    METHODS,
    Annealing,
    ImageModel,
    binary_images,
    image_job,
    mixture_nll,
    variety,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import image_grid, panel_size
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result

#: Images of each set that the result keeps, and a picture shows.
_KEPT = 36
# PCD's gradient has no lower bound to rest on, so it takes smaller steps: as of
# `ebmtut.experiments.ed.densities`.
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


def cells(config: ImagesConfig) -> Mapping[Names, Mapping[str, Any]]:
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
    down = -(-len(panels) // across)
    shape = (len(sets) * down, across)
    figure, axes = plt.subplots(*shape, figsize=panel_size(*shape), squeeze=False)
    for name, lines in zip(sets, axes.reshape(len(sets), -1), strict=True):
        for ax in lines[len(panels) :]:
            ax.set_axis_off()
        for ax, label in zip(lines, panels, strict=False):
            images = result.arrays.get(f"{arrays[label]}/{name}")
            if images is None:
                ax.set_axis_off()
                ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=9)
            else:
                image_grid(ax, images[:16].astype(np.float32), 4, vmin=0, vmax=1)
            ax.set_title(label, fontsize=10)
        if len(sets) > 1:
            lines[0].text(-0.05, 0.5, name, ha="right", va="center", fontsize=10,
                          rotation=90, transform=lines[0].transAxes)  # fmt: skip
    return figure


def draw_completions(true: Tensor, filled: Tensor, hidden: Tensor) -> Figure:
    """Draw what is given of some images, what was filled in, and the true images."""
    given = true.clone()
    given[:, hidden] = 0.4
    side = math.isqrt(true.shape[1])
    rows = {"given": given, "filled in": filled, "true": true}
    size = panel_size(3, 1, aspect=0.14, title=0.05)
    figure, axes = plt.subplots(3, 1, figsize=size)
    for ax, (name, images) in zip(axes, rows.items(), strict=True):
        image_grid(ax, images.reshape(-1, side, side), len(true), vmin=0, vmax=1)
        ax.text(-0.01, 0.5, name, ha="right", va="center", transform=ax.transAxes)
    return figure


def check_samples(result: Result) -> list[Verdict]:
    """As the paper says: ED-Bern and ED-Grid varied, ED-Pool collapsed.

    Independent bits are as varied as the data, so that variety alone is no merit.
    """
    verdicts = []
    for method, row in result.scalars["table"].items():
        for name, cell in row.items():
            mean, stderr = mean_and_stderr(cell.get("variety", [None]))
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
            label = f"{method}, {name}: variety over the data's"
            if method == "ED-Pool":
                verdicts.append(claim(label, mean, "at most", COLLAPSED, **of))
            elif method in DISCREPANCIES:
                verdict = claim(label, mean, "at least", VARIED, sanity=True, **of)
                verdicts.append(verdict)
    return verdicts


def independent_bits(result: Result) -> Result:
    """Return what independent bits with the data's means would have got."""
    table = {
        method: {
            name: {key: [value] for key, value in result.scalars["null"][name].items()}
            for name in row
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


_FULL = ImagesConfig(
    data=("MNIST 14x14", "MNIST 14x14, dynamic", "Omniglot 14x14"),
    methods=METHODS,
    model=ImageModel(n_steps=3000),
    annealing=Annealing(64, 1000),
)

EXPERIMENT = Experiment(
    id="ed/images",
    title="Samples of binary image models",
    presets={
        "quick": ImagesConfig(
            model=ImageModel(hidden=128, n_steps=400, batch_size=64, n_negatives=16),
            annealing=Annealing(64, 300),
        ),
        "full": _FULL,
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
    null=independent_bits,
    figure=draw_samples,
    check=check_samples,
    devices=("cpu", "cuda"),
)
