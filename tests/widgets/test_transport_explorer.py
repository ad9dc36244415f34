"""What the widget of transport hands to the page."""

import json
from dataclasses import replace

import numpy as np
import pytest
import traitlets
from ipywidgets.embed import dependency_state, embed_data

from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.widgets import TWO_DISTRIBUTIONS, transport_explorer


def test_page_starts_with_the_first_distributions_and_carries_exponentials() -> None:
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


def test_distributions_that_are_offered_can_be_drawn() -> None:
    for distributions in TWO_DISTRIBUTIONS:
        assert len(distributions.p) == len(distributions.q) == 32
        assert min(distributions.p + distributions.q) >= 0.02
        assert max(distributions.p + distributions.q) <= 1


def test_state_fits_into_a_page() -> None:
    widget = transport_explorer(generator=make_generator(0))
    # Of this widget alone: other tests leave theirs behind.
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 150_000


def test_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(InputError, match="n_iterations"):
        transport_explorer(n_iterations=39, generator=make_generator(0))
    with pytest.raises(InputError, match="shapes"):
        transport_explorer([], generator=make_generator(0))
    low = replace(TWO_DISTRIBUTIONS[0], name="low", q=(0.0,) * 32)
    with pytest.raises(InputError, match="low"):
        transport_explorer([TWO_DISTRIBUTIONS[0], low], generator=make_generator(0))
    short = replace(TWO_DISTRIBUTIONS[0], name="short", q=(0.5,) * 31)
    with pytest.raises(InputError, match="short"):
        transport_explorer([short], generator=make_generator(0))
    with pytest.raises(traitlets.TraitError):
        transport_explorer(generator=make_generator(0)).cost = "cubic"
