"""Figure and verdicts of blind deconvolution."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH, image_grid
from ebmtut.results import Result

__all__ = ["check_deconvolution", "draw_deconvolution"]


def draw_deconvolution(result: Result) -> Figure:
    """Draw images, true features and the features of every posterior sample."""
    table = result.scalars["table"]
    names = list(table)
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
            ax.annotate(text, place, va="center", fontsize=8, annotation_clip=False)
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
        if name == "Gibbs":
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
