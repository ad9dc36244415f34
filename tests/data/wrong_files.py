"""A wrong file of one's own is refused in one line that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebmtut.checks import InputError


def assert_refused(
    read: Callable[[Path], Any], folder: Path, text: str, match: str
) -> None:
    path = folder / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match) as caught:
        read(path)
    assert "\n" not in str(caught.value) and "mine.csv" in str(caught.value)
