"""Values of eight words against NumPy's arrays of eight."""

import operator

import numpy as np
import pytest

from ebmtut._compiled import compiled
from ebmtut.kernels.lanes import LANES, any_set, load, spread, store

WORDS = np.random.default_rng(0).integers(0, 2**64, 20, dtype=np.uint64)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "add"])
def test_an_operator_works_word_by_word(name):
    apply = getattr(operator, name)

    @compiled
    def run(words, out):
        store(out, 1, apply(load(words, 3), load(words, 11)))

    out = np.zeros(LANES + 2, dtype=np.uint64)
    run(WORDS, out)
    expected = apply(WORDS[3:11], WORDS[11:19])
    assert out.tolist() == [0, *expected.tolist(), 0]


@pytest.mark.parametrize("name", ["and_", "xor", "add", "lshift", "rshift"])
def test_a_number_stands_for_eight(name):
    apply, number = getattr(operator, name), np.uint64(23)

    @compiled
    def run(words, out):
        store(out, 0, apply(load(words, 0), number))
        store(out, LANES, apply(load(words, 0), spread(number)))

    out = np.zeros(2 * LANES, dtype=np.uint64)
    run(WORDS, out)
    assert out.tolist() == apply(WORDS[:8], number).tolist() * 2


def test_not_and_whether_any_bit_is_set():
    @compiled
    def run(words, out):
        store(out, 0, ~load(words, 0))
        return any_set(load(words, 0))

    for word in (0, 7):
        words, out = np.zeros((2, LANES), dtype=np.uint64)
        words[word] = np.uint64(1) << np.uint64(63)
        assert run(words, out)
        assert (out == ~words).all()
    assert not run(np.zeros(LANES, dtype=np.uint64), out)
