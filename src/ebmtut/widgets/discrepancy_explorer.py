"""Three bits learned by energy discrepancy, with sliders for the noise, M and w."""

from typing import Annotated

import anywidget
import traitlets
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, NonNegative, Probability, Range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["DiscrepancyExplorer", "discrepancy_explorer"]

_MS = (1, 2, 4, 8, 16, 32, 64, 0)
_WS = (0, 0.01, 0.1, 0.3, 1, 3, 10)


class DiscrepancyExplorer(anywidget.AnyWidget):
    """The KL divergence from data to model, step by step, and both distributions.

    Everything is computed in the page. Make it by `discrepancy_explorer`.

    Attributes
    ----------
    eps
        Flip probability of the noise. All attributes down to ``step`` follow the
        reader.
    n_negatives
        M: 1, 2, 4, ..., 64, or 0 for infinitely many.
    stabilizer
        w, 0 to 10.
    step
        Training step at which the model is shown, at most 200.
    data
        Probabilities of the eight states 000, 001, ..., 111.
    """

    _esm = script("discrepancy_explorer.js")
    _css = style("discrepancy_explorer.css")

    eps = traitlets.Float(0.1, min=0.0, max=1.0).tag(sync=True)
    n_negatives = traitlets.Enum(_MS, 4).tag(sync=True)
    stabilizer = traitlets.Enum(_WS, 1).tag(sync=True)
    step = traitlets.Int(0, min=0, max=200).tag(sync=True)
    data = traitlets.List(traitlets.Float()).tag(sync=True)


@checked
def discrepancy_explorer(
    p: Float[Tensor, " n_all"],
    *,
    eps: Probability = 0.1,
    n_negatives: int = 4,
    stabilizer: NonNegative = 1,
    step: Annotated[int, Range(0, 200)] = 0,
) -> DiscrepancyExplorer:
    """Make the widget.

    Parameters
    ----------
    p
        The data's probabilities of the eight states, all positive.
    """
    data = p.tolist()
    if len(data) != 8 or min(data) <= 0 or abs(sum(data) - 1) > 1e-6:
        raise InputError(f"p must be 8 positive numbers that sum to 1, got {data}")
    for name, value, allowed in (
        ("n_negatives", n_negatives, _MS),
        ("stabilizer", stabilizer, _WS),
    ):
        if value not in allowed:
            raise InputError(f"{name} must be one of {allowed}, got {value}")
    return DiscrepancyExplorer(
        data=data, eps=eps, n_negatives=n_negatives, stabilizer=stabilizer, step=step
    )
