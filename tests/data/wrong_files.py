"""Wrong files: one's own are refused in one line that names them; damaged ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ebmtut.checks import InputError


def assert_refused(
    read: Callable[[Path], Any], folder: Path, text: str, match: str
) -> None:
    path = folder / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match) as caught:
        read(path)
    assert "\n" not in str(caught.value) and "mine.csv" in str(caught.value)


@st.composite
def damaged(draw: st.DrawFn, *wholes: bytes) -> bytes:
    """One of these contents with some bytes changed, and cut anywhere."""
    content = bytearray(draw(st.sampled_from(wholes)))
    for _ in range(draw(st.integers(0, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))])
