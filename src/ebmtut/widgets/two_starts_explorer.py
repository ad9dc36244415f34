"""Four spins, perturbed: samples by enumeration or by messages beside the target."""

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
        Coupling of the perturbed model, in [0, 1].
    search
        How the MAP state is found: "enumeration", or messages from "zero" or from half
        the couplings ("symmetric"). Both traits follow the reader.
    """

    _esm = script("two_starts_explorer.js")
    _css = style("two_starts_explorer.css")

    theta = traitlets.Float(0.5, min=0, max=1).tag(sync=True)
    search = traitlets.Enum(("enumeration", "zero", "symmetric"), "enumeration").tag(
        sync=True
    )


@checked
def two_starts_explorer(theta: Probability = 0.5) -> TwoStartsExplorer:
    """Make the widget."""
    return TwoStartsExplorer(theta=theta)
