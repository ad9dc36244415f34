"""Inferred features over the sweeps, two samplers beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anywidget
import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, Natural, check_range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["FeatureExplorer", "feature_explorer"]


class FeatureExplorer(anywidget.AnyWidget):
    """A slider over sweeps, and the features that each sampler has then.

    The pictures come with the widget. Make it by `feature_explorer`.

    Attributes
    ----------
    step
        Place of the number of sweeps that is shown.
    sweeps
        The numbers of sweeps.
    names
        The samplers.
    wrong
        Percentage of wrong pixels, by sampler and step.
    n_features, side
        Of each picture.
    pixels
        Grey values 0 to 255, by sampler, step, feature, row and column.
    """

    _esm = script("feature_explorer.js")
    _css = style("feature_explorer.css")

    step = traitlets.Int(0, min=0).tag(sync=True)
    sweeps = traitlets.List(traitlets.Int()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    wrong = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    n_features = traitlets.Int().tag(sync=True)
    side = traitlets.Int().tag(sync=True)
    pixels = traitlets.Bytes().tag(sync=True)


@checked
def feature_explorer(
    sweeps: Sequence[int],
    features: Mapping[str, Float[Tensor, "n_steps n_features side side"]],
    wrong: Mapping[str, Sequence[float]],
    step: Natural = 0,
) -> FeatureExplorer:
    """Make the widget.

    Parameters
    ----------
    sweeps, step
        Numbers of sweeps after which there are pictures; the place of the first shown.
    features
        Probabilities that a pixel of a feature is one, by sampler.
    wrong
        Fraction of wrong pixels of the images, by sampler, for each number of sweeps.
    """
    stacked = torch.stack([*features.values()])
    if {stacked.shape[1], *map(len, wrong.values())} != {len(sweeps)}:
        raise InputError(f"sweeps must be as many as pictures, got {len(sweeps)}")
    check_range("step", step, high=len(sweeps) - 1, integer=True)
    grey = (255 * stacked.clamp(0, 1)).round().to(torch.uint8)
    return FeatureExplorer(
        step=step,
        sweeps=list(sweeps),
        names=list(features),
        wrong=[[100 * value for value in wrong[name]] for name in features],
        n_features=stacked.shape[2],
        side=stacked.shape[3],
        pixels=grey.numpy().tobytes(),
    )
