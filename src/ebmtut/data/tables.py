"""One's own tables of numbers: bits, and histograms, from a CSV or a NumPy file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from ebmtut.checks import InputError
from ebmtut.tensor_checks import check_floating

__all__ = ["number_in", "read_bits", "read_histograms", "read_numbers", "read_rows"]


def read_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Cells of the lines of a text file that are not empty, with their numbers.

    Parameters
    ----------
    path
        UTF-8; cells are separated by commas, by semicolons, by tabs, or by blanks,
        whichever of them the first line has, in this order.

    Raises
    ------
    InputError
        If there is no such file, or it is no text.
    """
    try:
        # A signature at the start, as spreadsheets write it, is no part of a name.
        lines = Path(path).read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"path must be a file, got {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} must be text in UTF-8, got other bytes") from None
    first = next((line for line in lines if line.strip()), "")
    mark = next((mark for mark in ",;\t" if mark in first), None)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            (cells,) = csv.reader([line], delimiter=mark) if mark else [line.split()]
        except (csv.Error, ValueError) as error:
            raise InputError(
                f"{path} must hold cells, line {number}: {error}"
            ) from None
        yield number, [cell.strip() for cell in cells]


def read_numbers(path: str | Path) -> Float64[Tensor, "rows columns"]:
    """Read a table of finite numbers.

    Parameters
    ----------
    path
        A NumPy file (``.npy``) of two dimensions, or a text file with a row a line,
        as `read_rows` has it; a first line of names only is left out.

    Raises
    ------
    InputError
        If there is no such file, it is empty or its rows differ in length, or a
        cell is no finite number; the message says which.
    """
    path = Path(path)
    if path.suffix == ".npy":
        table = _numpy_table(path)
    else:
        table = np.stack(list(_rows_of_numbers(path)))
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{path} must hold finite numbers, got {table[row, column]:g} in "
            f"row {row + 1}, column {column + 1}"
        )
    return torch.from_numpy(table)


def _rows_of_numbers(path: Path) -> Iterator[np.ndarray]:
    width: int | None = None
    for index, (number, cells) in enumerate(read_rows(path)):
        wrong = [k for k, cell in enumerate(cells) if number_in(cell) is None]
        if index == 0 and len(wrong) == len(cells):
            continue  # the columns' names
        if wrong:
            raise InputError(
                f"{path} must hold numbers, got {cells[wrong[0]][:30]!r} in "
                f"line {number}, column {wrong[0] + 1}"
            )
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise InputError(
                f"{path} must have rows of one length, {width}, "
                f"got {len(cells)} numbers in line {number}"
            )
        yield np.array(cells, dtype=np.float64)
    if width is None:
        raise InputError(f"{path} must hold a row of numbers, got none")


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


def read_bits(
    path: str | Path, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "rows columns"]:
    """Read binary data, a row a state.

    Parameters
    ----------
    path
        As for `read_numbers`.
    dtype
        Of the result; a network wants that of its weights.

    Returns
    -------
    bits
        Zeros and ones.

    Raises
    ------
    InputError
        As in `read_numbers`, or if a value is neither 0 nor 1.
    """
    check_floating("dtype", dtype)
    table = read_numbers(path)
    _refuse(path, table, (table != 0) & (table != 1), "only 0 and 1")
    return table.to(dtype)


def read_histograms(path: str | Path) -> Float64[Tensor, "rows columns"]:
    """Read histograms, a row each, and give them mass 1.

    Parameters
    ----------
    path
        As for `read_numbers`: counts, or masses up to a factor.

    Returns
    -------
    histograms
        Each row has the sum 1.

    Raises
    ------
    InputError
        As in `read_numbers`, or if an entry is negative, or all of a row are zero.
    """
    table = read_numbers(path)
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
