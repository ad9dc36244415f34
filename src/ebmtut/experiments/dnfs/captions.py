"""Entries of tables, and what their captions and cells say of runs."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Result
from ebmtut.results.tables import MINUS, Cell, Table


def table_of(
    heads: Sequence[str], lines: Iterable[Sequence[Cell]], **how: Any
) -> Table:
    """Make a table from its lines."""
    columns = zip(*lines, strict=True)
    return Table({h: [*c] for h, c in zip(heads, columns, strict=True)}, **how)


def spread(values: Sequence[float], digits: int = 4) -> Cell:
    """Return the mean and its standard error, or one rounded value."""
    mean, stderr = mean_and_stderr(list(values))
    if stderr is None or not math.isfinite(mean):
        return round(mean, digits)
    return mean, stderr


def spread_of_ess(values: Sequence[float]) -> Cell:
    """Return the same; from 0.1 on three decimals, if they do not show the error."""
    mean, stderr = mean_and_stderr(list(values))
    if mean > 0.1 and (stderr is None or stderr < 0.0005):
        return f"{mean:.3f}", None
    return spread(values)


def ranges_of(result: Result) -> str:
    """Return a sentence on the ranges in a table, nothing for a single run."""
    n_seeds = result.config["n_seeds"]
    return f" Lowest and highest of {n_seeds} runs." if n_seeds > 1 else ""


def range_of(values: Sequence[float], decimals: int | None = None) -> Cell:
    """Return the lowest and the highest of a few runs, too few for a standard error."""

    def printed(value: float) -> str:
        if decimals is not None:
            return f"{value:.{decimals}f}"
        text = f"{value:#.3g}"
        large = "e+" in text or text.endswith(".")
        return f"{float(text):.0f}" if large else text

    if len(values) == 1 and decimals is None:
        return float(values[0])
    ends = dict.fromkeys(printed(end(values)) for end in (min, max))
    return "–".join(ends).replace("-", MINUS)
