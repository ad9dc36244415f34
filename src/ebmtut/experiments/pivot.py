"""Tables as data: those that only select and average, and how numbers stand in them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Cell, Result, Table
from ebmtut.results.tables import MINUS


@dataclass(frozen=True, kw_only=True)
class Pivot:
    """A table of a result's scalars: call it with a result.

    Paths lead through the nested scalars: ``"table/{method}/{size}"`` gives a row for
    each method and size that are stored, in their order; labels and the columns' paths
    have the same names. A column's path begins at the row's entry, or at the top of the
    scalars with ``"/"``; if it has a name that the row has not, there is one column for
    each key. A list of numbers, one per seed, becomes its mean and standard error; what
    is not there becomes a dash. `kinds` bears a row's label as it is written in `rows`,
    or one of its keys; `factors` change the unit of a column; a caption is formatted
    with the configuration, or is a function of the result. For example::

        Pivot(
            head="method",
            rows={"{method}": "table/{method}", "independent bits": "null"},
            columns={"TV": "TV", "KL [1e-3]": "KL"},
            factors={"KL [1e-3]": 1e3},
            kinds={"independent bits": "null"},
        )
    """

    head: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    caption: str | Callable[[Result], str] = ""
    digits: int = 3
    even: bool = False  # as for `Table`

    def __call__(self, result: Result) -> Table:
        """Draw the table of a result."""
        labels: list[str] = []
        kinds: list[str] = []
        cells: list[dict[str, Cell]] = []
        for label, path in self.rows.items():
            for keys, entry in _found(result.scalars, path.split("/"), {}):
                labels.append(label.format_map(keys))
                names = (label, *keys.values())
                known = (self.kinds[n] for n in names if n in self.kinds)
                kinds.append(next(known, ""))
                cells.append(self._row(result, entry, keys))
        heads = dict.fromkeys(head for row in cells for head in row)
        columns: dict[str, list[Cell]] = {self.head: [*labels]}
        columns |= {head: [row.get(head) for row in cells] for head in heads}
        words = self.caption
        text = words(result) if callable(words) else words.format_map(result.config)
        return Table(
            columns, caption=text, kinds=kinds, digits=self.digits, even=self.even
        )

    def _row(self, result: Result, entry: Any, keys: dict[str, str]) -> dict[str, Cell]:
        row: dict[str, Cell] = {}
        for head, path in self.columns.items():
            above = result.scalars if path.startswith("/") else entry
            factor = self.factors.get(head, 1.0)
            row |= {} if "{" in head else {head: None}
            for found, value in _found(above, path.removeprefix("/").split("/"), keys):
                if found != keys and "{" not in head:
                    continue  # a name that this row has not
                mean, error = mean_and_stderr(value if type(value) is list else [value])
                error = None if error is None else abs(factor) * error
                value = factor * mean
                row[head.format_map(found)] = value if error is None else (value, error)
        return row


def _found(
    entry: Any, path: list[str], keys: dict[str, str]
) -> Iterator[tuple[dict[str, str], Any]]:
    """Yield what lies at a path, with the keys that its open names stand for."""
    if path in ([], [""]):
        yield keys, entry
        return
    name = re.fullmatch(r"\{(\w+)\}", path[0])
    if name and name[1] not in keys:
        for key in entry:
            yield from _found(entry[key], path[1:], {**keys, name[1]: key})
    elif isinstance(entry, Mapping) and (key := path[0].format_map(keys)) in entry:
        yield from _found(entry[key], path[1:], keys)


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
