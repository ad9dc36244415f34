"""Make the moving picture of the front page from a real run.

Trains a network energy with the energy discrepancy on a toy density and draws the
landscape as it forms: two minutes on one core.

    python studies/hero.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import nn

from ebmtut.experiments.ed.evaluation import landscape
from ebmtut.experiments.ed.recipes import Recipe, fit_density
from ebmtut.plotting import DENSITY_CMAP

STATIC = Path(__file__).parents[1] / "book" / "_static"
DENSITY = "2spirals"
N_STEPS, N_FRAMES, PIXELS = 6000, 32, 560
NATS = 5.0  # how far below its peak the density fades into the background
HOLD = 5000  # ms that the result stays


def draw(step: int, values: np.ndarray) -> Image.Image:
    """Draw one landscape, its step in a corner."""
    # The peak of a few cells says little: normalise by a high quantile.
    height = np.clip((values - np.quantile(values, 0.998)) / NATS + 1, 0, 1)
    colours = matplotlib.colormaps[DENSITY_CMAP](height[::-1], bytes=True)[..., :3]
    picture = Image.fromarray(colours).resize(
        (PIXELS, PIXELS), Image.Resampling.BICUBIC
    )
    font = ImageFont.load_default(22)
    corner = (16, PIXELS - 40)
    ImageDraw.Draw(picture).text(corner, f"step {step}", fill="white", font=font)
    return picture


def main() -> None:
    """Write the moving picture and the still one."""
    shown = {0, *np.unique(np.geomspace(20, N_STEPS, N_FRAMES - 1).astype(int) - 1)}
    frames: list[Image.Image] = []

    def look(step: int, averaged: nn.Module) -> None:
        if step in shown:
            frames.append(draw(step + 1, landscape(averaged, DENSITY, n_pixels=280)))

    recipe = Recipe(n_steps=N_STEPS, ema_decay=0.99)
    fit_density(DENSITY, recipe, seed=0, on_step=look, progress=True)
    still = frames.pop()
    still.save(STATIC / "hero-still.webp", quality=85, method=6)
    # The result comes first, so that a reader sees it at once.
    still.save(
        STATIC / "hero.webp",
        save_all=True,
        append_images=frames,
        duration=[HOLD] + [160] * len(frames),
        loop=0,
        quality=72,
        method=4,
    )


if __name__ == "__main__":
    main()
