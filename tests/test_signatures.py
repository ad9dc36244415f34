"""Calls that break their signatures are caught, the first ones and later ones."""

from collections.abc import Sequence
from typing import Literal

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

pytest.importorskip("beartype")

from tests import signatures

held = jaxtyping.jaxtyped(typechecker=signatures.checked_when_done)


@held
def first(x: Float[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
    return x[0] if len(x) == 7 else x[:, 0]


@held
def longest(words: Sequence[str], which: Literal["a", "b"] = "a") -> int:
    return max(map(len, map(str, words)))


@pytest.mark.parametrize("n_good", [0, 1, 100])
def test_a_wrong_call_is_caught_whatever_came_before(n_good) -> None:
    for _ in range(n_good):
        first(torch.zeros(3, 2))
        longest(["x", "yy"])
        longest(("x",), which="b")
    for bad in (torch.zeros(3, 4), torch.zeros(3, 2).long(), torch.zeros(7, 2)):
        with pytest.raises(jaxtyping.TypeCheckError):
            first(bad)
    for words in ([1, 2], (1,), 3):
        with pytest.raises((jaxtyping.TypeCheckError, TypeError)):
            longest(words)
    with pytest.raises(jaxtyping.TypeCheckError):
        longest(["x", "yy"], which="c")


def test_a_container_is_not_trusted_after_one_item_of_it_was_examined() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        for _ in range(32):
            longest(["x", 1])


def test_nested_functions_are_held_too() -> None:
    def make(size):
        @held
        def inner(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
            return x[:size]

        return inner

    make(3)(torch.zeros(3))
    with pytest.raises(jaxtyping.TypeCheckError):
        make(2)(torch.zeros(3))
