"""Calls that break their signatures are caught, the first ones and later ones."""

import jaxtyping
import pytest
import torch

pytest.importorskip("beartype")

from ebmtut.energies import LatticeIsing
from tests import signatures


@pytest.fixture
def passed_on():
    decorate = jaxtyping.jaxtyped(typechecker=signatures.checked_when_done)

    @decorate
    def passed_on(
        x: jaxtyping.Float[torch.Tensor, "batch 2"],
    ) -> jaxtyping.Float[torch.Tensor, " batch"]:
        return x[:, 0]

    return passed_on


GOOD, BAD = torch.zeros(3, 2), torch.zeros(3, 4)


def test_the_package_is_held_to_its_signatures() -> None:
    assert "called" in LatticeIsing.forward.__code__.co_name


def test_a_first_call_that_breaks_the_signature_is_caught(passed_on) -> None:
    passed_on(GOOD)
    with pytest.raises(jaxtyping.TypeCheckError):
        passed_on(BAD)


def test_later_calls_are_caught_now_and_then(passed_on) -> None:
    for _ in range(signatures.FIRST + 1):
        passed_on(GOOD)
    with pytest.raises(jaxtyping.TypeCheckError):
        for _ in range(signatures.THEN):
            passed_on(BAD)
    signatures.begin_test()  # the next test begins anew
    with pytest.raises(jaxtyping.TypeCheckError):
        passed_on(BAD)
