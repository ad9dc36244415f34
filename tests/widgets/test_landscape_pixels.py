"""Landscapes as bytes: what is kept, what is refused, what is missing."""

from dataclasses import replace

import numpy as np
import pytest

from ebmtut.checks import InputError
from ebmtut.results import Result
from ebmtut.widgets._landscape_pixels import encode_landscape, pack_landscapes

HYPERPARAMETERS = {"eps": (0.1, 0.5), "M": (1, 32), "w": (0, 1)}


def test_bytes_keep_the_density_to_half_a_level() -> None:
    rng = np.random.default_rng(0)
    density = rng.uniform(size=(24, 24))
    # 576 cells: the largest two lie above the 99.8 percent quantile.
    top = np.quantile(density, 0.998)
    log_density = np.log(density) + 1234.5
    pixels = encode_landscape(log_density, 24)
    assert pixels.dtype == np.uint8
    assert pixels.max() == 255
    expected = (density / top).clip(0, 1)
    assert np.abs(pixels[::-1] / 255 - expected).max() <= 0.5 / 255 + 1e-12


def test_a_pixel_is_the_mean_density_of_its_cells() -> None:
    density = np.array([[1.0, 3.0, 0.0, 0.0]] * 2 + [[0.0, 0.0, 4.0, 4.0]] * 2)
    with np.errstate(divide="ignore"):
        pixels = encode_landscape(np.log(density), 2)
    # Rows of growing y become rows from the top down. The 99.8 percent quantile
    # of the means (0, 0, 2, 4) lies at 4 - 2 * 0.006.
    top = 4 - 2 * 0.006
    assert pixels.tolist() == [[0, 255], [round(255 * 2 / top), 0]]


def test_a_single_spike_does_not_darken_the_rest() -> None:
    log_density = np.zeros((40, 40))
    log_density[3, 5] = 20.0
    assert np.unique(encode_landscape(log_density, 40)).tolist() == [255]


@pytest.mark.parametrize("choices", [HYPERPARAMETERS, None])
def test_every_setting_has_a_picture_or_says_why_not(result, choices):
    packed = pack_landscapes(result, choices, n_pixels=8)
    assert packed.choices == HYPERPARAMETERS
    # eps outermost, w innermost; the order of the fixture's variants.
    assert packed.notes == (
        *("diverged", "0.25", "0.50", "0.75"),
        *("diverged", "1.25", "1.50", "not run"),
    )
    assert packed.shown == (-1, 1, 2, 3, -1, 4, 5, -1)
    assert len(packed.pictures) == 6
    for setting, place in enumerate(packed.shown):
        if place >= 0:
            bright = np.argwhere(packed.pictures[place] == 255)
            assert bright.tolist() == [[7, setting]]


def test_values_that_the_result_lacks_are_not_run(result: Result) -> None:
    packed = pack_landscapes(result, {**HYPERPARAMETERS, "eps": (0.9, 0.1)}, n_pixels=8)
    assert packed.choices["eps"] == (0.1, 0.9)
    assert packed.notes[4:] == ("not run",) * 4
    assert packed.shown[4:] == (-1,) * 4


@pytest.mark.parametrize("gap", [None, float("nan"), float("inf"), 2e6])
def test_a_gap_without_bound_is_a_divergence(result: Result, gap: float | None) -> None:
    """Its landscape, which may not even be finite, is not read."""
    result.scalars["variants"]["variant1"]["gap"] = gap
    result.arrays["variant1"][:] = np.inf
    assert pack_landscapes(result, n_pixels=8).notes[1] == "diverged"


def test_a_result_without_any_setting_is_refused(result: Result) -> None:
    with pytest.raises(InputError, match=r"'ed/w-and-m' \(full\) .*eps in \(0.3,\)"):
        pack_landscapes(result, {**HYPERPARAMETERS, "eps": (0.3,)}, n_pixels=8)
    with pytest.raises(InputError, match="landscapes of ED-Pool"):
        pack_landscapes(result, method="ED-Pool", n_pixels=8)
    with pytest.raises(InputError, match="hold the truth"):
        pack_landscapes(replace(result, scalars={}, arrays={}))
