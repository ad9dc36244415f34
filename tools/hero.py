"""Make the moving picture of the front page from a real run.

Trains a network energy with the energy discrepancy on a toy density and draws the
landscape as it forms: two minutes on one core.

    python -m tools.hero
"""

import sys

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

from ebmtut.data import DensityData, density_extent
from ebmtut.energies import MLPEnergy
from ebmtut.losses import Bernoulli, energy_discrepancy_loss
from ebmtut.plotting import DENSITY_CMAP
from ebmtut.random import make_generator
from ebmtut.states import gray_encode
from ebmtut.training import TrainConfig, train
from tools.paths import BOOK

PIXELS = 560
CELLS = 280
NATS = 5.0  # how far below its peak the density fades into the background
HOLD = 2500  # ms that the result stays


def landscapes(
    name: str, n_steps: int, n_frames: int, *, seed: int = 0
) -> list[tuple[int, np.ndarray]]:
    """Train, and evaluate the averaged energy on a grid now and then."""
    torch.manual_seed(seed)  # the initial weights
    generator = make_generator(seed)
    data = DensityData(name)
    bits = data.sample_bits(4096, generator=generator).float()
    energy = MLPEnergy(32, base_probs=bits.mean(0))
    edge = density_extent(name)
    axis = torch.linspace(-edge, edge, CELLS, dtype=torch.float64)
    rows, columns = torch.meshgrid(-axis, axis, indexing="ij")
    grid = gray_encode(
        torch.stack([columns.flatten(), rows.flatten()], -1), data.scale
    ).float()
    looks = {0, *np.unique(np.geomspace(20, n_steps, n_frames - 1).astype(int) - 1)}
    seen: list[tuple[int, np.ndarray]] = []

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(energy, x, Bernoulli(0.1), generator=generator)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return data.sample_bits(n, generator=generator).float()

    def look(step: int, averaged: nn.Module) -> None:
        if step in looks:
            with torch.no_grad():
                values = torch.cat([-averaged(part) for part in grid.split(8192)])
            seen.append((step + 1, values.reshape(CELLS, CELLS).numpy()))

    config = TrainConfig(n_steps, ema_decay=0.99)
    train(
        energy, loss, sample, config, generator=generator, on_step=look, progress=True
    )
    return seen


def draw(step: int, values: np.ndarray) -> Image.Image:
    """Draw one landscape, its step in a corner."""
    # The peak of a few cells says little: normalise by a high quantile.
    height = np.clip((values - np.quantile(values, 0.998)) / NATS + 1, 0, 1)
    colours = matplotlib.colormaps[DENSITY_CMAP](height, bytes=True)[..., :3]
    picture = Image.fromarray(colours).resize(
        (PIXELS, PIXELS), Image.Resampling.BICUBIC
    )
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(22)
    pen.text((16, PIXELS - 40), f"step {step}", fill="white", font=font)
    return picture


def main() -> int:
    """Write the moving picture and the still one."""
    frames = [draw(step, values) for step, values in landscapes("2spirals", 6000, 32)]
    still = frames.pop()
    still.save(BOOK / "_static" / "hero-still.webp", quality=85, method=6)
    # The result comes first, so that a reader sees it at once.
    still.save(
        BOOK / "_static" / "hero.webp",
        save_all=True,
        append_images=frames,
        duration=[HOLD] + [160] * len(frames),
        loop=0,
        quality=72,
        method=4,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
