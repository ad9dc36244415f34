"""What the widget hands to the page."""

import json
import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ipywidgets.embed import dependency_state, embed_data

from ebmtut import widgets
from ebmtut.checks import InputError
from ebmtut.experiments.ed import w_and_m
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.ed.w_and_m import HYPERPARAMETERS, learner
from ebmtut.results import Result
from ebmtut.widgets._landscape_pixels import encode_landscape, pack_landscapes


def test_pixels_are_the_pictures_one_after_the_other(result: Result) -> None:
    widget = widgets.landscape_explorer(result, n_pixels=8)
    packed = pack_landscapes(result, n_pixels=8)
    pixels = np.frombuffer(widget.pixels, dtype=np.uint8).reshape(-1, 8, 8)
    assert np.array_equal(pixels, np.stack(packed.pictures))
    assert widget.notes == list(packed.notes)
    assert widget.shown == list(packed.shown)
    assert widget.choices == [
        {"name": "noise ε", "values": ["0.1", "0.5"]},
        {"name": "negatives M", "values": ["1", "32"]},
        {"name": "stabiliser w", "values": ["0", "1"]},
    ]


def test_sliders_start_at_the_papers_setting(result: Result) -> None:
    assert widgets.landscape_explorer(result, n_pixels=8).selected == [0, 1, 1]
    # Without M = 32 among the values, the nearest one is selected.
    start = widgets.landscape_explorer(result, HYPERPARAMETERS, n_pixels=8).selected
    names = ("eps", "M", "w")
    chosen = [HYPERPARAMETERS[n][k] for n, k in zip(names, start, strict=True)]
    assert chosen == [0.1, 16, 1]


def test_all_choices_of_the_chapter_fit_into_a_page(result: Result) -> None:
    """The page carries every landscape, in less than 500 kB of text."""
    rng = np.random.default_rng(0)
    variants, arrays = {}, {"truth": rng.normal(size=(96, 96))}
    for eps in HYPERPARAMETERS["eps"]:
        for m in HYPERPARAMETERS["M"]:
            for w in HYPERPARAMETERS["w"]:
                name = f"{eps}-{m}-{w}"
                recipe = {"method": "ED-Bern", "eps": eps, "n_negatives": int(m)}
                recipe["stabilizer"] = w
                variants[name] = {"recipe": recipe, "gap": 0.1}
                arrays[name] = rng.normal(size=(96, 96))
    full = Result("ed/w-and-m", "full", {}, {"variants": variants}, arrays)
    widget = widgets.landscape_explorer(full, HYPERPARAMETERS)
    assert "not run" not in widget.notes
    assert len(widget.pixels) == 81 * 48 * 48
    # Of this widget alone: other tests leave theirs behind.
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 500_000


class Kernel:
    """What the page says to a widget and hears from it."""

    def __init__(self, widget: widgets.LandscapeExplorer) -> None:
        self.widget = widget
        self.heard: list[Any] = []
        widget.send = lambda content, buffers=None: self.heard.append(content)

    def say(self, **message: Any) -> None:
        self.widget._handle_custom_msg(message, [])


def one_bright_cell(
    setting: Mapping[str, float], report: Callable[[float], None]
) -> tuple[np.ndarray | None, float]:
    """Stand in for a training whose picture tells the setting."""
    report(0.5)
    picture = np.full((8, 8), -30.0)
    picture[0, int(setting["n_negatives"]) % 8] = 0.0
    return picture, setting["eps"]


def test_only_a_widget_that_can_learn_answers_the_page(result: Result) -> None:
    for learn, answer in ((None, []), (one_bright_cell, [{"learns": True}])):
        kernel = Kernel(widgets.landscape_explorer(result, n_pixels=8, learn=learn))
        kernel.say(learns=None)
        assert kernel.heard == answer


def test_the_button_learns_the_setting_of_the_sliders(result: Result) -> None:
    seen = []

    def learn(
        setting: Mapping[str, float], report: Callable[[float], None]
    ) -> tuple[np.ndarray | None, float]:
        seen.append(setting)
        return one_bright_cell(setting, report)

    widget = widgets.landscape_explorer(result, n_pixels=8, learn=learn)
    progress = []
    widget.observe(lambda change: progress.append(change["new"]), "progress")
    # Places run as `notes` do: w fastest, then M, then eps.
    Kernel(widget).say(learn=6)
    assert seen == [{"eps": 0.5, "n_negatives": 32, "stabilizer": 0}]
    assert isinstance(seen[0]["n_negatives"], int)
    assert progress == [0.0, 0.5, None]
    assert widget.own["6"]["note"] == "0.50"
    picture = np.frombuffer(widget.own["6"]["pixels"], np.uint8).reshape(8, 8)
    expected = encode_landscape(one_bright_cell(seen[0], lambda _: None)[0], 8)
    assert np.array_equal(picture, expected)
    # The stored landscapes stay, and what was learned before, too.
    Kernel(widget).say(learn=1)
    assert set(widget.own) == {"1", "6"}
    assert widget.notes == widgets.landscape_explorer(result, n_pixels=8).notes


@pytest.mark.parametrize("gap", [math.inf, math.nan, 10.0])
def test_what_diverges_here_is_called_so(result: Result, gap: float) -> None:
    pictures = iter((None, np.zeros((8, 8))))
    widget = widgets.landscape_explorer(
        result, n_pixels=8, learn=lambda setting, report: (next(pictures), gap)
    )
    for place in (0, 1):
        Kernel(widget).say(learn=place)
        assert widget.own[str(place)] == {"note": "diverged", "pixels": b""}


def test_an_error_frees_the_button(result: Result) -> None:
    def learn(
        setting: Mapping[str, float], report: Callable[[float], None]
    ) -> tuple[np.ndarray | None, float]:
        raise ValueError("no such thing")

    widget = widgets.landscape_explorer(result, n_pixels=8, learn=learn)
    with pytest.raises(ValueError, match="no such thing"):
        widget._learn(learn, [{}], 0)
    assert widget.progress is None
    assert widget.own == {}
    with pytest.raises(InputError, match="place must be 0, got 5"):
        widget._learn(learn, [{}], 5)


def test_the_chapters_learner_learns(result, monkeypatch):
    """Its job is that of the setting; its picture is what the page shows."""
    asked, picture = [], np.arange(64.0).reshape(8, 8)

    def job(density: str, recipe: Recipe, *rest: Any, on_step: Any) -> SimpleNamespace:
        asked.append((density, recipe.eps, recipe.n_negatives, recipe.stabilizer))
        on_step(recipe.n_steps - 1, None)
        return SimpleNamespace(scalars={"gap": 0.25}, arrays={"landscape": picture})

    monkeypatch.setattr(w_and_m, "density_job", job)
    widget = widgets.landscape_explorer(result, n_pixels=8, learn=learner(Recipe()))
    Kernel(widget).say(learn=3)
    assert asked == [("2spirals", 0.1, 32, 1)]
    own = {"note": "0.25", "pixels": encode_landscape(picture, 8).tobytes()}
    assert widget.own["3"] == own
