"""Widgets hand to a page what fits into it, and refuse what they cannot draw."""

import json
import math
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ipywidgets.embed import dependency_state, embed_data
from traitlets import TraitError

from ebmtut import widgets
from ebmtut.checks import InputError
from ebmtut.experiments.ed import w_and_m
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.ed.w_and_m import HYPERPARAMETERS, learner
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.widgets import (
    TWO_DISTRIBUTIONS,
    SmallGraph,
    collapse_explorer,
    discrepancy_explorer,
    dual_explorer,
    feature_explorer,
    message_explorer,
    particle_explorer,
    recovery_explorer,
    transport_explorer,
    two_modes_explorer,
    two_starts_explorer,
)
from ebmtut.widgets._landscape_pixels import encode_landscape, pack_landscapes
from tests.shared import refusals

P = torch.full((8,), 1 / 8)
SQUARES = [[-3.0, 0.0, -3.0, 3.0], [0.0, 3.0, -3.0, 3.0]]


def drawn(explorer: Callable[..., Any], **how: Any) -> Any:
    return explorer(**how, generator=make_generator(0))


def particles(density: np.ndarray, *sigmas: float, **how: Any) -> Any:
    noise = NoiseLevels((*sigmas, 1.0))
    return particle_explorer(density, noise, 3.2, np.zeros((500, 2)), SQUARES, **how)


WIDGETS = {
    "discrepancy": lambda: discrepancy_explorer(P, eps=0.2),
    "particles": lambda: particles(np.zeros((6, 200, 200)), *[0.5] * 5),
    "two modes": lambda: two_modes_explorer(np.zeros((200, 2)), 2.0),
    "two initialisations": lambda: two_starts_explorer(0.4),
    "recovery": lambda: recovery_explorer(0.4),
    "collapse": collapse_explorer,
    "messages": lambda: drawn(message_explorer),
    "transport": lambda: drawn(transport_explorer),
    "prices": lambda: drawn(dual_explorer, n_iterations=50),
}


def size_in_a_page(widget: Any) -> int:
    """Of this widget alone: other tests leave theirs behind."""
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    return len(json.dumps(data["manager_state"]))


@pytest.mark.parametrize("make", WIDGETS.values(), ids=WIDGETS)
def test_state_fits_into_a_page(make: Callable[[], Any]) -> None:
    assert size_in_a_page(make()) < 150_000


def two(edge: tuple[int, int], *fields: float) -> SmallGraph:
    return SmallGraph("two", ((0.0, 0.0), (1.0, 0.0)), (edge,), (1.0,), fields)


CASES = {
    "sum": (lambda: discrepancy_explorer(2 * P), "p must be 8 positive numbers"),
    "negatives": (lambda: discrepancy_explorer(P, n_negatives=3), "n_negatives must"),
    "cells": (lambda: particles(np.zeros((1, 8, 8)), n_cells=3), "n_cells must divide"),
    "levels": (lambda: particles(np.zeros((1, 8, 8)), 0.5), "number of levels must"),
    "density": (
        lambda: particles(np.full((1, 8, 8), -math.inf), n_cells=4),
        "log_density must have a finite maximum on every level",
    ),
    "outside": (lambda: two_modes_explorer(np.full((3, 2), 4.1), 1.0), "data must be"),
    "coupling": (lambda: two_starts_explorer(1.1), r"theta must .* in \[0, 1\]"),
    "noise": (lambda: recovery_explorer(1.0), r"sigma must .* in \[0.25, 0.98\]"),
    "no graph": (lambda: drawn(message_explorer, graphs=[]), "number of graphs must"),
    "an edge": (lambda: two((0, 2), 0, 0), "edges of 'two' must join two of 2 nodes"),
    "fields": (lambda: two((0, 1), 0), "fields of 'two' must be 2 numbers, got 1"),
    "no shapes": (
        lambda: drawn(transport_explorer, shapes=[]),
        "number of shapes must",
    ),
    "pictures": (
        lambda: feature_explorer([1], {"A": torch.zeros(2, 1, 3, 3)}, {"A": [0, 0]}),
        "sweeps must be as many",
    ),
    "pixels": (lambda: encode_landscape(np.zeros((8, 8)), 3), "n_pixels must divide 8"),
    "landscape": (
        lambda: encode_landscape(np.full((8, 8), np.nan), 8),
        ".*finite maximum, got nan",
    ),
}


