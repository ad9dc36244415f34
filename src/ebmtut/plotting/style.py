"""The look of all figures: set once a notebook by `use_style`."""

from typing import Annotated

import matplotlib as mpl
from cycler import cycler
from matplotlib import font_manager
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ebmtut.checks import Count, OneOf, Positive, checked
from ebmtut.plotting.colors import DENSITY_CMAP, OKABE_ITO

__all__ = [
    "TEXT_WIDTH",
    "figure_size",
    "panel_size",
    "part_rows",
    "plain_log",
    "use_style",
]

#: Inches.  The page's column is about 700 pixels wide, so that a figure of
#: this width shows 10-point text at the size of the page's own.
TEXT_WIDTH = 6.5

_SIZES = {
    "full": (TEXT_WIDTH, 4.0),
    "wide": (TEXT_WIDTH, 2.6),
    "half": (TEXT_WIDTH / 2, 2.4),
    "square": (4.0, 4.0),
}

# The page's own fonts, the first that this machine has; matplotlib's last.
_FONTS = ("Segoe UI", "Roboto", "Helvetica Neue", "Arial", "Liberation Sans")


def use_style() -> None:
    """Set matplotlib's defaults to the book's style.

    The background is opaque white, which dark themes need.
    """
    installed = set(font_manager.fontManager.get_font_names())
    fonts = [name for name in _FONTS if name in installed]
    colors = [
        OKABE_ITO[name]
        for name in ("blue", "vermillion", "green", "orange", "purple", "sky blue")
    ]
    mpl.rcParams.update(
        {
            "figure.figsize": _SIZES["full"],
            "figure.dpi": 150,
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "white",
            "savefig.dpi": "figure",
            "font.family": "sans-serif",
            "font.sans-serif": [*fonts, "DejaVu Sans"],
            "mathtext.fontset": "cm",
            "font.size": 10,
            "axes.titlesize": 10,
            "axes.labelsize": 10,
            "legend.fontsize": 9,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "axes.prop_cycle": cycler(color=colors),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.8,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.6,
            "lines.markersize": 4,
            "legend.frameon": False,
            "image.cmap": DENSITY_CMAP,
            "image.interpolation": "nearest",
        }
    )


@checked
def figure_size(kind: Annotated[str, OneOf(_SIZES)] = "full") -> tuple[float, float]:
    """Width and height in inches of a common kind of figure.

    Parameters
    ----------
    kind
        ``"full"``, ``"wide"`` (the text's width), ``"half"`` or ``"square"``.
    """
    return _SIZES[kind]


@checked
def panel_size(
    n_rows: Count, n_columns: Count, *, aspect: Positive = 1.0, title: float = 0.25
) -> tuple[float, float]:
    """Size of a figure of panels that fills the text's width.

    Parameters
    ----------
    aspect, title
        Height of a panel over its width, and inches above each panel for its title.
    """
    panel = TEXT_WIDTH / n_columns
    return TEXT_WIDTH, n_rows * (panel * aspect + title)


def part_rows(figure: Figure) -> None:
    """Set a row's axis labels apart from the titles of the row below."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(h_pad=0.1)  # type: ignore[call-arg]


def plain_log(axis: XAxis | YAxis) -> None:
    """Label a logarithmic axis of a decade or two with 10, 20, 50, not with powers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())
