"""Parameters that papermill has put into a notebook: it only warns of unknown ones."""

import ast
import builtins
import sys
from collections.abc import Sequence
from itertools import pairwise

from ebmtut.checks import InputError, check_choice

# What papermill writes over the cell that it adds.
_MARK = "# Parameters"


def executed_cells() -> list[str]:
    """Return the cells that this kernel has executed; none outside of one."""
    if "IPython" not in sys.modules:
        return []
    from IPython import get_ipython

    shell = get_ipython()
    return [] if shell is None else list(shell.user_ns.get("In", ()))


def check_injected(cells: Sequence[str]) -> None:
    """Compare the cell that papermill has added with the one that stands before it."""
    for before, added in pairwise(cells):
        if not added.startswith(_MARK):
            continue
        kinds = {
            line.target.id: ast.unparse(line.annotation)
            for line in ast.parse(before).body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
        for line in ast.parse(added).body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                name = line.targets[0].id
                check_choice("parameter", name, kinds)
                _check_kind(name, kinds[name], line.value)


def _check_kind(name: str, kind: str, given: ast.expr) -> None:
    wanted = getattr(builtins, kind, None)
    try:
        value = ast.literal_eval(given)
    except ValueError:  # float("nan"), which the notebook's own checks refuse
        return
    if not isinstance(wanted, type):
        return
    fits = isinstance(value, (int, float) if wanted is float else wanted)
    if not fits or (isinstance(value, bool) and wanted is not bool):
        raise InputError(f"{name} must be {kind}, got {value!r}")
