"""Experiment pmp/coordinate-descent (Figure 8): RBMs learned by coordinate descent."""

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.pmp import rbm_digits as digits
from ebmtut.experiments.verdicts import Verdicts, claim, lead
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Result


def draw_descent(result: Result) -> Figure:
    """Draw samples of both models by every sampler, and their distances."""
    methods, samplers = list(result.scalars["table"]), result.config["samplers"]
    columns = [(s, k) for s in samplers for k in result.config["sweeps"]]
    size = (TEXT_WIDTH, 1.65 * len(methods))
    figure, axes = plt.subplots(len(methods), len(columns), figsize=size, squeeze=False)
    for line, method in zip(axes, methods, strict=True):
        for ax, (sampler, k) in zip(line, columns, strict=True):
            digits.sheet(ax, result.arrays.get(f"{method}/{sampler}@{k}"), 16, 4)
            value = np.mean(digits.scores(result, method, "log_mmd2", sampler)[k])
            ax.set_title(f"{_SHORT[sampler]}, {k}\n{value:.2f}")
        digits.name_row(line[0], f"by {method}")
    return figure


def check_descent(result: Result) -> Verdicts:
    """By any sampler, the model of coordinate descent is farther from the data."""
    config = result.config
    first = config["sweeps"][0]
    labels = {"log_mmd2": "log MMD^2", "sharp": "log MMD^2, sharp kernel"}
    for measure, label in labels.items():
        own = digits.scores(result, "PMP", measure, "PMP")
        best = min(
            (
                digits.scores(result, "coordinate descent", measure, sampler)[k]
                for sampler in config["samplers"]
                for k in config["sweeps"]
            ),
            key=sum,
        )
        ahead, stderr = lead({first: best}, {first: own[first]}, first)
        # Of one seed: what a sample of PMP scatters by, twice.
        stderr = stderr or lead(own, own, first)[1]
        name = f"{label}: best of descent minus PMP"
        yield claim(name, ahead, "at least", 0.0, stderr=stderr)
    yield digits.sees_pairs(result, first, "PMP", "sharp")


_SHORT = {"Gibbs-reset": "Gibbs", "PMP": "PMP", "coordinate descent": "descent"}
_BOTH: Any = {"methods": ("PMP", "coordinate descent"), "samplers": tuple(_SHORT)}

EXPERIMENT = digits.rbm_row(
    id="pmp/coordinate-descent",
    title="Coordinate descent, no digits",
    presets={
        "quick": replace(digits.QUICK, **_BOTH, sweeps=(25, 250), n_judged=100),
        "full": digits.RBMConfig(
            **_BOTH,
            learning_rate=0.005,
            n_steps=600,
            n_sweeps=25,
            sweeps=(100, 10_000),
            n_judged=50,
        ),
        "paper": replace(digits.PAPER, **_BOTH, sweeps=(100, 10_000)),
    },
    figure=draw_descent,
    check=check_descent,
)
