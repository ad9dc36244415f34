"""One parameter that is learned from short chains, and how it runs away."""

import anywidget
import traitlets

from ebmtut.widgets._sources import script, style

__all__ = ["CollapseExplorer", "collapse_explorer"]


class CollapseExplorer(anywidget.AnyWidget):
    """The curvature of a quadratic energy over its updates.

    Everything is computed in the page: no kernel and no network.

    Attributes
    ----------
    theta
        Curvature at first. All attributes follow the reader.
    rate
        Of the updates.
    loss
        "plain" or "clipped".
    """

    _esm = script("collapse_explorer.js")
    _css = style("collapse_explorer.css")

    theta = traitlets.Float(7.5, min=0.5, max=7.9).tag(sync=True)
    rate = traitlets.Float(1.0, min=0.1, max=2.0).tag(sync=True)
    loss = traitlets.Enum(("plain", "clipped"), "plain").tag(sync=True)


def collapse_explorer() -> CollapseExplorer:
    """Make the widget."""
    return CollapseExplorer()
