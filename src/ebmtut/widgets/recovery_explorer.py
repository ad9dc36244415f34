"""A law of two far modes, what is left of it once x is seen, and chains in both."""

from typing import Annotated

import anywidget
import traitlets

from ebmtut.checks import Range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["RecoveryExplorer", "recovery_explorer"]


class RecoveryExplorer(anywidget.AnyWidget):
    """The marginal and the conditional law on a line, and Langevin chains in either.

    Everything is computed in the page: no kernel and no network. Make it by
    `recovery_explorer`.

    Attributes
    ----------
    law
        In which the chains run, "conditional" or "marginal". This and all other
        attributes follow the reader, and the page follows them.
    sigma
        Noise of one step of the forward chain, in [0.1, 0.98].
    seen
        The state one level up.
    step_size
        Of the Langevin chains.
    """

    _esm = script("recovery_explorer.js")
    _css = style("recovery_explorer.css")

    law = traitlets.Enum(("conditional", "marginal"), "conditional").tag(sync=True)
    sigma = traitlets.Float(0.3, min=0.1, max=0.98).tag(sync=True)
    seen = traitlets.Float(1.0, min=-2.5, max=2.5).tag(sync=True)
    step_size = traitlets.Float(0.2, min=0.05, max=0.8).tag(sync=True)


@checked
def recovery_explorer(
    sigma: Annotated[float, Range(0.1, 0.98)] = 0.3,
) -> RecoveryExplorer:
    """Make the widget.

    Parameters
    ----------
    sigma
        Noise at the start, in [0.1, 0.98].

    Raises
    ------
    InputError
        If it is outside.
    """
    return RecoveryExplorer(sigma=sigma)
