"""What the five papers show and print, as data.

The facts lie in `facts.yaml` beside this module: every figure and table that
the project regenerates, with the published numbers that could be read. Nothing
here imports torch, so that ``ebmtut list`` starts at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

import yaml

from ebmtut.checks import check_choice

Value = TypeVar("Value")
Better = Literal["higher", "lower", "equal"]


@dataclass(frozen=True)
class Paper:
    """A paper of the book: its key, method, title, authors and year."""

    key: str
    method: str
    title: str
    authors: str
    year: int


@dataclass(frozen=True)
class PublishedTable:
    """Numbers that a paper prints."""

    name: str
    #: What is measured, and below in which unit ("" for a pure number).
    metric: str
    #: Which side is better; "equal" where the number itself is the aim.
    better: Better
    #: As printed: half a unit of the last one is rounding.
    decimals: int
    columns: tuple[str, ...]
    #: A number for each column, by method; NaN where the paper prints none.
    published: Mapping[str, tuple[float, ...]]
    unit: str = ""
    #: The paper's own standard deviations, where it gives any.
    spread: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    #: Methods that the book has no code for: their numbers are only quoted.
    quoted: tuple[str, ...] = ()
    #: How far the paper's own protocol leaves a number open, and why it does.
    slack: float = 0.0
    slack_reason: str = ""

    def number(self, method: str, column: str) -> float | None:
        """Return the published number of a cell, None where there is none."""
        return self._cell(self.published, method, column)

    def deviation(self, method: str, column: str) -> float | None:
        """Return the published standard deviation of a cell, or None."""
        return self._cell(self.spread, method, column)

    def _cell(
        self, values: Mapping[str, tuple[float, ...]], method: str, column: str
    ) -> float | None:
        places = {name: place for place, name in enumerate(self.columns)}
        place = lookup(f"column of the table {self.name!r}", column, places)
        if method not in values or math.isnan(values[method][place]):
            return None
        return values[method][place]


@dataclass(frozen=True)
class Fact:
    """A figure or table of a paper, with the numbers that it prints.

    `what` it shows, the paper's `setup`, the claim that `check` says is tested on our
    output, and a `note` on what is missing, and why.
    """

    id: str
    title: str
    shown_in: str
    what: str
    setup: str
    check: str = ""
    note: str = ""
    tables: tuple[PublishedTable, ...] = ()

    @property
    def paper(self) -> str:
        """Key of the paper: the part of the id before the slash."""
        return self.id.split("/")[0]

    @property
    def n_printed(self) -> int:
        """How many numbers the paper prints here that could be read."""
        rows = [row for table in self.tables for row in table.published.values()]
        return sum(not math.isnan(number) for row in rows for number in row)

    def table(self, name: str) -> PublishedTable:
        """Return the table of that name."""
        return lookup(f"table of {self.id}", name, {t.name: t for t in self.tables})


@cache
def _load() -> tuple[dict[str, Paper], dict[str, Fact]]:
    text = (files("ebmtut.experiments") / "facts.yaml").read_text(encoding="utf-8")
    loaded = yaml.safe_load(text)
    by_key = {key: Paper(key, **entry) for key, entry in loaded["papers"].items()}
    by_id = {}
    for entry in loaded["rows"]:
        tables = tuple(_table(table) for table in entry.pop("tables", []))
        by_id[entry["id"]] = Fact(**entry, tables=tables)
    return by_key, by_id


def _table(entry: dict[str, Any]) -> PublishedTable:
    # YAML has lists; tuples keep the frozen facts from being changed.
    for key in ("published", "spread"):
        rows = entry.pop(key, {})
        entry[key] = {method: tuple(values) for method, values in rows.items()}
    for key in ("columns", "quoted"):
        entry[key] = tuple(entry.get(key, ()))
    return PublishedTable(**entry)


def papers() -> Mapping[str, Paper]:
    """Return the five papers by key, in the book's order."""
    return _load()[0]


def facts() -> Mapping[str, Fact]:
    """Return every figure and table by id, in the papers' order."""
    return _load()[1]


def get_fact(id: str) -> Fact:
    """Return one figure or table."""
    return lookup("id", id, facts())


def lookup(name: str, key: str, known: Mapping[str, Value]) -> Value:
    """Return ``known[key]``, or raise an InputError that lists the keys."""
    if key not in known:
        check_choice(name, key, known)
    return known[key]
