"""How far one score lies above another, and its error."""

import math

import pytest

from ebmtut.experiments.verdicts import lead


def test_seeds_are_paired():
    mean, stderr = lead({5: [3.0, 1.0, 2.0]}, {5: [1.0, 0.0, 0.0]}, 5)
    # Differences 2, 1, 2: standard deviation 1/sqrt 3.
    assert mean == pytest.approx(5 / 3)
    assert stderr == pytest.approx(1 / 3)


def test_one_seed_has_the_error_of_its_curve():
    ours, theirs = {1: [0.0], 2: [1.0], 4: [0.0]}, {1: [5.0], 2: [5.0], 4: [5.0]}
    mean, stderr = lead(theirs, ours, 4)
    assert mean == 5.0
    # Steps of one: half their mean square is the variance of a point.
    assert stderr == pytest.approx(math.sqrt(0.5))


def test_one_number_alone_has_no_error():
    assert lead({1: [2.0]}, {1: [1.0]}, 1) == (1.0, None)
