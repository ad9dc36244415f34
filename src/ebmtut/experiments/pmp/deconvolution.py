"""Row pmp/deconvolution (Figure 4, top and bottom right, and Figure 5 right)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import pad

from ebmtut.checks import check_choice, check_range
from ebmtut.data.shapes import SHAPES, ShapeImages, shape_images
from ebmtut.experiments.jobs import (
    Outcome,
    commits_of,
    run_jobs,
    runs_of,
    scalars_of,
    seeded_jobs,
)
from ebmtut.experiments.pmp.deconvolution_measures import (
    feature_distances,
    out_of_reach,
)
from ebmtut.experiments.pmp.deconvolution_reports import (
    check_deconvolution,
    draw_deconvolution,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.message_passing import (
    EVIDENCE,
    binary_convolution,
    sample_deconvolution,
)
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.samplers.deconvolution import deconvolution_gibbs

__all__ = [
    "DECONVOLUTION",
    "PROTOCOLS",
    "DeconvolutionConfig",
    "Protocol",
    "deconvolution_job",
    "run_deconvolution",
]

LOCATION_PRIOR, FEATURE_PRIOR = 0.01, 0.25


@dataclass(frozen=True)
class Protocol:
    """What is left open, or said differently, in the paper and its program.

    Attributes
    ----------
    border : int
        White pixels added around every image.
    copies_a_pixel : int
        How often a location's log-odds count for each pixel of a feature; 0
        stands for once in all.
    damping : float
        Part of the old message that is kept.
    n_starts : int
        Starts of the messages, of which the one with the best score counts.
    sampler : str
        "PMP" or "Gibbs".
    """

    border: int = 0
    copies_a_pixel: int = 0
    damping: float = 0.5
    n_starts: int = 1
    sampler: str = "PMP"

    def __post_init__(self) -> None:
        for name in ("border", "copies_a_pixel"):
            check_range(name, getattr(self, name), low=0, integer=True)
        check_range("damping", self.damping, low=0, high=1, include_high=False)
        check_range("n_starts", self.n_starts, low=1, integer=True)
        check_choice("sampler", self.sampler, ("PMP", "Gibbs"))


PROTOCOLS: Mapping[str, Protocol] = {
    "as printed": Protocol(),
    "as programmed": Protocol(copies_a_pixel=1),
    "white border": Protocol(border=1, damping=0.3, n_starts=4),
    "Gibbs": Protocol(border=1, sampler="Gibbs"),
}


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

    n_images: int = 100
    grid: int = 10
    data_seed: int = 42
    n_features: int = 5
    feature_side: int = 6
    n_sweeps: int = 1000
    n_seeds: int = 5
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    n_shown: int = 9

    def __post_init__(self) -> None:
        for name in self.protocols:
            check_choice("protocols", name, PROTOCOLS)
        for name in ("n_images", "grid", "n_sweeps", "n_seeds", "n_shown"):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("data_seed", self.data_seed, low=0, integer=True)
        # As many and as large as the shapes, of side five, and inside an image.
        check_range("n_features", self.n_features, low=len(SHAPES), integer=True)
        widest = self.grid + 4
        check_range("feature_side", self.feature_side, low=5, high=widest, integer=True)

    def data(self) -> ShapeImages:
        """Draw the images."""
        generator = make_generator(self.data_seed)
        return shape_images(self.n_images, grid=self.grid, generator=generator)


def deconvolution_job(
    protocol: Protocol, config: DeconvolutionConfig, seed: int
) -> Outcome:
    """Draw one posterior sample and set it beside the truth.

    Returns
    -------
    Outcome
        Scalars ``found`` (true features that are among the inferred),
        ``error`` (part of the pixels that are explained wrongly),
        ``locations``, ``last_change`` of a belief, ``seconds``; arrays
        ``features``, ``images``.
    """
    data = config.data()
    images = pad(data.images, [protocol.border] * 4)
    generator = make_generator(seed)
    start = time.perf_counter()
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
        s, w = sample.locations, sample.features
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
    seconds = time.perf_counter() - start
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


def run_deconvolution(
    config: DeconvolutionConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
) -> Result:
    """Draw posterior samples of consecutive seeds under every protocol.

    Returns
    -------
    Result
        ``scalars["table"][protocol][metric]`` lists the seeds; arrays
        ``protocol/features`` and ``protocol/images`` are stacked over them.
        The samples are drawn on the CPU, whatever the device.
    """
    seeds = range(seed, seed + config.n_seeds)
    alone = replace(config, protocols=(), n_seeds=1)
    cells = {
        name: {"protocol": PROTOCOLS[name], "config": alone}
        for name in config.protocols
    }
    outcomes = run_jobs(
        deconvolution_job,
        seeded_jobs(cells, seeds),
        folder=checkpoints,
        progress=progress,
        label="pmp/deconvolution",
    )
    data = config.data()
    arrays = {
        "truth/features": data.features.numpy().astype(np.uint8),
        "truth/images": data.images[: config.n_shown].numpy().astype(np.uint8),
    }
    table = {}
    for name in config.protocols:
        runs = runs_of(outcomes, name, seeds)
        table[name] = scalars_of(runs)
        for key in runs[0].arrays:
            arrays[f"{name}/{key}"] = np.stack([run.arrays[key] for run in runs])
    slack = config.feature_side - data.features.shape[-1]
    n_spare = min(1, config.n_features - len(data.features))
    scalars = {
        "table": table,
        "true_locations": float(data.locations.sum()),
        "out_of_reach": out_of_reach(data.locations, slack, n_spare),
        "commits": commits_of(outcomes),
    }
    return Result("pmp/deconvolution", "quick", asdict(config), scalars, arrays)


DECONVOLUTION = Experiment(
    id="pmp/deconvolution",
    title="Blind deconvolution",
    presets={
        "quick": DeconvolutionConfig(
            n_images=40, n_sweeps=250, n_seeds=2, protocols=("white border", "Gibbs")
        ),
        "full": DeconvolutionConfig(),
    },
    run=run_deconvolution,
    figure=draw_deconvolution,
    check=check_deconvolution,
    resumes=True,
)
