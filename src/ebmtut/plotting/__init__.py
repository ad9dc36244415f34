"""The book's figures: one style, one colour a method."""

from ebmtut.plotting.colors import (
    COLORS,
    DENSITY_CMAP,
    DIVERGING_CMAP,
    IMAGE_CMAP,
    OKABE_ITO,
)
from ebmtut.plotting.pictures import (
    DIVERGED_GAP,
    grid_points,
    heatmap,
    image_grid,
    landscape,
    mean_band,
    state_cube,
)
from ebmtut.plotting.style import (
    TEXT_WIDTH,
    figure_size,
    panel_size,
    part_rows,
    plain_log,
    use_style,
)

__all__ = [
    "COLORS",
    "DENSITY_CMAP",
    "DIVERGED_GAP",
    "DIVERGING_CMAP",
    "IMAGE_CMAP",
    "OKABE_ITO",
    "TEXT_WIDTH",
    "figure_size",
    "grid_points",
    "heatmap",
    "image_grid",
    "landscape",
    "mean_band",
    "panel_size",
    "part_rows",
    "plain_log",
    "state_cube",
    "use_style",
]
