"""An energy with two modes: two samplers, and the two terms of the gradient."""

from typing import Annotated

import anywidget
import numpy as np
import traitlets
from jaxtyping import Float

from ebmtut.checks import InputError, Range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["TwoModesExplorer", "two_modes_explorer"]


class TwoModesExplorer(anywidget.AnyWidget):
    """Chains in E(x) = (x1^4 + x2^4)/4 - J x1 x2 - h (x1 + x2), beside data.

    Everything is computed in the page. Make it by `two_modes_explorer`.

    Attributes
    ----------
    sampler
        "gibbs" or "langevin". This and the next three follow the reader.
    coupling
        J; the modes are near plus and minus its root, the barrier is about J^2/2.
    tilt
        h; it makes one of the modes more likely.
    step_size
        Of Langevin dynamics.
    data
        Points that the energy should learn, float32, two numbers each.
    """

    _esm = script("two_modes_explorer.js")
    _css = style("two_modes_explorer.css")

    sampler = traitlets.Enum(("gibbs", "langevin"), "gibbs").tag(sync=True)
    coupling = traitlets.Float(3.0, min=0, max=4).tag(sync=True)
    tilt = traitlets.Float(0.0, min=-0.5, max=0.5).tag(sync=True)
    step_size = traitlets.Float(0.2, min=0.05, max=0.4).tag(sync=True)
    data = traitlets.Bytes().tag(sync=True)


@checked
def two_modes_explorer(
    data: Float[np.ndarray, "n_data 2"], coupling: Annotated[float, Range(0, 4)] = 3.0
) -> TwoModesExplorer:
    """Make the widget.

    Parameters
    ----------
    data
        Points of the plane, inside the square from -4 to 4.
    """
    if not len(data) or not np.abs(data).max() <= 4:
        largest = float(np.abs(data).max()) if len(data) else None
        raise InputError(
            "data must be points inside the square from -4 to 4, "
            f"got {len(data)} points, the largest coordinate {largest}"
        )
    return TwoModesExplorer(
        data=np.asarray(data, dtype=np.float32).tobytes(), coupling=coupling
    )
