"""Figures and verdicts of the zeros model."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, IMAGE_CMAP, figure_size
from ebmtut.results import Result

__all__ = [
    "check_mmd",
    "check_samples",
    "curve",
    "draw_mmd",
    "draw_samples",
    "zeros_table",
]


def curve(result: Result, method: str) -> dict[int, float]:
    """Mean log MMD^2 of a method by number of sweeps."""
    row = result.scalars["table"][method]
    return {k: float(np.mean(row[f"log_mmd2@{k}"])) for k in result.config["sweeps"]}


def draw_mmd(result: Result) -> Figure:
    """Draw log MMD^2 over sweeps, with what the data and independent pixels give."""
    figure, ax = plt.subplots(figsize=figure_size("full"))
    for method in result.scalars["table"]:
        values = curve(result, method)
        style = "--" if method in ("Gibbs", "GWG") else "-"
        color = COLORS[method]
        ax.plot(
            list(values),
            list(values.values()),
            style,
            marker="o",
            ms=3,
            color=color,
            label=method,
        )
    ax.axhline(result.scalars["data"], color=COLORS["exact"], lw=1, label="fresh data")
    ax.axhline(
        result.scalars["null"], color=COLORS["null"], lw=1, label="independent pixels"
    )
    ax.set(xlabel="sweeps", ylabel="log MMD² (lower is better)")
    ax.legend(fontsize=8, ncol=2)
    return figure


def draw_samples(result: Result) -> Figure:
    """Draw ten pictures of the data and of every method, a row each.

    Below, if there is one, the reduced model that linear programs learned.
    """
    rows = {"data": result.arrays["data"]}
    rows |= {m: result.arrays[f"samples/{m}"] for m in result.scalars["table"]}
    if "reduced" in result.scalars:
        small = result.scalars["reduced"]["table"]
        rows["reduced data"] = result.arrays["reduced/data"]
        rows |= {f"{m}, reduced": result.arrays[f"reduced/samples/{m}"] for m in small}
    width, _ = figure_size("full")
    figure, axes = plt.subplots(
        len(rows), 10, figsize=(width, 0.1 * width * len(rows)), squeeze=False
    )
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        side = round(pictures.shape[1] ** 0.5)
        for ax, picture in zip(line, pictures, strict=False):
            ax.imshow(picture.reshape(side, side), cmap=IMAGE_CMAP, vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")
    return figure


def zeros_table(result: Result) -> str:
    """Tabulate scores at the sweeps of learning, and what learning computed."""
    k = result.config["n_sweeps"]
    lines = [
        f"score: log MMD2 at {k} sweeps; Gibbs: the weights' score by Gibbs sampling;",
        "of learning: samples a step, and counts in 1e9",
        f"{'':14}  score  Gibbs samples updates energies messages CPU",
    ]
    for method, row in result.scalars["table"].items():
        mean = {name: float(np.mean(values)) for name, values in row.items()}
        lines.append(
            f"{method:14}{mean[f'log_mmd2@{k}']:7.2f}"
            f"{mean['log_mmd2 of Gibbs on these weights']:7.2f}"
            f"{mean['n_chains']:8.0f} {mean['updates'] / 1e9:7.3g}"
            f" {mean['evaluations'] / 1e9:8.3g} {mean['messages'] / 1e9:8.3g}"
            f" {mean['seconds']:.1f} s"
        )
    lines.append(f"{'fresh data':14}{result.scalars['data']:7.2f}  (expected)")
    lines.append(f"{'independent':14}{result.scalars['null']:7.2f}")
    return "\n".join(lines)


def at_training(result: Result, method: str) -> float:
    """Log MMD^2 after as many sweeps as in learning."""
    return curve(result, method)[result.config["n_sweeps"]]


def check_mmd(result: Result) -> list[Verdict]:
    """PMP, from the paper's start, is lowest at the sweeps of learning."""
    ours = at_training(result, "PMP")
    k = result.config["n_sweeps"]
    verdicts = []
    for method in result.scalars["table"]:
        if not method.startswith("PMP"):
            ahead = at_training(result, method) - ours
            name = f"log MMD^2 of {method} minus that of PMP at {k} sweeps"
            verdicts.append(claim(name, ahead, "at least", 0.0))
    return verdicts


def check_samples(result: Result) -> list[Verdict]:
    """PMP's samples, from either start, beat independent pixels; those of LP do not."""
    null = result.scalars["null"]
    verdicts = [
        claim(f"log MMD^2 of {method}", at_training(result, method), "at most", null)
        for method in result.scalars["table"]
        if method.startswith("PMP")
    ]
    if "reduced" in result.scalars:
        k = result.config["reduced"]["n_sweeps"]
        table = result.scalars["reduced"]["table"]
        pmp, lp = (np.mean(table[m][f"log_mmd2@{k}"]) for m in ("PMP", "LP"))
        name = "log MMD^2 of LP minus that of PMP, reduced model"
        verdicts.append(claim(name, float(lp - pmp), "at least", 0.0))
    return verdicts
