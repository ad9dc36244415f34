"""What the widget hands to the page."""

import json

import numpy as np
from ipywidgets.embed import dependency_state, embed_data

from ebmtut.experiments.energy_discrepancy.ablations import KNOBS
from ebmtut.plotting import DENSITY_CMAP
from ebmtut.results import Result
from ebmtut.widgets import landscape_explorer, pack_landscapes


def test_pixels_are_the_pictures_one_after_the_other(result: Result) -> None:
    widget = landscape_explorer(result, n_pixels=8)
    packed = pack_landscapes(result, n_pixels=8)
    pixels = np.frombuffer(widget.pixels, dtype=np.uint8).reshape(-1, 8, 8)
    assert np.array_equal(pixels, np.stack(packed.pictures))
    assert widget.notes == list(packed.notes)
    assert widget.shown == list(packed.shown)
    assert widget.knobs == [
        {"name": "eps", "values": ["0.1", "0.5"]},
        {"name": "M", "values": ["1", "32"]},
        {"name": "w", "values": ["0", "1"]},
    ]


def test_sliders_start_at_the_papers_setting(result: Result) -> None:
    assert landscape_explorer(result, n_pixels=8).selected == [0, 1, 1]
    # Without M = 32 among the knobs, the nearest there is.
    start = landscape_explorer(result, KNOBS, n_pixels=8).selected
    setting = [values[k] for values, k in zip(KNOBS.values(), start, strict=False)]
    assert list(KNOBS) == ["eps", "w", "M"]
    assert (KNOBS["eps"][start[0]], KNOBS["M"][start[1]], KNOBS["w"][start[2]]) == (
        0.1,
        16,
        1,
    ), setting


def test_colours_are_those_of_the_figures(result: Result) -> None:
    import matplotlib as mpl

    colors = np.frombuffer(landscape_explorer(result, n_pixels=8).colors, np.uint8)
    expected = mpl.colormaps[DENSITY_CMAP](np.arange(256), bytes=True)[:, :3]
    assert np.array_equal(colors.reshape(256, 3), expected)


def test_all_knobs_of_the_chapter_fit_into_a_page(result: Result) -> None:
    """The page carries every landscape, in less than 500 kB of text."""
    rng = np.random.default_rng(0)
    variants, arrays = {}, {"truth": rng.normal(size=(96, 96))}
    for eps in KNOBS["eps"]:
        for m in KNOBS["M"]:
            for w in KNOBS["w"]:
                name = f"{eps}-{m}-{w}"
                recipe = {"method": "ED-Bern", "eps": eps, "n_negatives": int(m)}
                recipe["stabilizer"] = w
                variants[name] = {"recipe": recipe, "gap": 0.1}
                arrays[name] = rng.normal(size=(96, 96))
    full = Result("ed/w-and-m", "full", {}, {"variants": variants}, arrays)
    widget = landscape_explorer(full, KNOBS)
    assert "not run" not in widget.notes
    assert len(widget.pixels) == 81 * 48 * 48
    # Of this widget alone: other tests leave theirs behind.
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 500_000
