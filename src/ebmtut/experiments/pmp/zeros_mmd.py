"""Experiment pmp/zeros-mmd (Figure 4, bottom left): every sampler, by its sweeps."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.experiment import Experiment, grid
from ebmtut.experiments.pmp import zeros
from ebmtut.experiments.pmp.chains import CHAINS, METHODS
from ebmtut.experiments.pmp.shared import draw_curves
from ebmtut.experiments.verdicts import Verdicts, claim, lead
from ebmtut.plotting import figure_size
from ebmtut.results import Result


def draw_mmd(result: Result) -> Figure:
    """Draw log MMD^2 over sweeps, with what the data and independent pixels give."""
    figure, ax = plt.subplots(figsize=figure_size("full"))
    levels = {
        "held-out data": ("exact", result.scalars["data"]),
        "independent pixels": ("null", result.scalars["null"]),
    }
    curves = {
        method: {k: float(np.mean(seeds)) for k, seeds in found.items()}
        for method in result.scalars["table"]
        if (found := zeros.scores(result, method))
    }
    draw_curves(ax, curves, levels, dashed=CHAINS)
    ax.set(xlabel="sweeps", ylabel="log MMD² (lower is better)")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def check_mmd(result: Result) -> Verdicts:
    """PMP, from the paper's start, is lowest at the sweeps of learning."""
    k = result.config["n_sweeps"]
    ours = zeros.scores(result, "PMP")
    for method in result.scalars["table"]:
        if METHODS[method].kind != "PMP":
            ahead, stderr = lead(zeros.scores(result, method), ours, k)
            name = f"log MMD^2 of {method} minus that of PMP at {k} sweeps"
            yield claim(name, ahead, "at least", 0.0, stderr=stderr)


EXPERIMENT = Experiment(
    id="pmp/zeros-mmd",
    title="Zeros model: MMD over sweeps",
    presets={
        "quick": zeros.QUICK,
        "full": zeros.FULL,
        # 100 chains of GWG, too; the five seeds are those of the code's scripts.
        "paper": zeros.ZerosConfig(n_seeds=5),
    },
    cells=lambda config: grid(config, method="methods"),
    job=zeros.zeros_job,
    arrays={"samples": "samples/{cell}"},
    extras=zeros.zeros_references,
    baseline=zeros.independent_pixels,
    devices=("cpu", "cuda"),
    figure=draw_mmd,
    check=check_mmd,
)
