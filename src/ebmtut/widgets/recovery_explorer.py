"""Two distant modes, what a noisy copy leaves of them, and chains in that."""

from typing import Annotated

import anywidget
import traitlets

from ebmtut.checks import Range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["RecoveryExplorer", "recovery_explorer"]


class RecoveryExplorer(anywidget.AnyWidget):
    """A conditional distribution on a line, and Langevin chains that should sample it.

    Everything is computed in the page. Make it by `recovery_explorer`.

    Attributes
    ----------
    sigma
        Noise of the copy, in [0.25, 0.98]. All attributes follow the reader.
    seen
        The noisy copy.
    start
        Initial point of all chains.
    n_steps
        Langevin steps of each chain.
    """

    _esm = script("recovery_explorer.js")
    _css = style("recovery_explorer.css")

    sigma = traitlets.Float(0.98, min=0.25, max=0.98).tag(sync=True)
    seen = traitlets.Float(1.0, min=-2.5, max=2.5).tag(sync=True)
    start = traitlets.Float(-2.0, min=-2.5, max=2.5).tag(sync=True)
    n_steps = traitlets.Int(60, min=10, max=600).tag(sync=True)


@checked
def recovery_explorer(
    sigma: Annotated[float, Range(0.25, 0.98)] = 0.98,
) -> RecoveryExplorer:
    """Make the widget.

    Parameters
    ----------
    sigma
        Noise of the copy at first, in [0.25, 0.98].
    """
    return RecoveryExplorer(sigma=sigma)
