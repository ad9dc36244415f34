"""The landscape of a density against eps, M and w, by moving sliders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anywidget
import matplotlib as mpl
import numpy as np
import traitlets

from ebmtut.plotting import DENSITY_CMAP
from ebmtut.results import Result
from ebmtut.widgets._sources import script, style
from ebmtut.widgets.landscape_pixels import PackedLandscapes, pack_landscapes

__all__ = ["LandscapeExplorer", "landscape_explorer"]

# Where the sliders stand at first: the paper's setting, or the nearest.
_START = {"eps": 0.1, "M": 32, "w": 1}


class LandscapeExplorer(anywidget.AnyWidget):
    """Sliders over stored landscapes, the chosen one beside the true density.

    The page carries every picture as bytes, so that the widget answers
    without a kernel and without a network. Make it by `landscape_explorer`.

    Attributes
    ----------
    selected : list of int
        Positions of the sliders, in the order of ``knobs``. It follows the
        reader, and the reader's sliders follow it.
    knobs : list of dict
        Name and values of each slider, as text.
    notes : list of str
        For each setting the gap in nats, "diverged" or "not run".
    shown : list of int
        For each setting the place of its picture, -1 where there is none.
    pixels : bytes
        All pictures one after the other, the true density first.
    n_pixels : int
        Pixels a side of a picture.
    colors : bytes
        Red, green and blue of the 256 levels.
    """

    _esm = script("landscape_explorer.js")
    _css = style("landscape_explorer.css")

    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    knobs = traitlets.List(traitlets.Dict()).tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shown = traitlets.List(traitlets.Int()).tag(sync=True)
    pixels = traitlets.Bytes().tag(sync=True)
    n_pixels = traitlets.Int().tag(sync=True)
    colors = traitlets.Bytes().tag(sync=True)


def landscape_explorer(
    result: Result,
    knobs: Mapping[str, Sequence[float]] | None = None,
    *,
    method: str = "ED-Bern",
    n_pixels: int = 48,
) -> LandscapeExplorer:
    """Make the widget from a stored result.

    Parameters
    ----------
    result, knobs, method, n_pixels
        As for `pack_landscapes`. A setting that the result lacks is shown
        as "not run".

    Returns
    -------
    LandscapeExplorer
        With the sliders at the paper's setting, or the nearest to it.

    Raises
    ------
    InputError
        If the result has none of the settings.
    """
    packed = pack_landscapes(result, knobs, method=method, n_pixels=n_pixels)
    levels = mpl.colormaps[DENSITY_CMAP](np.arange(256), bytes=True)[:, :3]
    return LandscapeExplorer(
        selected=_start(packed),
        knobs=[
            {"name": name, "values": [f"{v:g}" for v in values]}
            for name, values in packed.knobs.items()
        ],
        notes=list(packed.notes),
        shown=list(packed.shown),
        pixels=b"".join(picture.tobytes() for picture in packed.pictures),
        n_pixels=n_pixels,
        colors=levels.tobytes(),
    )


def _start(packed: PackedLandscapes) -> list[int]:
    """Return the positions nearest to the paper's setting."""
    return [
        min(range(len(values)), key=lambda k: abs(values[k] - _START[name]))
        for name, values in packed.knobs.items()
    ]
