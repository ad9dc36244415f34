"""What the widget of transport hands to the page."""

import numpy as np

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
