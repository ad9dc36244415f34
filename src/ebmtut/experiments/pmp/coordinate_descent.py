"""Row pmp/coordinate-descent (Figure 8): RBMs learned by coordinate descent."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.pmp.leads import lead
from ebmtut.experiments.pmp.rbm_digits import PAPER, QUICK, RBMConfig, rbm_row
from ebmtut.experiments.pmp.rbm_reports import (
    score,
    scores,
    sees_pairs,
    sheet,
)
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import figure_size
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "check_descent", "draw_descent"]


def draw_descent(result: Result) -> Figure:
    """Draw samples of both models by every sampler, and their distances."""
    methods, samplers = list(result.scalars["table"]), result.config["samplers"]
    columns = [(s, k) for s in samplers for k in result.config["sweeps"]]
    width, _ = figure_size("full")
    figure, axes = plt.subplots(
        len(methods), len(columns), figsize=(width, 1.65 * len(methods)), squeeze=False
    )
    for line, method in zip(axes, methods, strict=True):
        for ax, (sampler, k) in zip(line, columns, strict=True):
            sheet(ax, result.arrays.get(f"{method}/{sampler}@{k}"), 16, 4)
            name = sampler.removesuffix("-reset").replace("coordinate ", "")
            value = score(result, method, "log_mmd2", k, sampler)
            ax.set_title(f"{name}, {k}\n{value:.2f}", size=9)
        line[0].text(
            -0.08,
            0.5,
            f"by {method}",
            rotation=90,
            va="center",
            ha="right",
            transform=line[0].transAxes,
            size=9,
        )
    return figure


def check_descent(result: Result) -> list[Verdict]:
    """By any sampler, the model of coordinate descent is farther from the data."""
    config = result.config
    first = config["sweeps"][0]
    verdicts = []
    for measure, label in (
        ("log_mmd2", "log MMD^2"),
        ("sharp", "log MMD^2, sharp kernel"),
    ):
        own = scores(result, "PMP", measure, "PMP")
        best = min(
            (
                scores(result, "coordinate descent", measure, sampler)[k]
                for sampler in config["samplers"]
                for k in config["sweeps"]
            ),
            key=sum,
        )
        ahead, stderr = lead({first: best}, {first: own[first]}, first)
        # Of one seed: what a sample of PMP scatters by, twice.
        stderr = stderr or lead(own, own, first)[1]
        name = f"{label}: best of descent minus PMP"
        verdicts.append(claim(name, ahead, "at least", 0.0, stderr=stderr))
    return [*verdicts, sees_pairs(result, first, "PMP", "sharp")]


_METHODS = ("PMP", "coordinate descent")
_SAMPLERS = ("Gibbs-reset", "PMP", "coordinate descent")

EXPERIMENT = rbm_row(
    id="pmp/coordinate-descent",
    title="Coordinate descent, no digits",
    presets={
        "quick": replace(
            QUICK,
            methods=_METHODS,
            samplers=_SAMPLERS,
            sweeps=(25, 250),
            n_judged=100,
        ),
        "full": RBMConfig(
            methods=_METHODS,
            samplers=_SAMPLERS,
            learning_rate=0.005,
            n_steps=600,
            n_sweeps=25,
            sweeps=(100, 10_000),
            n_judged=50,
        ),
        "paper": replace(
            PAPER,
            methods=_METHODS,
            samplers=_SAMPLERS,
            sweeps=(100, 10_000),
        ),
    },
    figure=draw_descent,
    check=check_descent,
)
