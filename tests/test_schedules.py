import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.schedules import cosine, geometric, linear

RAMPS = {"linear": linear, "cosine": cosine, "geometric": geometric}
positive = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("ramp", RAMPS.values(), ids=RAMPS)
@given(start=positive, stop=positive, n_steps=st.integers(1, 40))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_ramps_meet_their_ends_and_are_monotone(ramp, start, stop, n_steps):
    schedule = ramp(start, stop, n_steps)
    values = [schedule(step) for step in range(n_steps + 3)]
    if n_steps > 1:
        assert values[0] == pytest.approx(start, rel=1e-12)
    assert values[n_steps - 1 :] == pytest.approx([stop] * 4, rel=1e-12)
    sign = 1 if stop >= start else -1
    slack = 1e-12 * max(start, stop)
    pairs = itertools.pairwise(values)
    assert all(sign * (b - a) >= -slack for a, b in pairs)


def test_shapes_of_the_ramps():
    assert linear(1.0, 3.0, 5)(1) == 1.5
    assert geometric(1.0, 16.0, 5)(1) == pytest.approx(2.0)
    assert cosine(1.0, 0.0, 5)(1) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
