"""Row pmp/deconvolution (Figure 4, top and bottom right, and Figure 5 right)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch.nn.functional import pad

from ebmtut.checks import BelowOne, Count, Natural, OneOf, Range, check_range, checked
from ebmtut.data.shapes import SHAPES, ShapeImages, shape_images
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pmp.deconvolution_judge import feature_distances, out_of_reach
from ebmtut.experiments.pmp.leads import took, with_table
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.message_passing import (
    EVIDENCE,
    binary_convolution,
    sample_deconvolution,
)
from ebmtut.plotting import COLORS, TEXT_WIDTH, image_grid
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Table
from ebmtut.samplers.deconvolution import deconvolution_gibbs

__all__ = [
    "ABLATIONS",
    "EXPERIMENT",
    "PROTOCOLS",
    "DeconvolutionConfig",
    "Protocol",
    "deconvolution_job",
    "deconvolution_table",
]

LOCATION_PRIOR, FEATURE_PRIOR = 0.01, 0.25


@checked
@dataclass(frozen=True)
class Protocol:
    """What is left open, or said differently, in the paper and its program.

    Attributes
    ----------
    border
        White pixels added around every image.
    copies_a_pixel
        How often a location's log-odds and noise count for each pixel of a feature,
        once in the authors' program; 0 stands for once in all.
    damping
        Part of the old message that is kept.
    n_starts
        Starts of the messages, of which the one with the best score counts.
    sampler
        "PMP" or "Gibbs".
    """

    border: Natural = 0
    copies_a_pixel: Natural = 0
    damping: BelowOne = 0.5
    n_starts: Count = 1
    sampler: Annotated[str, OneOf(("PMP", "Gibbs"))] = "PMP"


#: One change of the white border's three at a time, and all but one.
ABLATIONS: Mapping[str, Protocol] = {
    "border alone": Protocol(border=1),
    "damping alone": Protocol(damping=0.3),
    "starts alone": Protocol(n_starts=4),
    "no border": Protocol(damping=0.3, n_starts=4),
    "damping 0.5": Protocol(border=1, n_starts=4),
    "one start": Protocol(border=1, damping=0.3),
}
PROTOCOLS: Mapping[str, Protocol] = {
    "one copy": Protocol(),
    "36 copies": Protocol(copies_a_pixel=1),
    "white border": Protocol(border=1, damping=0.3, n_starts=4),
    "Gibbs": Protocol(border=1, sampler="Gibbs"),
    **ABLATIONS,
}


@checked
@dataclass(frozen=True)
class DeconvolutionConfig:
    """How many images, and how they are explained.

    Parameters
    ----------
    n_images, grid, data_seed
        The data; see `shape_images`.
    n_features, feature_side
        Size of the inferred W.
    n_sweeps, n_seeds
        Sweeps of a sample; samples, of consecutive seeds.
    protocols
        Some of `PROTOCOLS`.
    n_shown
        Images that are kept beside what they were taken for.
    """

    n_images: Count = 100
    grid: Count = 10
    data_seed: Natural = 42
    n_features: Annotated[int, Range(low=len(SHAPES))] = 5
    feature_side: int = 6
    n_sweeps: Count = 1000
    n_seeds: Count = 5
    protocols: tuple[Annotated[str, OneOf(PROTOCOLS)], ...] = tuple(PROTOCOLS)
    n_shown: Count = 9

    def __post_init__(self) -> None:
        # As large as the shapes, of side five, and inside an image.
        widest = self.grid + 4
        check_range("feature_side", self.feature_side, low=5, high=widest, integer=True)

    def data(self) -> ShapeImages:
        """Draw the images."""
        generator = make_generator(self.data_seed)
        return shape_images(self.n_images, grid=self.grid, generator=generator)


def deconvolution_job(
    protocol: Protocol, config: DeconvolutionConfig, seed: int, device: str = "cpu"
) -> Outcome:
    """Draw one posterior sample and set it beside the truth.

    Returns
    -------
    outcome
        Scalars ``found`` (true features that are among the inferred),
        ``error`` (part of the pixels that are explained wrongly),
        ``locations``, ``last_change`` of a belief, CPU ``seconds``; arrays
        ``features``, ``images``.
    """
    data = config.data()
    # A chain of single bits is compiled for the CPU alone.
    device = device if protocol.sampler == "PMP" else "cpu"
    images = pad(data.images, [protocol.border] * 4).to(device)
    generator = make_generator(seed, device)
    start = time.process_time()
    side = config.feature_side
    change = float("nan")
    if protocol.sampler == "PMP":
        sample = sample_deconvolution(
            images,
            config.n_features,
            (side, side),
            config.n_sweeps,
            location_prior=LOCATION_PRIOR,
            feature_prior=FEATURE_PRIOR,
            location_copies=max(1, protocol.copies_a_pixel * side**2),
            damping=protocol.damping,
            n_starts=protocol.n_starts,
            generator=generator,
        )
        s, w = sample.locations.cpu(), sample.features.cpu()
        change = float(sample.changes[-1])
    else:
        n = images.shape[-1] - side + 1
        shape = (config.n_images, config.n_features, n, n)
        s, w = deconvolution_gibbs(
            images,
            bernoulli(torch.full(shape, LOCATION_PRIOR), generator=generator),
            bernoulli(
                torch.full((config.n_features, side, side), FEATURE_PRIOR),
                generator=generator,
            ),
            config.n_sweeps,
            evidence=EVIDENCE,
            location_prior=LOCATION_PRIOR,
            feature_prior=FEATURE_PRIOR,
            generator=generator,
        )
    seconds = time.process_time() - start
    border = [-protocol.border] * 4
    made = pad(binary_convolution(s, w), border)
    distances = feature_distances(w, data.features)
    return Outcome(
        {
            "found": float((distances == 0).sum()),
            "error": float((made != data.images).double().mean()),
            "locations": float(s.sum()),
            "last_change": change,
            "seconds": seconds,
        },
        {
            "features": w.numpy().astype(np.uint8),
            "images": made[: config.n_shown].numpy().astype(np.uint8),
        },
    )


def cells(config: DeconvolutionConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name a cell for every protocol."""
    alone = replace(config, protocols=(), n_seeds=1)
    return {
        name: {"protocol": PROTOCOLS[name], "config": alone}
        for name in config.protocols
    }


