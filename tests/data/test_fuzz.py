"""Whatever bytes a file holds: an array, or our error in one line."""

import gzip

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.data import read_idx

WHOLE = b"\0\0\x08\x02\0\0\0\x03\0\0\0\x05" + bytes(range(15))
PACKED = gzip.compress(WHOLE, mtime=0)


@st.composite
def damaged(draw):
    """Either form with some bytes changed, and cut anywhere."""
    content = bytearray(draw(st.sampled_from([WHOLE, PACKED])))
    for _ in range(draw(st.integers(0, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "images.gz"


@given(st.binary(max_size=60) | damaged())
@example(b"\0\0\x08\x01\0\0")  # a size of two bytes
@example(PACKED[:12] + b"\xff" * 20)  # zlib's own error
def test_any_bytes_are_an_array_or_one_line(path, content):
    path.write_bytes(content)
    try:
        found = read_idx(path)
    except InputError as error:
        assert "\n" not in str(error) and "images.gz" in str(error)
    else:
        assert found.dtype == np.uint8
