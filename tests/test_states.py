import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut import states
from ebmtut.checks import InputError
from ebmtut.random import make_generator

examples = settings(max_examples=50, deadline=None, derandomize=True)


def reflected_codes(n_bits):
    """List the Gray code by reflecting and prefixing, as its patent has it."""
    codes = [""]
    for _ in range(n_bits):
        codes = ["0" + c for c in codes] + ["1" + c for c in reversed(codes)]
    return codes


CODES = reflected_codes(15)


def encode_slowly(point, scale):
    """Encode one point by strings and lists, independently of the package."""
    text = ""
    for v in point:
        scaled = float(v) * scale
        text += ("0" if scaled >= 0 else "1") + CODES[int(abs(scaled))]
    return [float(c) for c in text]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64])
def test_spins_of_integer_bits_are_refused(dtype):
    """In eight unsigned bits 2 * 0 - 1 is 255."""
    with pytest.raises(InputError, match=rf"^x must be floating, got {dtype}$"):
        states.bits_to_spins(torch.zeros(3, dtype=dtype))


def test_enumeration_counts_in_binary():
    x = states.enumerate_states(3)
    assert x.dtype == torch.float64
    assert x.tolist()[:3] == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert x.tolist()[-1] == [1, 1, 1]


@given(st.integers(1, 8), st.integers(2, 4))
@examples
def test_index_is_the_row(n_sites, n_states):
    n_sites = min(n_sites, 5)
    x = states.enumerate_states(n_sites, n_states)
    assert torch.equal(states.states_to_index(x, n_states), torch.arange(len(x)))


@given(st.integers(0, 2**62 - 1))
@examples
def test_index_round_trip_at_62_sites(index):
    x = states.index_to_states(torch.tensor([index]), 62)
    assert int(states.states_to_index(x)) == index


def test_too_many_states():
    with pytest.raises(InputError, match=r"n_sites=25 .*at most 2\*\*24"):
        states.enumerate_states(25)
    with pytest.raises(InputError, match="n_sites=13 with n_states=4"):
        states.enumerate_states(13, 4)
    with pytest.raises(InputError, match="below 2\\*\\*63, got 64 sites"):
        states.states_to_index(torch.zeros(1, 64))


def test_one_hot():
    x = torch.tensor([[0.0, 2.0], [1.0, 1.0]])
    hot = states.one_hot(x, 3)
    assert hot.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]]
    assert states.one_hot(x.long(), 3, dtype=torch.float64).dtype == torch.float64
    with pytest.raises(InputError, match=r"x must hold states in \[0, 1\], got \[0, 2"):
        states.one_hot(x, 2)
    with pytest.raises(InputError, match="integer values"):
        states.one_hot(x / 4, 3)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_states_that_are_not_finite(bad):
    x = torch.tensor([[0.0, bad]])
    for encode in (lambda x: states.one_hot(x, 3), states.states_to_index):
        with pytest.raises(InputError, match="x must be finite, got 1 NaN or inf"):
            encode(x)


@pytest.mark.parametrize(
    ("index", "n_sites", "message"),
    [
        (torch.tensor([0, -1]), 3, r"index must lie in \[0, 7\], got \[-1, 0\]"),
        (torch.tensor([8]), 3, r"index must lie in \[0, 7\], got \[8, 8\]"),
        (torch.tensor([1.0]), 3, "index must hold integers, got dtype torch.float32"),
        (torch.tensor(1), 3, r"index must have shape \(any,\), got \(\)"),
        (torch.tensor([1]), 0, "n_sites must be an integer >= 1, got 0"),
        (torch.tensor([1]), 64, r"below 2\*\*63, got 64 sites"),
    ],
)
def test_indices_of_no_state(index, n_sites, message):
    with pytest.raises(InputError, match=message):
        states.index_to_states(index, n_sites)


def test_gray_code_by_hand():
    # 1234 = 0b10011010010 has the Gray code 0b11010111011; 500 = 0b111110100
    # has 0b100001110; the second coordinate is negative.
    bits = states.gray_encode(
        torch.tensor([[1.2345, -0.5005]], dtype=torch.float64), 1000.0
    )
    text = "".join(str(int(b)) for b in bits[0])
    assert text == "0" + "000011010111011" + "1" + "000000100001110"


def test_gray_code_equals_slow_formulation():
    scale = 2**15 / 6.3
    points = 2 * torch.randn(400, 2, dtype=torch.float64, generator=make_generator(0))
    points = points.clamp(-6.29, 6.29)
    edges = torch.tensor(
        [0.0, -0.0, 1e-12, -1e-12, 1 / scale, -1 / scale, 6.2999, -6.2999]
    ).double()
    points = torch.cat([points, torch.cartesian_prod(edges, edges)])
    slow = torch.tensor([encode_slowly(p, scale) for p in points]).double()
    assert torch.equal(states.gray_encode(points, scale), slow)


coordinates = st.floats(-3.999, 3.999)


@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=20))
@examples
def test_decoding_finds_the_corner_and_the_centre(points):
    scale = 2**15 / 4
    points = torch.tensor(points, dtype=torch.float64)
    bits = states.gray_encode(points, scale)
    corner = states.gray_decode(bits, scale)
    center = states.gray_decode(bits, scale, center=True)
    rounding = 1e-9
    assert ((points.abs() - corner.abs()) * scale >= -rounding).all()
    assert ((points.abs() - corner.abs()) * scale <= 1 + rounding).all()
    assert ((points - center).abs() * scale <= 0.5 + rounding).all()
    assert torch.equal(states.gray_encode(center, scale), bits)


@given(st.lists(st.booleans(), min_size=32, max_size=32))
@examples
def test_every_code_word_is_a_cell(word):
    bits = torch.tensor([word], dtype=torch.float64)
    center = states.gray_decode(bits, 1234.5, center=True)
    assert torch.equal(states.gray_encode(center, 1234.5), bits)


@pytest.mark.parametrize(
    ("points", "scale", "message"),
    [
        (torch.zeros(3), 1.0, r"points must have shape \(any, 2\)"),
        (torch.zeros(3, 3), 1.0, r"points must have shape \(any, 2\)"),
        (torch.tensor([[math.nan, 0.0]]), 1.0, "points must be finite"),
        (torch.zeros(1, 2), 0.0, "scale must be a number > 0, got 0.0"),
        (torch.tensor([[0.0, -8.5]]), 4096.0, r"within \+-8 at .*size 8.5"),
        (torch.tensor([[8.0, 0.0]]), 4096.0, r"within \+-8 at .*size 8"),
        # Too large for an integer of 64 bits.
        (torch.tensor([[0.0, 1e16]]), 4096.0, r"within \+-8 at .*size 1e\+16"),
        (torch.tensor([[-1e30, 0.0]]), 4096.0, r"within \+-8 at .*size 1e\+30"),
    ],
)
def test_bad_points(points, scale, message):
    with pytest.raises(InputError, match=message):
        states.gray_encode(points, scale)
