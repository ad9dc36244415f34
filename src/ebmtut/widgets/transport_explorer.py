"""Two distributions that the reader shapes, and what Gibbs-OT finds between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import anywidget
import torch
import traitlets

from ebmtut.checks import InputError, Range, check_range, checked, shown
from ebmtut.widgets._sources import exponentials, script, style

__all__ = [
    "TWO_DISTRIBUTIONS",
    "TransportExplorer",
    "TwoDistributions",
    "transport_explorer",
]

_N_BARS = 32
_LOWEST = 0.02


@dataclass(frozen=True)
class TwoDistributions:
    """Heights of the bars of two distributions; what counts is their shape.

    Attributes
    ----------
    p, q
        Heights in [0.02, 1], as many for both.
    """

    name: str
    p: tuple[float, ...]
    q: tuple[float, ...]


def _bumps(*modes: tuple[float, float, float]) -> tuple[float, ...]:
    """Return bars under bumps (height, mean, width)."""
    centres = [(k + 0.5) / _N_BARS for k in range(_N_BARS)]
    heights = [
        sum(a * math.exp(-(((x - m) / w) ** 2) / 2) for a, m, w in modes)
        for x in centres
    ]
    return tuple(round(min(1.0, max(_LOWEST, height)), 2) for height in heights)


#: Distributions that the page offers, the first at the start.
TWO_DISTRIBUTIONS: tuple[TwoDistributions, ...] = (
    TwoDistributions(
        "two modes to two",
        _bumps((0.9, 0.2, 0.06), (0.5, 0.6, 0.09)),
        _bumps((0.5, 0.35, 0.07), (0.9, 0.8, 0.06)),
    ),
    TwoDistributions(
        "one mode splits",
        _bumps((0.9, 0.5, 0.08)),
        _bumps((0.7, 0.2, 0.06), (0.7, 0.8, 0.06)),
    ),
)


class TransportExplorer(anywidget.AnyWidget):
    """Potentials, plan and certified bound of Gibbs-OT beside the exact ones.

    Everything is computed in the page. Make it by `transport_explorer`.

    Attributes
    ----------
    p, q
        Heights of the bars. All attributes down to ``n_iterations`` follow the reader.
    schedule
        "annealed", from 2 / N by the page's formula with k = 2; "hot" or "cold".
    n_iterations
        Iterations of Algorithm 1, from g = 0.
    shapes
        What may be chosen, see `TwoDistributions`.
    noise
        Exponentials of mean 1, float32; for each iteration N for h and N for g.
    """

    _esm = script("transport_explorer.js")
    _css = style("transport_explorer.css")

    p = traitlets.List(traitlets.Float()).tag(sync=True)
    q = traitlets.List(traitlets.Float()).tag(sync=True)
    schedule = traitlets.Enum(("annealed", "hot", "cold"), "annealed").tag(sync=True)
    n_iterations = traitlets.Int(40, min=1).tag(sync=True)
    shapes = traitlets.List(traitlets.Dict()).tag(sync=True)
    noise = traitlets.Bytes().tag(sync=True)


@checked
def transport_explorer(
    shapes: Sequence[TwoDistributions] = TWO_DISTRIBUTIONS,
    *,
    n_iterations: Annotated[int, Range(low=40)] = 100,
    generator: torch.Generator,
) -> TransportExplorer:
    """Make the widget.

    Parameters
    ----------
    shapes
        Offered distributions, the first at the start; of as many bars, at most 64.
    n_iterations
        How many the slider reaches, at least 40.
    """
    check_range("number of shapes", len(shapes), low=1, integer=True)
    n = len(shapes[0].p)
    check_range("bars", n, low=2, high=64, integer=True)
    for distributions in shapes:
        for side in (distributions.p, distributions.q):
            if len(side) != n or not all(_LOWEST <= height <= 1 for height in side):
                raise InputError(
                    f"shapes must have {n} bars in [{_LOWEST}, 1] each, "
                    f"got {shown(side)} of {distributions.name!r}"
                )
    return TransportExplorer(
        p=list(shapes[0].p),
        q=list(shapes[0].q),
        shapes=[asdict(distributions) for distributions in shapes],
        noise=exponentials(n_iterations, 2 * n, generator=generator),
    )
