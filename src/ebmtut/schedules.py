"""Schedules: functions of the step, for temperatures, noise and step sizes.

A ramp over `n_steps` has its start at step 0 and its stop at step
n_steps - 1, where it then stays; a step below 0 is refused.
"""

import math
from collections.abc import Callable

from ebmtut.checks import Count, Number, Positive, check_range, checked

__all__ = ["Schedule", "constant", "cosine", "geometric", "linear"]

#: A function from the step (0, 1, ...) to a number.
Schedule = Callable[[int], float]


@checked
def constant(value: Number) -> Schedule:
    """Keep one value."""
    return lambda step: value


@checked
def linear(start: Number, stop: Number, n_steps: Count) -> Schedule:
    """Move from start to stop by equal differences.

    Parameters
    ----------
    start, stop, n_steps
        Values at the first and the last step; a single step has the value `stop`.
    """
    fraction = _fraction(n_steps)
    return lambda step: start + (stop - start) * fraction(step)


@checked
def cosine(start: Number, stop: Number, n_steps: Count) -> Schedule:
    """Move from start to stop along half a cosine, flat at both ends."""
    fraction = _fraction(n_steps)
    return lambda step: (
        stop + (start - stop) * (1 + math.cos(math.pi * fraction(step))) / 2
    )


@checked
def geometric(start: Positive, stop: Positive, n_steps: Count) -> Schedule:
    """Move from start to stop by equal ratios.

    Parameters
    ----------
    start, stop
        Positive values at the first and the last step.

    Examples
    --------
    >>> from ebmtut.schedules import geometric
    >>> [round(geometric(1.0, 0.01, 3)(step), 3) for step in range(3)]
    [1.0, 0.1, 0.01]
    """
    fraction = _fraction(n_steps)
    ratio = math.log(stop / start)
    return lambda step: start * math.exp(ratio * fraction(step))


def _fraction(n_steps: int) -> Schedule:
    last = n_steps - 1

    def fraction(step: int) -> float:
        check_range("step", step, low=0)
        return min(step / last, 1.0) if last else 1.0

    return fraction
