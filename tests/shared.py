"""What tests of several parts share: random tensors, and tables of refusals."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.random import make_generator

__all__ = ["normal", "refusals"]


def normal(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    return torch.randn(shape, generator=make_generator(seed), dtype=dtype)


def refusals(cases: Mapping[str, tuple[Callable[[], Any], str]]) -> Callable[..., None]:
    """Return a test that each call is refused in one line that begins as said."""

    @pytest.mark.parametrize(("call", "words"), cases.values(), ids=cases)
    def test_refusals(call: Callable[[], Any], words: str) -> None:
        with pytest.raises(InputError, match=f"^{words}") as caught:
            call()
        assert "\n" not in str(caught.value)

    return test_refusals
