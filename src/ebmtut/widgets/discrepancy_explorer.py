"""Three bits learned by energy discrepancy while noise, M and w are turned."""

import anywidget
import traitlets
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, Probability, checked
from ebmtut.widgets._sources import script, style

__all__ = ["DiscrepancyExplorer", "discrepancy_explorer"]

_MS = (1, 2, 4, 8, 16, 32, 64, 0)
_WS = (0, 0.01, 0.1, 0.3, 1, 3, 10)


class DiscrepancyExplorer(anywidget.AnyWidget):
    """The divergence from data to model, step by step, and both laws.

    Everything is computed in the page, by gradient descent on the expected loss: no
    draws, no kernel, no network. Make it by `discrepancy_explorer`.

    Attributes
    ----------
    eps
        Flip probability of the noise. This and all attributes down to ``step`` follow
        the reader, and the page follows them.
    n_negatives
        M: 1, 2, 4, ..., 64, or 0 for infinitely many.
    stabilizer
        w: 0, 0.01, 0.1, 0.3, 1, 3 or 10.
    step
        Training steps after which the model's law is shown, at most 200.
    data
        Probabilities of the eight states 000, 001, ..., 111.
    """

    _esm = script("discrepancy_explorer.js")
    _css = style("discrepancy_explorer.css")

    eps = traitlets.Float(0.1, min=0.0, max=1.0).tag(sync=True)
    n_negatives = traitlets.Enum(_MS, 4).tag(sync=True)
    stabilizer = traitlets.Enum(_WS, 1).tag(sync=True)
    step = traitlets.Int(200, min=0, max=200).tag(sync=True)
    data = traitlets.List(traitlets.Float()).tag(sync=True)


@checked
def discrepancy_explorer(
    p: Float[Tensor, " n_all"], *, eps: Probability = 0.1
) -> DiscrepancyExplorer:
    """Make the widget.

    Parameters
    ----------
    p
        The data's law over the eight states, in the order of `enumerate_states`; all
        positive.
    eps
        Noise at the start, in [0, 1].

    Raises
    ------
    InputError
        If ``p`` is no law of eight states, or the noise is outside.
    """
    law = p.tolist()
    if len(law) != 8 or min(law) <= 0 or abs(sum(law) - 1) > 1e-6:
        raise InputError(f"p must be 8 positive numbers that sum to 1, got {law}")
    return DiscrepancyExplorer(data=law, eps=eps)
