"""Experiment pmp/rbm (Figures 3 and 6): RBMs that learn all digits."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.pmp import rbm_digits as digits
from ebmtut.experiments.pmp.shared import draw_curves, log_ticks
from ebmtut.experiments.verdicts import Verdicts, claim, lead
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Result


def draw_digits(result: Result) -> Figure:
    """Draw log MMD^2 and the pairs' error over sweeps, and samples at each number."""
    methods, sweeps = list(result.scalars["table"]), result.config["sweeps"]
    heights = (2.8, 1.05 * len(methods))
    figure = plt.figure(figsize=(TEXT_WIDTH, sum(heights)))
    halves = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)
    top, bottom = np.asarray(halves)[:, 0]
    labels = {"log_mmd2": "log MMD²", "pairs": "error of pair covariances"}
    for ax, (measure, label) in zip(top.subplots(1, 2), labels.items(), strict=True):
        curves = {}
        for method in methods:
            found = digits.scores(result, method, measure)
            curves[method] = {k: float(np.mean(found[k])) for k in sweeps}
        levels = {
            "independent pixels": ("null", result.scalars["null"][measure]),
            "held-out data": ("exact", result.scalars["data"][measure]),
        }
        draw_curves(ax, curves, levels)
        log_ticks(ax, sweeps)
        ax.axvline(result.config["n_sweeps"], color="#DDDDDD", lw=1, zorder=0)
        ax.set(xlabel="sweeps", title=label)
    top.legend(*ax.get_legend_handles_labels(), ncol=3, loc="outside lower center")
    columns = ["data", *sweeps]
    axes = bottom.subplots(len(methods), len(columns), squeeze=False)
    for line, method in zip(axes, methods, strict=True):
        for ax, column in zip(line, columns, strict=True):
            key = "data" if column == "data" else f"{method}/own@{column}"
            digits.sheet(ax, result.arrays.get(key), 12, 4)
            if method == methods[0]:
                ax.set_title("data" if column == "data" else f"{column} sweeps")
        digits.name_row(line[0], method)
    return figure


def check_digits(result: Result) -> Verdicts:
    """PMP is lowest at the sweeps of learning; Gibbs-reset is tuned to its own."""
    yield from digits.pmp_is_lowest(result)
    k, later = result.config["n_sweeps"], max(result.config["sweeps"])
    own = digits.scores(result, "PMP", "log_mmd2")
    reset = digits.scores(result, "Gibbs-reset", "log_mmd2")
    loss, stderr = lead({k: reset[later]}, {k: reset[k]}, k)
    # Of one seed: what a sample of PMP, the same at all numbers of sweeps, scatters by.
    stderr = stderr or lead(own, own, k)[1]
    name = f"log MMD^2 of Gibbs-reset at {later} sweeps minus that at {k}"
    yield claim(name, loss, "at least", 0.0, stderr=stderr)
    yield digits.sees_pairs(result, k)


EXPERIMENT = digits.rbm_row(
    id="pmp/rbm",
    title="RBM on MNIST",
    presets={
        "quick": digits.QUICK,
        "full": digits.RBMConfig(
            n_hidden=500, n_sweeps_of={"PMP": 25}, learning_rate=0.005
        ),
        "paper": digits.PAPER,
    },
    figure=draw_digits,
    check=check_digits,
)
