"""The landscape of a density against eps, M and w, by moving sliders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import anywidget
import matplotlib as mpl
import numpy as np
import traitlets

from ebmtut.checks import check_range
from ebmtut.plotting import DENSITY_CMAP, DIVERGED_GAP
from ebmtut.results import Result
from ebmtut.widgets._landscape_pixels import (
    DIVERGED,
    FIELDS,
    PackedLandscapes,
    encode_landscape,
    pack_landscapes,
)
from ebmtut.widgets._sources import script, style

__all__ = ["LandscapeExplorer", "landscape_explorer"]

# Learns at one setting: see `landscape_explorer`.
Learner: TypeAlias = Callable[
    [Mapping[str, float], Callable[[float], None]], tuple[np.ndarray | None, float]
]

# Where the sliders stand at first: the paper's setting, or the nearest.
_START = {"eps": 0.1, "M": 32, "w": 1}
# What stands beside the sliders.
_LABELS = {"eps": "noise ε", "M": "negatives M", "w": "stabiliser w"}


class LandscapeExplorer(anywidget.AnyWidget):
    """Sliders over stored landscapes, the chosen one beside the true density.

    The page contains every picture as bytes. In a live kernel a button trains a model
    with the chosen setting. `landscape_explorer` makes the widget.

    Attributes
    ----------
    selected
        Positions of the sliders, in the order of ``choices``. It follows the reader.
    choices
        Name and values of each slider, as text.
    notes
        For each setting the KL to the data in nats, "diverged" or "not run".
    shown
        For each setting the position of its picture, -1 where there is none.
    pixels
        All pictures one after the other, the true density first.
    n_pixels
        Pixels per side of a picture.
    colors
        Red, green and blue of the 256 levels.
    own
        Results of this kernel: position of a setting, as text, to ``note`` and
        ``pixels``.
    progress
        Fraction of the training steps that are done; None without training.
    """

    _esm = script("landscape_explorer.js")
    _css = style("landscape_explorer.css")

    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    choices = traitlets.List(traitlets.Dict()).tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shown = traitlets.List(traitlets.Int()).tag(sync=True)
    pixels = traitlets.Bytes().tag(sync=True)
    n_pixels = traitlets.Int().tag(sync=True)
    colors = traitlets.Bytes().tag(sync=True)
    own = traitlets.Dict().tag(sync=True)
    progress = traitlets.Float(None, allow_none=True).tag(sync=True)

    def learn_with(
        self, learn: Learner, settings: Sequence[Mapping[str, float]]
    ) -> None:
        """Answer the button: the page asks once who learns, then for settings."""

        def heard(_: object, message: Mapping[str, Any], buffers: object) -> None:
            if "learn" in message:
                self._learn(learn, settings, message["learn"])
            else:
                self.send({"learns": True})

        self.on_msg(heard)

    def _learn(
        self, learn: Learner, settings: Sequence[Mapping[str, float]], place: int
    ) -> None:
        check_range("place", place, low=0, high=len(settings) - 1, integer=True)

        def report(part: float) -> None:
            # One message a percent: a page need not hear of every step.
            if self.progress is None or part >= self.progress + 0.01:
                self.progress = part

        report(0.0)
        try:
            picture, gap = learn(settings[place], report)
        finally:
            self.progress = None
        if picture is None or not gap < DIVERGED_GAP:
            found = {"note": DIVERGED, "pixels": b""}
        else:
            pixels = encode_landscape(picture, self.n_pixels).tobytes()
            found = {"note": f"{gap:.2f}", "pixels": pixels}
        self.own = self.own | {str(place): found}


def landscape_explorer(
    result: Result,
    choices: Mapping[str, Sequence[float]] | None = None,
    *,
    method: str = "ED-Bern",
    n_pixels: int = 48,
    learn: Learner | None = None,
) -> LandscapeExplorer:
    """Make the widget from a stored result.

    Parameters
    ----------
    result, choices, method, n_pixels
        As for `pack_landscapes`. A setting that the result lacks is "not run".
    learn
        What the button of a live kernel calls, ``learn(setting, report)``, with the
        numbers "eps", "n_negatives" and "stabilizer" and a function of the fraction
        done. It returns the log density (None if training diverged) and its KL to the
        data. None for no button.
    """
    packed = pack_landscapes(result, choices, method=method, n_pixels=n_pixels)
    levels = mpl.colormaps[DENSITY_CMAP](np.arange(256), bytes=True)[:, :3]
    widget = LandscapeExplorer(
        selected=_start(packed),
        choices=[
            {"name": _LABELS[name], "values": [f"{v:g}" for v in values]}
            for name, values in packed.choices.items()
        ],
        notes=list(packed.notes),
        shown=list(packed.shown),
        pixels=b"".join(picture.tobytes() for picture in packed.pictures),
        n_pixels=n_pixels,
        colors=levels.tobytes(),
    )
    if learn is not None:
        widget.learn_with(learn, _settings(packed))
    return widget


def _settings(packed: PackedLandscapes) -> list[dict[str, float]]:
    """Return every setting, by the recipe's names, in the order of the notes."""
    fields = [FIELDS[name] for name in packed.choices]
    return [
        {
            field: int(value) if field == "n_negatives" else value
            for field, value in zip(fields, setting, strict=True)
        }
        for setting in product(*packed.choices.values())
    ]


def _start(packed: PackedLandscapes) -> list[int]:
    """Return the positions nearest to the paper's setting."""
    return [
        min(range(len(values)), key=lambda k: abs(values[k] - _START[name]))
        for name, values in packed.choices.items()
    ]
