"""What captions and cells say of runs."""

from collections.abc import Sequence

from ebmtut.results import Result
from ebmtut.results.tables import MINUS, Cell


def means_of(result: Result) -> str:
    """Return a sentence on the errors in a table, nothing for a single run."""
    n_seeds = result.config["n_seeds"]
    return f" Means of {n_seeds} runs and their standard errors." if n_seeds > 1 else ""


def ranges_of(result: Result) -> str:
    """Return a sentence on the ranges in a table, nothing for a single run."""
    n_seeds = result.config["n_seeds"]
    return f" Lowest and highest of {n_seeds} runs." if n_seeds > 1 else ""


def range_of(values: Sequence[float], decimals: int | None = None) -> Cell:
    """Return the lowest and the highest of a few runs, too few for a standard error.

    Examples
    --------
    >>> range_of([0.0148508, 0.011422])
    '0.0114–0.0149'
    >>> range_of([5.2814, 5.2516], decimals=2)
    '5.25–5.28'
    """

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
