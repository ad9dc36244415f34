"""Two spins, whose law one number tells: their generator drawn, their runs judged."""

from __future__ import annotations

import io
from collections.abc import Mapping

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.flows import ExactRollout, Rollout, effective_sample_size
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, DIVERGING_CMAP
from ebmtut.results.tables import Cell, Table

_STATES = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
_NAMES = ("−−", "−+", "+−", "++")
_PLACES = ((0, 1), (1, 1), (0, 0), (1, 0))


def pair_generator(strength: float, t: float) -> np.ndarray:
    """Return the exact one-way generator of two spins; a column is where it starts."""
    rate = strength / (1 + np.exp(-2 * t * strength))
    matrix = np.zeros((4, 4))
    for disagree in (1, 2):
        for agree in (0, 3):
            matrix[agree, disagree] = rate
        matrix[disagree, disagree] = -2 * rate
    return matrix


def pair_picture(path: AnnealingPath, strength: float, t: float) -> Figure:
    """Draw the four states with the flow between them, and the generator."""
    p = path.log_density(_STATES, t).softmax(0).numpy()
    generator = pair_generator(strength, t)
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.6, 2.6))
    for x, column in enumerate(generator.T):
        for y, rate in enumerate(column):
            if rate <= 0:
                continue
            left.annotate(
                "",
                _PLACES[y],
                _PLACES[x],
                arrowprops={
                    "arrowstyle": "-|>",
                    "lw": 25 * rate * p[x],
                    "color": COLORS["DNFS"],
                    "shrinkA": 16,
                    "shrinkB": 22,
                },
            )
    for (x, y), mass, name in zip(_PLACES, p, _NAMES, strict=True):
        left.scatter(x, y, s=2500 * mass, color="#DDDDDD", zorder=3)
        # Small discs are smaller than a number: it stands outside.
        for text, height in ((name, y), (f"{mass:.3f}", y + (0.35 if y else -0.35))):
            left.text(x, height, text, ha="center", va="center", zorder=4, fontsize=8)
    left.set(xlim=(-0.5, 1.5), ylim=(-0.5, 1.5), title=f"t = {t:.1f}")
    left.axis("off")
    limit = 2 * strength
    right.matshow(generator, cmap=DIVERGING_CMAP, vmin=-limit, vmax=limit)
    for (row, column), value in np.ndenumerate(generator):
        text = f"{value:.2f}" if value else "0"
        right.text(column, row, text, ha="center", va="center", fontsize=8)
    right.set_xticks(range(4), _NAMES)
    right.set_yticks(range(4), _NAMES)
    right.set(xlabel="from", ylabel="to")
    right.xaxis.set_label_position("top")
    return figure


def pair_pictures(path: AnnealingPath, strength: float) -> list[ipywidgets.Image]:
    """Draw the picture at eleven times, for a slider."""
    pictures = []
    for k in range(11):
        figure = pair_picture(path, strength, k / 10)
        file = io.BytesIO()
        figure.savefig(file, format="webp", dpi=110, pil_kwargs={"lossless": True})
        plt.close(figure)
        pictures.append(ipywidgets.Image(value=file.getvalue(), format="webp"))
    return pictures


def _share_that_agrees(x: Tensor) -> float:
    return float((x[:, 0] == x[:, 1]).double().mean())


def metropolis_table(
    x: Float[Tensor, "batch 2"], kept: Int[Tensor, " batch"], path: AnnealingPath
) -> Table:
    """Set the share that agrees beside that of a chain that proposes these states."""
    shares = [_share_that_agrees(x), _share_that_agrees(x[kept]), _target_share(path)]
    moved = float((kept[1:] != kept[:-1]).double().mean())
    return Table(
        {
            "": ["as drawn", "Metropolis-Hastings", "target"],
            "share that agrees": shares,
            "accepted": [None, moved, None],
        },
        kinds=["", "", "exact"],
        digits=4,
    )


def agreement_table(
    runs: Mapping[str, Rollout | ExactRollout], path: AnnealingPath
) -> Table:
    """Set the shares that agree beside the ESS of each kind of weights."""
    table: dict[str, list[Cell]] = {"steps": [*runs, "target"]}
    table["share that agrees"] = [_share_that_agrees(run.x) for run in runs.values()]
    table["share that agrees"].append(_target_share(path))
    for head, name in (("ESS", "log_weights"), ("chain", "chain_log_weights")):
        weights = [getattr(run, name, None) for run in runs.values()]
        table[head] = [None if w is None else effective_sample_size(w) for w in weights]
        table[head].append(None)
    return Table(table, kinds=[""] * len(runs) + ["exact"], digits=4)


def _target_share(path: AnnealingPath) -> float:
    p = path.log_density(_STATES, 1.0).softmax(0)
    return float(p[0] + p[3])