def n_seeds(config: DeconvolutionConfig, names: Names) -> int:
    """Draw fewer samples, at most two, of what is in the table alone."""
    return min(2, config.n_seeds) if names[0] in ABLATIONS else config.n_seeds


def truth(config: DeconvolutionConfig, seed: int) -> Outcome:
    """Return what the images are made of, and what cannot be explained."""
    data = config.data()
    slack = config.feature_side - data.features.shape[-1]
    n_spare = min(1, config.n_features - len(data.features))
    return Outcome(
        {
            "true_locations": float(data.locations.sum()),
            "out_of_reach": out_of_reach(data.locations, slack, n_spare),
        },
        {
            "truth/features": data.features.numpy().astype(np.uint8),
            "truth/images": data.images[: config.n_shown].numpy().astype(np.uint8),
        },
    )


def draw_deconvolution(result: Result) -> Figure:
    """Draw images, true features and the features of every posterior sample."""
    table = result.scalars["table"]
    names = [name for name in table if name not in ABLATIONS]
    n_rows = -(-len(names) // 2)
    n_seeds, n_features = result.arrays[f"{names[0]}/features"].shape[:2]
    # A panel is half the page: its features, and as much as one for the text.
    tall = 0.35 + TEXT_WIDTH / 2 * n_seeds / (n_features + 1.5)
    heights = [0.85] + [tall] * n_rows
    # Square tiles beside text of fixed size: placed by hand, not by the engine.
    figure = plt.figure(figsize=(TEXT_WIDTH, sum(heights)), layout="none")
    grid = figure.add_gridspec(
        1 + n_rows,
        28,
        height_ratios=heights,
        left=0.01,
        right=0.99,
        bottom=0.01,
        top=0.95,
        hspace=0.15,
    )
    shown = result.arrays["truth/images"]
    left = figure.add_subplot(grid[0, :19])
    left.set_title("images")
    _tiles(left, shown, len(shown))
    right = figure.add_subplot(grid[0, 20:])
    right.set_title("made of")
    _tiles(right, result.arrays["truth/features"], 4)
    for k, name in enumerate(names):
        row, column = divmod(k, 2)
        ax = figure.add_subplot(grid[1 + row, 15 * column : 15 * column + 11])
        features = result.arrays[f"{name}/features"]
        side = features.shape[-1]
        _tiles(ax, features.reshape(-1, side, side), n_features)
        for seed in range(n_seeds):
            found, error = table[name]["found"][seed], table[name]["error"][seed]
            place = (n_features * (side + 1), seed * (side + 1) + side / 2)
            text = f"{found:.0f} of 4\n{100 * error:.1f} %"
            ax.annotate(text, place, va="center", fontsize=9, annotation_clip=False)
        method = "Gibbs" if name == "Gibbs" else "PMP"
        title = name if name == "Gibbs" else f"PMP, {name}"
        ax.set_title(title, color=COLORS[method])
    return figure


def _tiles(ax: Axes, images: np.ndarray, n_columns: int) -> None:
    # White pixels are a shade of grey, so that the edges of a tile can be seen.
    image_grid(ax, images, n_columns=n_columns, vmin=-0.12, vmax=1)


def check_deconvolution(result: Result) -> list[Verdict]:
    """Every true feature is found, and the images are explained."""
    verdicts = []
    for name, row in result.scalars["table"].items():
        if name == "Gibbs" or name in ABLATIONS:
            continue
        n = len(row["found"])
        verdicts += [
            claim(
                f"{name}: true features in the worst sample",
                min(row["found"]),
                "at least",
                4,
                n_seeds=n,
            ),
            claim(
                f"{name}: pixels explained wrongly in the worst sample",
                max(row["error"]),
                "at most",
                0.02,
                n_seeds=n,
            ),
        ]
    return verdicts


def blank_images(result: Result) -> Result:
    """Return the answer "nothing is there": no shape, and all black pixels wrong."""
    config = DeconvolutionConfig(**(result.config | {"protocols": ()}))
    black = float(config.data().images.double().mean())
    table = {
        name: row
        | {"found": [0.0] * len(row["found"]), "error": [black] * len(row["error"])}
        for name, row in result.scalars["table"].items()
    }
    return with_table(result, table)


def deconvolution_table(result: Result) -> Table:
    """Tabulate shapes found and pixels wrong, by protocol."""
    table = result.scalars["table"]
    rows = list(table.values())
    total = result.scalars["true_locations"]
    black = blank_images(result).scalars["table"]
    return Table(
        {
            "protocol": [*table, "nothing is there"],
            "all 4 shapes": [
                f"{sum(f == 4 for f in row['found'])} of {len(row['found'])}"
                for row in rows
            ]
            + [f"0 of {len(rows[0]['found'])}"],
            "shapes, mean": [float(np.mean(row["found"])) for row in rows] + [0.0],
            "wrong pixels [%]": [100 * float(np.mean(row["error"])) for row in rows]
            + [100 * float(np.mean(next(iter(black.values()))["error"]))],
            "locations": [round(float(np.mean(row["locations"]))) for row in rows]
            + [0],
            "time": [took(np.mean(row["seconds"])) for row in rows] + [None],
        },
        caption=f"Means over samples of consecutive seeds. The images hold {total:.0f} "
        "shapes. Time is of one sample, on the CPU.",
        kinds=[""] * len(rows) + ["null"],
        digits=2,
    )


EXPERIMENT = Experiment(
    id="pmp/deconvolution",
    title="Blind deconvolution",
    presets={
        "quick": DeconvolutionConfig(
            n_images=40, n_sweeps=250, n_seeds=2, protocols=("white border", "Gibbs")
        ),
        "full": DeconvolutionConfig(),
        # Its priors are those of the authors' program: the paper prints none.
        "paper": DeconvolutionConfig(n_seeds=1),
    },
    cells=cells,
    job=deconvolution_job,
    n_seeds=n_seeds,
    devices=("cpu", "cuda"),
    arrays={"*": "{cell}/{name}"},
    stack=True,
    extras=truth,
    null=blank_images,
    figure=draw_deconvolution,
    check=check_deconvolution,
)
