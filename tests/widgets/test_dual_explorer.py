"""What the widget of prices hands to the page."""

import numpy as np
import pytest

from ebmtut.random import make_generator
from ebmtut.widgets import dual_explorer


def test_page_carries_exponentials_for_every_chain() -> None:
    widget = dual_explorer(50, generator=make_generator(3))
    assert sum(widget.p) == pytest.approx(1) and sum(widget.q) == pytest.approx(1)
    noise = np.frombuffer(widget.noise, np.float32)
    assert noise.shape == (widget.n_chains * 50 * 6,)
    assert noise.min() >= 0
    # The mean is 1, to five standard errors.
    assert abs(noise.mean() - 1) < 5 / noise.size**0.5
