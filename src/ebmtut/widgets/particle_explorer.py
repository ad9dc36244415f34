"""Learned energies of the plane at all noise levels, and Langevin particles in them."""

import math
from collections.abc import Sequence
from typing import Annotated

import anywidget
import numpy as np
import traitlets
from jaxtyping import Float

from ebmtut.checks import InputError, Positive, Range, check_range, checked
from ebmtut.noise import NoiseLevels
from ebmtut.widgets._sources import script, style

__all__ = ["ParticleExplorer", "particle_explorer"]

#: Energies are cut at this much above the least: no particle climbs so high.
_HIGHEST = 30.0
_DISTRIBUTIONS = ("marginal", "conditional")


class ParticleExplorer(anywidget.AnyWidget):
    """The distribution of a level, that of the level above, and particles that run.

    The page carries the energies on a grid. Make it by `particle_explorer`.

    Attributes
    ----------
    distribution
        "marginal" or "conditional". This and the next three follow the reader.
    level
        t, from 0.
    step_size
        Of the Langevin steps.
    seen
        The state one level up.
    energies
        Of all levels at all grid cells, float32, row by row from the lowest.
    samples
        Particles at first: pairs of coordinates, float32.
    squares
        Regions whose masses are compared: x from, x to, y from, y to.
    n_cells
        Cells per side of the grid.
    extent
        Half of its side.
    sigmas
        Noise of the step above each level.
    """

    _esm = script("particle_explorer.js")
    _css = style("particle_explorer.css")

    distribution = traitlets.Enum(_DISTRIBUTIONS, "marginal").tag(sync=True)
    level = traitlets.Int(0, min=0).tag(sync=True)
    step_size = traitlets.Float(0.04, min=0.01, max=0.3).tag(sync=True)
    seen = traitlets.List(traitlets.Float(), [0.4, 0.4]).tag(sync=True)
    energies = traitlets.Bytes().tag(sync=True)
    samples = traitlets.Bytes().tag(sync=True)
    squares = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    n_cells = traitlets.Int().tag(sync=True)
    extent = traitlets.Float().tag(sync=True)
    sigmas = traitlets.List(traitlets.Float()).tag(sync=True)


@checked
def particle_explorer(
    log_density: Float[np.ndarray, "n_levels n n"],
    noise: NoiseLevels,
    extent: Positive,
    samples: Float[np.ndarray, "n_samples 2"],
    squares: Sequence[Sequence[float]],
    *,
    n_cells: Annotated[int, Range(low=2)] = 50,
) -> ParticleExplorer:
    """Make the widget from densities on a grid, and samples of level 0.

    Parameters
    ----------
    log_density, extent
        Of every level at the points of a `ebmtut.metrics.PlaneGrid`, and its extent.
    samples
        Of level 0: where the particles are at first.
    squares
        Regions whose masses are compared: x from, x to, y from, y to.
    n_cells
        Cells per side that the page gets, a divisor of n.
    """
    n_levels, n, _ = log_density.shape
    check_range("number of levels", n_levels, low=noise.n_levels, high=noise.n_levels)
    if n % n_cells:
        raise InputError(f"n_cells must divide {n}, got {n_cells}")
    values = np.asarray(log_density, dtype=np.float64)
    tops = values.max(axis=(1, 2), keepdims=True)
    if not np.isfinite(tops).all():
        found = ", ".join(f"{top:g}" for top in tops.ravel())
        raise InputError(
            f"log_density must have a finite maximum on every level, got {found}"
        )
    k = n // n_cells
    joined = np.exp(values - tops).reshape(n_levels, n_cells, k, n_cells, k)
    density = joined.mean(axis=(2, 4))
    density /= density.max(axis=(1, 2), keepdims=True)
    energies = -np.log(density.clip(min=math.exp(-_HIGHEST)))
    return ParticleExplorer(
        energies=energies.astype(np.float32).tobytes(),
        samples=samples.astype(np.float32).tobytes(),
        squares=[[float(edge) for edge in square] for square in squares],
        n_cells=n_cells,
        extent=extent,
        sigmas=list(noise.sigmas),
    )
