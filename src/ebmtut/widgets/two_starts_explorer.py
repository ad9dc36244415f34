"""Four spins, perturbed: messages from two initialisations beside the target."""

import anywidget
import traitlets

from ebmtut.checks import Probability, checked
from ebmtut.widgets._sources import script, style

__all__ = ["TwoStartsExplorer", "two_starts_explorer"]


class TwoStartsExplorer(anywidget.AnyWidget):
    """Four spins of Section 5.1 of Lázaro-Gredilla et al. (2021), by number of ones.

    Everything is computed in the page. Make it by `two_starts_explorer`.

    Attributes
    ----------
    theta
        Coupling of the perturbed model, in [0, 1]. Both follow the reader.
    n_sweeps
        Of max-product, 0 to 20.
    """

    _esm = script("two_starts_explorer.js")
    _css = style("two_starts_explorer.css")

    theta = traitlets.Float(0.5, min=0, max=1).tag(sync=True)
    n_sweeps = traitlets.Int(20, min=0, max=20).tag(sync=True)


@checked
def two_starts_explorer(theta: Probability = 0.5) -> TwoStartsExplorer:
    """Make the widget."""
    return TwoStartsExplorer(theta=theta)
