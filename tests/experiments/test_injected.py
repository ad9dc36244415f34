"""A notebook stops on names and types that papermill has put in."""

import pytest

from ebmtut.checks import InputError
from ebmtut.experiments.injected import check_injected, executed_cells

CELL = 'seed: int = 0\neps: float = 0.1  # strength\nkind: str = "a"\n'


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("epx = 1", "parameter must be one of seed, eps, kind; got 'epx'"),
        ("eps = 'a'", "eps must be float, got 'a'"),
        ("seed = 1.5", "seed must be int, got 1.5"),
        ("seed = True", "seed must be int, got True"),
        ("kind = None", "kind must be str, got None"),
    ],
)
def test_other_names_and_types_are_refused(added, message):
    with pytest.raises(InputError, match=message):
        check_injected(["import this", CELL, f"# Parameters\n{added}\n", "check()"])


def test_what_fits_passes():
    check_injected([])
    check_injected(["", CELL, "check()"])
    good = "# Parameters\nseed = 3\neps = 1\nkind = 'b'\n"
    check_injected([CELL, good, "check()"])
    check_injected([CELL, "# Parameters\neps = float('nan')\n"])


def test_outside_of_a_kernel_nothing_was_executed():
    assert executed_cells() == []
