"""The look of the figures: colours that can be told apart, honest scales."""

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from ebmtut import plotting
from ebmtut.checks import InputError
from ebmtut.data import density_log_prob
from ebmtut.states import enumerate_states


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    mpl.use("Agg")
    with mpl.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


def test_landscape_puts_the_mass_where_it_is() -> None:
    points = plotting.grid_points(4.0, 8)
    target = torch.tensor([2.5, -1.5], dtype=torch.float64)
    log_density = -(((points - target).norm(dim=1) * 10) ** 2)
    _, ax = plt.subplots()
    image = plotting.landscape(ax, log_density.view(8, 8), 4.0)
    shown = np.asarray(image.get_array())
    row, column = np.unravel_index(shown.argmax(), shown.shape)
    left, right, bottom, top = image.get_extent()
    assert image.origin == "lower"
    assert left + (column + 0.5) * (right - left) / 8 == pytest.approx(2.5)
    assert bottom + (row + 0.5) * (top - bottom) / 8 == pytest.approx(-1.5)
    assert shown.max() == 1.0


def test_landscape_takes_minus_infinity_and_one_spike() -> None:
    points = plotting.grid_points(5.0, 50)
    log_density = density_log_prob("checkerboard", points).view(50, 50)
    log_density[25, 25] = 50.0
    _, ax = plt.subplots()
    image = plotting.landscape(ax, log_density, 5.0, points=torch.zeros(3, 2))
    # A spike alone does not set the scale: the dark squares stay visible.
    low, high = image.get_clim()
    assert low == 0.0
    assert high < 0.1
    assert ax.get_xlim() == (-5.0, 5.0)
    with pytest.raises(InputError, match="finite maximum"):
        plotting.landscape(ax, torch.full((4, 4), -torch.inf), 1.0)
    with pytest.raises(InputError, match="square matrix"):
        plotting.landscape(ax, torch.zeros(4), 1.0)


def test_a_cube_joins_neighbours_and_labels_begin_beside_their_discs() -> None:
    _, ax = plt.subplots()
    areas = torch.arange(8.0) * 100
    corners = plotting.state_cube(ax, "bits", sizes=areas, colors="C1")
    assert ax.get_title() == "bits"
    states = enumerate_states(3)
    apart = (states[:, None] - states[None]).abs().sum(-1)
    joined = {
        frozenset(
            int(np.abs(corners - end).sum(1).argmin())
            for end in np.transpose(line.get_data())
        )
        for line in ax.lines
    }
    assert joined == {frozenset(map(int, pair)) for pair in (apart == 1).nonzero()}
    for k, text in enumerate(ax.texts):
        assert text.get_text() == f"{k:03b}"
        assert tuple(text.xy) == tuple(corners[k])
        # Of a disc of area a the radius is sqrt(a / pi); it fits below the offset.
        radius = (float(areas[k]) / np.pi) ** 0.5
        assert np.hypot(*text.xyann) > 0.8 * radius


def test_heatmap_is_centred_at_zero() -> None:
    _, ax = plt.subplots()
    matrix = torch.tensor([[0.0, -0.3], [0.1, 0.0]], requires_grad=True)
    image = plotting.heatmap(ax, matrix)
    assert image.get_clim() == pytest.approx((-0.3, 0.3))
    assert plotting.heatmap(ax, matrix, limit=0.5).get_clim() == (-0.5, 0.5)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2"]
    assert plotting.heatmap(ax, np.zeros((2, 2))).get_clim() == (-1.0, 1.0)
    with pytest.raises(InputError, match="square matrix"):
        plotting.heatmap(ax, torch.zeros(2, 3))


def test_images_lie_in_rows() -> None:
    images = torch.arange(5.0)[:, None, None].expand(5, 2, 3)
    _, ax = plt.subplots()
    sheet = np.ma.filled(plotting.image_grid(ax, images, 3).get_array(), np.nan)
    assert sheet.shape == (2 * 3 - 1, 3 * 4 - 1)
    assert (sheet[0:2, 8:11] == 2.0).all()
    assert (sheet[3:5, 0:3] == 3.0).all()
    assert np.isnan(sheet[2]).all()
    assert np.isnan(sheet[3:5, 8:11]).all()
    assert plotting.image_grid(ax, images[:1], 4).get_array().shape == (2, 3)
    with pytest.raises(InputError, match="images must have shape"):
        plotting.image_grid(ax, images[0])


def test_band_is_one_standard_error() -> None:
    _, ax = plt.subplots()
    runs = torch.tensor([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0], [2.0, 2.0]])
    plotting.mean_band(
        ax, [0, 1], runs, color=plotting.COLORS["ED-Bern"], label="ED-Bern"
    )
    assert ax.lines[0].get_ydata().tolist() == [2.0, 2.0]
    outline = ax.collections[0].get_paths()[0].vertices
    error = np.std([1, 3, 2, 2], ddof=1) / 2
    at_start = outline[outline[:, 0] == 0][:, 1]
    assert at_start.min() == pytest.approx(2 - error)
    assert at_start.max() == pytest.approx(2 + error)
    plotting.mean_band(ax, [0, 1], runs[:1])
    assert len(ax.collections) == 1
    with pytest.raises(InputError, match=r"runs must have shape \(any, 3\)"):
        plotting.mean_band(ax, [0, 1, 2], runs)


def test_grid_points_are_cell_centres_rows_of_y() -> None:
    points = plotting.grid_points(1.0, 2)
    assert points.tolist() == [[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]]
    assert points.dtype == torch.float64


def test_a_short_logarithmic_axis_has_plain_numbers():
    figure, ax = plt.subplots()
    ax.plot([18, 130], [0, 1])
    plotting.plain_log(ax.xaxis)
    figure.canvas.draw()
    low, high = ax.get_xlim()
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    seen = [label.get_text() for at, label in ticks if low <= at <= high]
    assert seen == ["20", "50", "100"]
    assert not any(label.get_text() for label in ax.get_xticklabels(minor=True))
