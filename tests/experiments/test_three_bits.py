"""Figures of energy discrepancy's first page show what they are given."""

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.colors import same_color

from ebmtut import exact
from ebmtut.experiments.ed.three_bits import draw_classes, draw_forces

mpl.use("Agg")


def test_states_of_one_class_have_one_colour():
    channels = {"grid": exact.grid_channel(3), "pool": exact.pooling_channel(3, 3)}
    classes = {name: exact.channel_classes(q) for name, q in channels.items()}
    for ax, numbers in zip(draw_classes(classes).axes, classes.values(), strict=True):
        colors = ax.collections[0].get_facecolors()
        for i, j in np.ndindex(8, 8):
            assert same_color(colors[i], colors[j]) == bool(numbers[i] == numbers[j])


def test_forces_are_areas_and_the_arrow_leads_from_the_data():
    forces = {"one": torch.arange(8.0), "other": torch.ones(8)}
    axes = draw_forces(forces, path=(6, 2)).axes
    for ax, force in zip(axes, forces.values(), strict=True):
        assert np.allclose(ax.collections[0].get_sizes(), 900 * force)
    *labels, arrow = axes[1].texts
    assert not axes[0].texts[8:]
    assert tuple(arrow.xy) == tuple(labels[2].xy)
    assert tuple(arrow.xyann) == tuple(labels[6].xy)
