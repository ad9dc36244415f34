"""Learned laws of the plane at all noise levels, and Langevin particles in them."""

import math
from typing import Annotated

import anywidget
import numpy as np
import traitlets
from jaxtyping import Float

from ebmtut.checks import InputError, Positive, Range, check_range, checked
from ebmtut.noise import NoiseLevels
from ebmtut.widgets._sources import script, style

__all__ = ["ParticleExplorer", "particle_explorer"]

#: Energies beyond this above the least are cut: no particle climbs so high.
_HIGHEST = 30.0


class ParticleExplorer(anywidget.AnyWidget):
    """The law of a level, the law of the level above, and particles that run.

    The page carries the energies on a grid: no kernel and no network. Make it by
    `particle_explorer`.

    Attributes
    ----------
    law
        In which the particles run, "conditional" or "marginal". This and the next
        four follow the reader, and the page follows them.
    level
        t, from 0.
    step_size
        Of the Langevin steps.
    n_steps
        K, steps of a run.
    seen
        The state one level up.
    energies
        Of all levels at all cells, float32, row by row from the lowest.
    n_cells, extent
        Cells a side of the grid; half of its side.
    sigmas
        Noise of the step above each level.
    """

    _esm = script("particle_explorer.js")
    _css = style("particle_explorer.css")

    law = traitlets.Enum(("conditional", "marginal"), "conditional").tag(sync=True)
    level = traitlets.Int(0, min=0).tag(sync=True)
    step_size = traitlets.Float(0.2, min=0.02, max=1.0).tag(sync=True)
    n_steps = traitlets.Int(30, min=1, max=200).tag(sync=True)
    seen = traitlets.List(traitlets.Float(), [0.0, 0.0]).tag(sync=True)
    energies = traitlets.Bytes().tag(sync=True)
    n_cells = traitlets.Int().tag(sync=True)
    extent = traitlets.Float().tag(sync=True)
    sigmas = traitlets.List(traitlets.Float()).tag(sync=True)


@checked
def particle_explorer(
    log_density: Float[np.ndarray, "n_levels n n"],
    noise: NoiseLevels,
    extent: Positive,
    *,
    n_cells: Annotated[int, Range(low=2)] = 50,
) -> ParticleExplorer:
    """Make the widget from densities on a grid.

    Parameters
    ----------
    log_density
        Of every level at the points of a `ebmtut.metrics.PlaneGrid`.
    noise
        The forward chain, with as many levels.
    extent
        Of the grid.
    n_cells
        Cells a side that the page gets, a divisor of n; a cell has the mean
        density of those that it joins.

    Raises
    ------
    InputError
        If the numbers of levels differ, ``n_cells`` is no divisor, or a level has
        no finite density.
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
        n_cells=n_cells,
        extent=extent,
        sigmas=list(noise.sigmas),
    )
