"""Prices of three heaps and three holes, sampled at a temperature of choice."""

from __future__ import annotations

from typing import Annotated

import anywidget
import torch
import traitlets

from ebmtut.checks import Range, checked
from ebmtut.widgets._sources import exponentials, script, style

__all__ = ["DualExplorer", "dual_explorer"]

_N_CHAINS = 8
# Where the heaps and the holes are, and their masses.
_PLACES = {"x": [0.0, 1.0, 3.0], "y": [1.0, 2.0, 4.0]}
_MASSES = {"p": [0.5, 0.3, 0.2], "q": [0.3, 0.3, 0.4]}


class DualExplorer(anywidget.AnyWidget):
    """Gibbs-OT on nine numbers, beside the exact prices and the exact plan.

    Everything is computed in the page. Make it by `dual_explorer`.

    Attributes
    ----------
    schedule
        "hot", "cold" or "cools". All attributes down to ``n_iterations`` follow the
        reader.
    chain
        Which of the random numbers are used.
    n_iterations
        How many iterations are shown.
    x, y, p, q
        Places and masses of heaps and holes; the cost is the squared distance.
    noise
        Exponentials of mean 1, float32: by chain and iteration, holes, then heaps.
    """

    _esm = script("dual_explorer.js")
    _css = style("dual_explorer.css")

    schedule = traitlets.Enum(("hot", "cold", "cools"), "hot").tag(sync=True)
    chain = traitlets.Int(0, min=0).tag(sync=True)
    n_iterations = traitlets.Int(1, min=1).tag(sync=True)
    x = traitlets.List(traitlets.Float()).tag(sync=True)
    y = traitlets.List(traitlets.Float()).tag(sync=True)
    p = traitlets.List(traitlets.Float()).tag(sync=True)
    q = traitlets.List(traitlets.Float()).tag(sync=True)
    n_chains = traitlets.Int(_N_CHAINS).tag(sync=True)
    noise = traitlets.Bytes().tag(sync=True)


@checked
def dual_explorer(
    n_iterations: Annotated[int, Range(20, 1000)] = 500, *, generator: torch.Generator
) -> DualExplorer:
    """Make the widget.

    Parameters
    ----------
    n_iterations
        On the slider; the annealing schedule ends with them.
    """
    return DualExplorer(
        **_PLACES,
        **_MASSES,
        n_iterations=n_iterations // 5,
        noise=exponentials(_N_CHAINS, n_iterations, 6, generator=generator),
    )