test_refusals = refusals(CASES)


def test_options_that_a_page_does_not_have_are_refused() -> None:
    with pytest.raises(TraitError):
        drawn(transport_explorer).schedule = "warm"
    with pytest.raises(TraitError):
        drawn(dual_explorer).schedule = "warm"


def test_the_page_of_prices_carries_exponentials_for_every_chain() -> None:
    widget = dual_explorer(50, generator=make_generator(3))
    assert sum(widget.p) == pytest.approx(1) and sum(widget.q) == pytest.approx(1)
    noise = np.frombuffer(widget.noise, np.float32)
    assert noise.shape == (widget.n_chains * 50 * 6,)
    assert noise.min() >= 0
    # The mean is 1, to five standard errors.
    assert abs(noise.mean() - 1) < 5 / noise.size**0.5


def test_the_page_of_transport_starts_with_the_first_distributions() -> None:
    widget = transport_explorer(
        TWO_DISTRIBUTIONS[::-1], n_iterations=50, generator=make_generator(3)
    )
    assert widget.p == list(TWO_DISTRIBUTIONS[-1].p)
    assert [distributions["name"] for distributions in widget.shapes] == [
        distributions.name for distributions in TWO_DISTRIBUTIONS[::-1]
    ]
    noise = np.frombuffer(widget.noise, np.float32)
    assert noise.shape == (50 * 2 * 32,)
    assert noise.min() >= 0
    # Mean and variance of the exponential distribution, to five standard errors.
    assert abs(noise.mean() - 1) < 5 / noise.size**0.5
    assert abs(noise.var() - 1) < 5 * (8 / noise.size) ** 0.5


def test_pictures_are_packed_by_sampler_step_and_feature() -> None:
    one, two = torch.rand(2, 3, 4, 5, 5, generator=torch.manual_seed(0))
    wrong = {"PMP": [0.3, 0.2, 0.1], "Gibbs": [0.3, 0.3, 0.25]}
    widget = feature_explorer([1, 5, 9], {"PMP": one, "Gibbs": two}, wrong, step=2)
    assert widget.step == 2
    assert (widget.n_features, widget.side) == (4, 5)
    assert widget.names == ["PMP", "Gibbs"]
    assert widget.wrong[1] == pytest.approx([30, 30, 25])
    pixels = np.frombuffer(widget.pixels, np.uint8).reshape(2, 3, 4, 5, 5)
    assert np.abs(pixels[1] / 255 - two.numpy()).max() < 0.003


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
    for eps, m, w in product(*(HYPERPARAMETERS[name] for name in ("eps", "M", "w"))):
        recipe = {"method": "ED-Bern", "eps": eps, "n_negatives": int(m)}
        name = f"{eps}-{m}-{w}"
        variants[name] = {"recipe": recipe | {"stabilizer": w}, "gap": 0.1}
        arrays[name] = rng.normal(size=(96, 96))
    full = Result("ed/w-and-m", "full", {}, {"variants": variants}, arrays)
    widget = widgets.landscape_explorer(full, HYPERPARAMETERS)
    assert "not run" not in widget.notes
    assert len(widget.pixels) == 81 * 48 * 48
    assert size_in_a_page(widget) < 500_000


class Kernel:
    """What the page says to a widget and hears from it."""

    def __init__(self, widget: widgets.LandscapeExplorer) -> None:
        self.widget = widget
        self.heard: list[Any] = []
        widget.send = lambda content, buffers=None: self.heard.append(content)

    def say(self, **message: Any) -> None:
        self.widget._handle_custom_msg(message, [])


def one_bright_cell(setting, report):
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

    def learn(setting, report):
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
    def learn(setting, report):
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
