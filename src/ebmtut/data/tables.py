"""One's own tables of numbers: bits, and histograms, from a CSV or a NumPy file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from ebmtut.checks import Count, InputError, check_type, checked
from ebmtut.tensor_checks import check_floating

__all__ = ["read_bits", "read_histograms", "read_numbers"]


#: What stands in a cell for a number that is not there.
_MISSING = {"", "na", "n/a", "null", "none", "-", "?", ".", "nan"}

#: Separators, in the order in which one that fits all lines is taken.
_SEPARATORS = ("\t", ";", ",", "|", " ")

#: Names of a first column that numbers or names the rows.
_ROW_NAMES = {"", "unnamed: 0", "id", "index"}

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)


class Cells(NamedTuple):
    """The lines of a text file, cell by cell."""

    separator: str  # a blank stands for any number of them
    decimal: str  # what stands before the decimals
    rows: list[tuple[int, list[str]]]  # number of the line, from 1, and its cells

    def number(self, cell: str) -> float | None:
        """Return the number that a cell holds, or None."""
        if self.decimal == ".":
            return number_in(cell)
        return None if "." in cell else number_in(cell.replace(",", "."))


def read_lines(path: str | Path) -> list[str]:
    """Lines of a text file in UTF-8."""
    check_type("path", path, str, Path)
    try:
        # A signature at the start, as spreadsheets write it, is no part of a name.
        return Path(path).read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"path must be a file, got {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} must be text in UTF-8, got other bytes") from None


def read_cells(path: str | Path) -> Cells:
    """Split the lines of a text file that are not empty into cells."""
    lines = [
        (number, line)
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip() and line.lstrip()[0] not in "#%"
    ]
    first = lines[0][1] if lines else ""
    known = [mark for mark in _SEPARATORS if mark in first.strip()] or [" "]
    split = {mark: _split(path, lines, mark) for mark in known}
    fits = [mark for mark in known if _is_table(split[mark])]
    # A comma separates nothing where each stands within a number of another dialect.
    others = [mark for mark in fits if mark != "," and _decimals(split[mark]) == {True}]
    # None fits where a line is wrong, which is then said of the usual separator.
    usual = sorted(known, key=",;\t| ".index)
    separator = (others or fits or usual)[0]
    rows = split[separator]
    commas = separator != "," and True in _decimals(rows)
    return Cells(separator, "," if commas else ".", rows)


def _decimals(rows: list[tuple[int, list[str]]]) -> set[bool]:
    """Whether cells with a comma are numbers: all, none, or both."""
    cells = (cell for _, cells in rows for cell in cells if "," in cell)
    return {bool(_DECIMAL_COMMA.fullmatch(cell)) for cell in cells}


def _split(
    path: str | Path, lines: list[tuple[int, str]], mark: str
) -> list[tuple[int, list[str]]]:
    rows = []
    for number, line in lines:
        if mark == " ":
            line = " ".join(line.split())
        try:
            (cells,) = csv.reader([line], delimiter=mark)
        except (csv.Error, ValueError) as error:
            raise InputError(
                f"{path} must hold cells, line {number}: {error}"
            ) from None
        rows.append((number, [cell.strip() for cell in cells]))
    return rows


def _is_table(rows: list[tuple[int, list[str]]]) -> bool:
    """Whether all lines have as many cells; names may leave out that of row names."""
    if not rows:
        return False
    widths = {len(cells) for _, cells in rows[1:]} or {len(rows[0][1])}
    width = max(widths)
    return len(widths) == 1 and width > 1 and len(rows[0][1]) in (width, width - 1)


def holds_names(cells: list[str]) -> bool:
    """Whether a first line can be one of names: no number, nothing that is missing.

    The name of the first column may be left out.
    """
    named = cells[1:] if cells[0] == "" else cells
    return bool(named) and not any(
        cell.lower() in _MISSING or number_in(cell.replace(",", ".")) is not None
        for cell in named
    )


@checked
def read_numbers(
    path: str | Path, *, least: Count = 1
) -> Float64[Tensor, "rows columns"]:
    """Read a table of finite numbers.

    Parameters
    ----------
    path
        A NumPy file (``.npy``) of two dimensions, or text in UTF-8. Cells are separated
        by tabs, semicolons, commas, upright strokes or blanks, the first that gives all
        lines as many cells; commas that all stand within numbers are decimal. Lines
        that begin with ``#`` or ``%`` are comments. A first line of names, and with it
        a first column without a name or named ``id`` or ``index``, is left out.
    least
        Fewest rows.

    Raises
    ------
    InputError
        If there is no such file, a cell is no finite number, or the first line may be
        names.
    """
    check_type("path", path, str, Path)
    path = Path(path)
    if path.suffix == ".npy":
        table = _numpy_table(path)
    else:
        table = np.stack(list(_rows_of_numbers(path)))
    if len(table) < least:
        raise InputError(f"{path} must hold at least {least} rows, got {len(table)}")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{path} must hold finite numbers, got {table[row, column]:g} in "
            f"row {row + 1}, column {column + 1}"
        )
    return torch.from_numpy(table)


def _rows_of_numbers(path: Path) -> Iterator[np.ndarray]:
    table = read_cells(path)
    rows, skipped = table.rows, 0
    if rows and holds_names(rows[0][1]):
        names, rows = rows[0][1], rows[1:]
        unnamed = bool(rows) and len(names) == len(rows[0][1]) - 1
        skipped = int(unnamed or names[0].lower() in _ROW_NAMES)
    elif rows:
        _refuse_counted_columns(path, *rows[0], n_rows=len(rows))
    width: int | None = None
    for number, cells in rows:
        found = [table.number(cell) for cell in cells[skipped:]]
        if None in found:
            k = skipped + found.index(None)
            raise InputError(
                f"{path} must hold numbers, got {cells[k][:30]!r} in "
                f"line {number}, column {k + 1}"
            )
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise InputError(
                f"{path} must have rows of one length, {width}, "
                f"got {len(cells)} numbers in line {number}"
            )
        yield np.array(found, dtype=np.float64)
    if width is None:
        raise InputError(f"{path} must hold a row of numbers, got none")


def _refuse_counted_columns(
    path: Path, number: int, cells: list[str], n_rows: int
) -> None:
    """Refuse 0, 1, 2, ... or 1990, 2000, ... at the top, which may be names."""
    is_index = cells[0] == ""
    counted = cells[is_index:]
    if (
        n_rows < 2
        or len(counted) < 3 - is_index
        or not all(map(str.isdecimal, counted))
    ):
        return
    steps = {b - a for a, b in pairwise(map(int, counted))}
    if len(steps) == 1 and min(steps) > 0:
        raise InputError(
            f"{path} must say what line {number} is, got the numbers of the columns, "
            f"{counted[0]} to {counted[-1]}: delete it if it holds names, "
            "else put a line of names above it"
        )


def number_in(cell: str) -> float | None:
    """Return the number that a cell holds, NaN and infinity among them, or None."""
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_0 as ten
    except ValueError:
        return None


def _numpy_table(path: Path) -> np.ndarray:
    try:
        table = np.load(path, allow_pickle=False)
    except OSError as error:
        why = error.strerror or "it is damaged"
        raise InputError(f"path must be a NumPy file, got {path}: {why}") from None
    except Exception as error:  # whatever a damaged head makes of itself
        if "Object arrays" in str(error):  # a whole file, which could run anything
            raise InputError(
                f"{path} must hold an array of numbers, got one of Python objects "
                "(dtype object)"
            ) from None
        raise InputError(f"path must be a NumPy file, got {path}: damaged") from None
    if not isinstance(table, np.ndarray) or table.dtype.kind not in "buif":
        raise InputError(f"{path} must hold one array of numbers, got something else")
    if table.ndim != 2 or not table.size:
        raise InputError(
            f"{path} must hold rows of numbers, shape (rows, columns), "
            f"got {table.shape}"
        )
    return table.astype(np.float64)


@checked
def read_bits(
    path: str | Path, *, dtype: torch.dtype = torch.float32, least: int = 1
) -> Float[Tensor, "rows columns"]:
    """Read binary data, a row a state.

    Parameters
    ----------
    path, least, dtype
        As for `read_numbers`; of the result.
    """
    check_floating("dtype", dtype)
    table = read_numbers(path, least=least)
    _refuse(path, table, (table != 0) & (table != 1), "only 0 and 1")
    return table.to(dtype)


@checked
def read_histograms(
    path: str | Path, *, least: int = 1
) -> Float64[Tensor, "rows columns"]:
    """Read histograms, a row each, and give them mass 1.

    Parameters
    ----------
    path, least
        As for `read_numbers`: counts, or masses up to a factor.
    """
    table = read_numbers(path, least=least)
    _refuse(path, table, table < 0, "entries >= 0")
    total = table.sum(1, keepdim=True)
    _refuse(path, total, (total == 0) | ~total.isfinite(), "rows of mass > 0, finite")
    return table / total


def _refuse(path: str | Path, table: Tensor, bad: Tensor, allowed: str) -> None:
    if not bool(bad.any()):
        return
    row, column = bad.nonzero()[0].tolist()
    where = f"row {row + 1}" + (f", column {column + 1}" if table.shape[1] > 1 else "")
    raise InputError(
        f"{path} must hold {allowed}, got {float(table[row, column]):g} in {where}"
    )
