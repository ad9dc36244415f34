"""One colour for a method on every page, and the maps for densities and couplings.

The colours are Okabe and Ito's, told apart with any colour vision.  Their
yellow is left out: a line of it cannot be seen on white.
"""

import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_rgb

__all__ = ["COLORS", "DENSITY_CMAP", "DIVERGING_CMAP", "IMAGE_CMAP", "OKABE_ITO"]

OKABE_ITO: dict[str, str] = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#999999",
}

#: Colour of a method, by the name that legends and tables give it.
COLORS: dict[str, str] = {
    "exact": OKABE_ITO["black"],
    "data": "#595959",
    "null": OKABE_ITO["grey"],
    "paper": OKABE_ITO["grey"],
    "ED-Bern": OKABE_ITO["blue"],
    "ED-Grid": OKABE_ITO["vermillion"],
    "ED-Pool": OKABE_ITO["green"],
    "ED-Directed": OKABE_ITO["sky blue"],
    "CD": OKABE_ITO["orange"],
    "PCD": OKABE_ITO["purple"],
    "PL": OKABE_ITO["purple"],
    "EB-GFN": OKABE_ITO["grey"],
    "Gibbs": OKABE_ITO["orange"],
    "GWG": OKABE_ITO["sky blue"],
    "DMALA": OKABE_ITO["green"],
    "DULA": OKABE_ITO["purple"],
    "PMP": OKABE_ITO["blue"],
    "PMP symmetric": OKABE_ITO["vermillion"],
    "MPLP": OKABE_ITO["green"],
    "LP": OKABE_ITO["green"],
    "Gibbs-reset": OKABE_ITO["orange"],
    "GWG-reset": OKABE_ITO["sky blue"],
    "PCD-1": OKABE_ITO["purple"],
    "PCD-100": OKABE_ITO["sky blue"],
    "CD-1": OKABE_ITO["vermillion"],
    "coordinate descent": OKABE_ITO["grey"],
    "Gibbs-OT": OKABE_ITO["blue"],
    "Sinkhorn": OKABE_ITO["orange"],
    "B-ADMM": OKABE_ITO["green"],
    "smoothed W-NMF": OKABE_ITO["orange"],
    "NMF": OKABE_ITO["purple"],
    "DNFS": OKABE_ITO["blue"],
    "LEAPS": OKABE_ITO["purple"],
}


def _diverging(low: str, middle: str, high: str, name: str) -> Colormap:
    """Straight lines in OKLab, in which equal steps look equal."""
    to_lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )

    def lab(color: str) -> np.ndarray:
        rgb = np.array(to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return to_lab @ np.cbrt(to_lms @ linear)

    def srgb(color: np.ndarray) -> np.ndarray:
        linear = np.linalg.solve(to_lms, np.linalg.solve(to_lab, color.T) ** 3).T
        linear = linear.clip(0.0, 1.0)
        curved = 1.055 * linear ** (1.0 / 2.4) - 0.055
        return np.where(linear <= 0.0031308, 12.92 * linear, curved).clip(0.0, 1.0)

    t = np.linspace(0.0, 1.0, 129)[:, None]
    lower = lab(low) + t * (lab(middle) - lab(low))
    upper = lab(middle) + t[1:] * (lab(high) - lab(middle))
    return ListedColormap(srgb(np.concatenate([lower, upper])), name=name)


DENSITY_CMAP = "viridis"
IMAGE_CMAP = "gray_r"
#: Signed quantities, white at zero; blue below, vermillion above.
DIVERGING_CMAP = _diverging("#00527F", "#F7F7F7", "#A04700", "blue_vermillion")
