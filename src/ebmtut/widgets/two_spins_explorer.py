"""Two spins: a rate that the reader chooses, and both sides of the master equation."""

import anywidget
import traitlets

from ebmtut.checks import Positive, checked
from ebmtut.widgets._sources import script, style

__all__ = ["TwoSpinsExplorer", "two_spins_explorer"]


class TwoSpinsExplorer(anywidget.AnyWidget):
    """Two spins with E = -J s1 s2 along the path from uniform bits to exp(-E) / Z.

    Everything is computed in the page. Make it by `two_spins_explorer`.

    Attributes
    ----------
    coupling
        J, positive.
    time
        Time of the path, in [0, 1]. It and the rate follow the reader.
    rate
        Rate of each flip out of a state whose spins disagree, 0 to 1.5 J.
    """

    _esm = script("two_spins_explorer.js")
    _css = style("two_spins_explorer.css")

    coupling = traitlets.Float(1.0, min=0).tag(sync=True)
    time = traitlets.Float(0.0, min=0, max=1).tag(sync=True)
    rate = traitlets.Float(0.0, min=0).tag(sync=True)


@checked
def two_spins_explorer(coupling: Positive = 1.0) -> TwoSpinsExplorer:
    """Make the widget, with a rate that is too high at the first time."""
    return TwoSpinsExplorer(coupling=coupling, rate=coupling)
