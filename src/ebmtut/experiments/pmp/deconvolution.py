"""Experiment pmp/deconvolution (Figure 4, top and bottom right, and Figure 5 right)."""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import pad

from ebmtut.checks import BelowOne, Count, Natural, OneOf, Range, check_range, checked
from ebmtut.data.shapes import ShapeImages, shape_images
from ebmtut.experiments.experiment import Cells, Experiment, Names, Outcome
from ebmtut.experiments.pmp.shared import baseline
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.message_passing import EVIDENCE, binary_convolution, sample_deconvolution
from ebmtut.plotting import TEXT_WIDTH, image_grid
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.samplers.deconvolution import deconvolution_gibbs

LOCATION_PRIOR, FEATURE_PRIOR = 0.01, 0.25


@checked
@dataclass(frozen=True)
class Protocol:
    """What is left open, or said differently, in the paper and its program."""

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
    """How many images, and how they are explained."""

    n_images: Count = 100
    grid: Count = 10
    data_seed: Natural = 42
    n_features: Count = 5
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


def feature_distances(
    found: Float[Tensor, "n_features side side"],
    truth: Float[Tensor, "n_true feature_rows feature_columns"],
) -> Int[Tensor, " n_true"]:
    """Pixels by which each true feature misses its closest inferred one."""
    slack = found.shape[-1] - truth.shape[-1]
    places = itertools.product(range(slack + 1), repeat=2)
    shifted = torch.stack([pad(truth, (x, slack - x, y, slack - y)) for y, x in places])
    differs = shifted[:, :, None] != found
    return differs.sum(dim=(-1, -2)).amin(dim=(0, 2))


@checked
def out_of_reach(
    locations: Float[Tensor, "n_images n_true rows columns"],
    slack: int,
    n_spare: Annotated[int, Range(0, 1)],
) -> int:
    """Shapes that no inferred location can place, at the very least."""
    seen = locations.sum(dim=0)
    rows, columns = seen.shape[1:]
    reached = []
    for y, x in itertools.product(range(slack + 1), repeat=2):
        mask = torch.zeros(rows, columns, dtype=torch.bool)
        mask[y : rows - slack + y, x : columns - slack + x] = True
        reached.append(mask)
    best = torch.stack([(seen * mask).sum(dim=(1, 2)) for mask in reached]).amax(dim=0)
    pairs = [a | b for a in reached for b in reached]
    two = torch.stack([(seen * pair).sum(dim=(1, 2)) for pair in pairs])
    gain = float((two.amax(dim=0) - best).max()) if n_spare else 0.0
    return round(float(seen.sum() - best.sum()) - gain)


def deconvolution_job(
    protocol: Protocol, config: DeconvolutionConfig, seed: int, device: str = "cpu"
) -> Outcome:
    """Draw one posterior sample and set it beside the truth."""
    data = config.data()
    # A chain of single bits is compiled for the CPU alone.
    device = device if protocol.sampler == "PMP" else "cpu"
    images = pad(data.images, [protocol.border] * 4).to(device)
    generator = make_generator(seed, device)
    start = time.process_time()
    side, n_features = config.feature_side, config.n_features
    change = float("nan")
    of: dict[str, Any] = {"generator": generator}
    of |= {"location_prior": LOCATION_PRIOR, "feature_prior": FEATURE_PRIOR}
    if protocol.sampler == "PMP":
        copies = max(1, protocol.copies_a_pixel * side**2)
        of |= {"damping": protocol.damping, "n_starts": protocol.n_starts}
        sizes = (n_features, (side, side), config.n_sweeps)
        sample = sample_deconvolution(images, *sizes, location_copies=copies, **of)
        s, w = sample.locations.cpu(), sample.features.cpu()
        change = float(sample.changes[-1])
    else:
        n = images.shape[-1] - side + 1
        shape = (config.n_images, n_features, n, n)
        s = bernoulli(torch.full(shape, LOCATION_PRIOR), generator=generator)
        pixels = torch.full((n_features, side, side), FEATURE_PRIOR)
        w = bernoulli(pixels, generator=generator)
        of["evidence"] = EVIDENCE
        s, w = deconvolution_gibbs(images, s, w, config.n_sweeps, **of)
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


def cells(config: DeconvolutionConfig) -> Cells:
    """Name a cell for every protocol."""
    alone = {"config": replace(config, protocols=(), n_seeds=1)}
    return {name: {"protocol": PROTOCOLS[name], **alone} for name in config.protocols}


def n_seeds(config: DeconvolutionConfig, names: Names) -> int:
    """Draw fewer samples, at most two, of what is in the table alone."""
    return min(2, config.n_seeds) if names[0] in ABLATIONS else config.n_seeds


def truth(config: DeconvolutionConfig, seed: int) -> Outcome:
    """Return what the images are made of, and what cannot be explained."""
    data = config.data()
    slack = config.feature_side - data.features.shape[-1]
    n_spare = int(config.n_features > len(data.features))
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
    """Draw the features of every posterior sample, a panel for each protocol."""
    table = result.scalars["table"]
    names = [name for name in table if name not in ABLATIONS]
    n_seeds, n_features = result.arrays[f"{names[0]}/features"].shape[:2]
    # A panel is half the page: its features, and one and a half more for the text.
    tall = 0.35 + TEXT_WIDTH / 2 * n_seeds / (n_features + 1.5)
    size = (TEXT_WIDTH, tall * -(-len(names) // 2))
    figure, axes = plt.subplots(-(-len(names) // 2), 2, figsize=size, squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes.flat, names, strict=False):
        features = result.arrays[f"{name}/features"]
        side = features.shape[-1]
        # White pixels are a shade of grey, so that the edges of a tile can be seen.
        tiles = features.reshape(-1, side, side)
        image_grid(ax, tiles, n_columns=n_features, vmin=-0.12, vmax=1)
        rows = zip(table[name]["found"], table[name]["error"], strict=True)
        for seed, (found, error) in enumerate(rows):
            place = (n_features * (side + 1), seed * (side + 1) + side / 2)
            text = f"{found:.0f} of 4\n{100 * error:.1f} %"
            ax.annotate(text, place, va="center", annotation_clip=False)
        ax.set_title(name if name == "Gibbs" else f"PMP, {name}")
    return figure


def check_deconvolution(result: Result) -> Verdicts:
    """Every true feature is found, and the images are explained."""
    for name, row in result.scalars["table"].items():
        if name != "Gibbs" and name not in ABLATIONS:
            of: dict[str, Any] = {"n_seeds": len(row["found"])}
            label = f"{name}: true features in the worst sample"
            yield claim(label, min(row["found"]), "at least", 4, **of)
            label = f"{name}: pixels explained wrongly in the worst sample"
            yield claim(label, max(row["error"]), "at most", 0.02, **of)


def blank_images(result: Result) -> Result:
    """Return the answer without shapes: all black pixels are wrong."""
    config = DeconvolutionConfig(**(result.config | {"protocols": ()}))
    black = float(config.data().images.double().mean())
    return baseline(result, {"found": 0.0, "error": black}.get)


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
    baseline=blank_images,
    figure=draw_deconvolution,
    check=check_deconvolution,
)
