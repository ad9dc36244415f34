"""What the widget of prices hands to the page."""

import json

import numpy as np
import pytest
import traitlets
from ipywidgets.embed import dependency_state, embed_data

from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.widgets import price_explorer


def test_page_carries_exponentials_for_every_chain() -> None:
    widget = price_explorer(50, generator=make_generator(3))
    assert sum(widget.p) == pytest.approx(1) and sum(widget.q) == pytest.approx(1)
    noise = np.frombuffer(widget.noise, np.float32)
    assert noise.shape == (widget.n_chains * 50 * 6,)
    assert noise.min() >= 0
    # The mean is 1, to five standard errors.
    assert abs(noise.mean() - 1) < 5 / noise.size**0.5
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 100_000


def test_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(InputError, match="n_iterations"):
        price_explorer(19, generator=make_generator(0))
    with pytest.raises(traitlets.TraitError):
        price_explorer(generator=make_generator(0)).schedule = "warm"
