"""Tables of numbers for a page: HTML for readers, plain text for the comparison."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from ebmtut.checks import InputError, checked

__all__ = ["KINDS", "Cell", "Table"]

# What a cell may hold: words, a count, a number, a number with its error, or nothing.
Cell = str | int | float | bool | tuple[float | str, float | None] | None

# Kinds of rows, and the words that tell them apart where there is no colour.
KINDS = {
    "": "",
    "null": "what no learning gives",
    "exact": "exact",
    "paper": "as the paper prints it",
}

MINUS, NOTHING = "\u2212", "\u2013"


@checked
class Table:
    """A small table; the last line of a notebook's cell shows it.

    Parameters
    ----------
    columns
        Heading, with its unit, to cells; the first column names the rows. A pair
        ``(value, error)`` is printed as value ± error; ``None`` and NaN as a dash. In
        ``(text, None)`` the text is a number that has its digits.
    caption, digits
        What it shows; significant digits of numbers without an error.
    kinds
        One of ``""``, ``"null"``, ``"exact"``, ``"paper"`` for each row.
    even
        Whether numbers of a column without errors have equally many decimal places.

    Examples
    --------
    >>> Table({"method": ["ED", "J = 0"], "error": [(0.0123, 0.0021), 0.2]},
    ...       kinds=["", "null"])
    method            error
    ED      0.0123 ± 0.0021
    J = 0               0.2
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[Cell]],
        *,
        caption: str = "",
        kinds: Sequence[str] = (),
        digits: int = 3,
        even: bool = False,
    ) -> None:
        lengths = {head: len(column) for head, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise InputError(f"columns must be of one length, got {lengths}")
        n_rows = next(iter(lengths.values()))
        if kinds and (len(kinds) != n_rows or not set(kinds) <= set(KINDS)):
            raise InputError(
                f"kinds must name one of {', '.join(map(repr, KINDS))} for each of "
                f"{n_rows} rows, got {list(kinds)}"
            )
        self.heads = tuple(columns)
        self.caption = caption
        self.kinds = tuple(kinds) or ("",) * n_rows
        _, *others = columns.values()
        numeric = (not any(isinstance(cell, str) for cell in c) for c in others)
        self.numeric = (False, *numeric)
        printed = (_print_all(column, digits, even) for column in columns.values())
        self.rows = tuple(zip(*printed, strict=True))

    def __repr__(self) -> str:
        lines = (self.heads, *self.rows)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = self.numeric
        text = [
            "  ".join(
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *text] if self.caption else text)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col"{_align(numeric)}>{escape(name)}</th>'
            for name, numeric in zip(self.heads, self.numeric, strict=True)
        )
        body = "".join(
            self._line(row, kind)
            for row, kind in zip(self.rows, self.kinds, strict=True)
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        label = escape(self.caption or ", ".join(self.heads), quote=True)
        return (
            f'<div class="numbers" role="region" tabindex="0" aria-label="{label}">'
            f"<table>{caption}<thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )

    def _line(self, row: Sequence[str], kind: str) -> str:
        name, *cells = map(escape, row)
        said = f' title="{KINDS[kind]}"' if kind else ""
        # A phone's column breaks before the sign, never after it.
        cells = [cell.replace("± ", "±\u00a0") for cell in cells]
        inner = "".join(
            f"<td{_align(numeric)}>{cell}</td>"
            for cell, numeric in zip(cells, self.numeric[1:], strict=True)
        )
        style = f' class="{kind}"' if kind else ""
        return f'<tr{style}{said}><th scope="row">{name}</th>{inner}</tr>'


def _align(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _print_all(column: Sequence[Cell], digits: int, even: bool) -> list[str]:
    texts = [_print(cell, digits) for cell in column]
    plain = [isinstance(x, float) and math.isfinite(x) for x in column]
    numbers = [text for text, is_plain in zip(texts, plain, strict=True) if is_plain]
    if not even or any("e" in text for text in numbers):
        return texts
    places = max((len(text.partition(".")[2]) for text in numbers), default=0)
    return [
        f"{cell:.{places}f}".replace("-", MINUS) if is_plain else text
        for cell, text, is_plain in zip(column, texts, plain, strict=True)
    ]


def _print(cell: Cell, digits: int) -> str:
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        value, error = cell
        if error is None:
            return _print(value if isinstance(value, str) else float(value), digits)
        return _with_error(float(value), float(error))
    if isinstance(cell, int):
        return str(cell).replace("-", MINUS)
    number = float(cell)
    if not math.isfinite(number):
        return NOTHING if math.isnan(number) else f"{number:+}".replace("-", MINUS)
    text = f"{number:.{digits}g}"
    if "e+" in text and abs(number) < 1e6:
        text = f"{float(text):.0f}"
    return text.replace("-", MINUS)


def _with_error(value: float, error: float) -> str:
    if not math.isfinite(value) or not math.isfinite(error) or error <= 0:
        return _print(value, 3)
    first = math.floor(math.log10(error))
    # Two digits of an error that begins with 1 or 2, else one; none where it is that of
    # rounding, at worst of equal rows in single precision.
    places = -first + (error / 10.0**first < 3)
    if error < 2.0**-23 * abs(value):
        return _print(value, 3)
    value, error = (round(number, places) for number in (value, error))
    places = max(0, places)
    return f"{value:.{places}f} ± {error:.{places}f}".replace("-", MINUS)
