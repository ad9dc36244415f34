"""Widgets hand to a page what fits into it, and refuse what they cannot draw."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from ipywidgets.embed import dependency_state, embed_data
from traitlets import TraitError

from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
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
from ebmtut.widgets._landscape_pixels import encode_landscape
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


@pytest.mark.parametrize("make", WIDGETS.values(), ids=WIDGETS)
def test_state_fits_into_a_page(make: Callable[[], Any]) -> None:
    widget = make()
    # Of this widget alone: other tests leave theirs behind.
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 150_000


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
