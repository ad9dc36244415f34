"""The state of every figure and table, from the facts and the stored results.

A row is `stored` where a result lies in the results folder, `live` where a
notebook computes it at quick scale, else `not run`. Verdicts are judged here,
from the evidence in the stored result; a word that the result holds itself is
not read. Nothing here imports torch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ebmtut.experiments.facts import Fact, facts, lookup, papers
from ebmtut.experiments.registry import SCALES, Scale, available, page_of
from ebmtut.experiments.verdicts import Verdict, Word, judge_again, to_json
from ebmtut.results import Provenance, ResultNotFound, load_result

__all__ = ["Row", "ScaleState", "State", "rows", "summary", "text_table"]

State = Literal["stored", "live", "not run"]

MARKS: Mapping[Word, str] = {
    "match": "=",
    "better": "+",
    "miss": "-",
    "not comparable": "?",
}


@dataclass(frozen=True)
class ScaleState:
    """A row at one scale.

    Attributes
    ----------
    state : {"stored", "live", "not run"}
        Where its numbers are.
    verdicts : tuple of Verdict
        Of the stored result; empty if none is stored.
    protocol : str
        How the stored result was measured, in the experiment's words.
    provenance : Provenance or None
        Where the stored result comes from.
    """

    state: State
    verdicts: tuple[Verdict, ...] = ()
    protocol: str = ""
    provenance: Provenance | None = None


@dataclass(frozen=True)
class Row:
    """A figure or table of a paper, and how far we are with it."""

    fact: Fact
    scales: Mapping[Scale, ScaleState]

    def to_json(self) -> dict[str, Any]:
        """Return what ``ebmtut list --json`` prints of a row."""
        return {
            "id": self.fact.id,
            "paper": self.fact.paper,
            "title": self.fact.title,
            "scales": {
                scale: {
                    "state": at.state,
                    "verdicts": [to_json(verdict) for verdict in at.verdicts],
                }
                for scale, at in self.scales.items()
            },
        }

    def best(self) -> ScaleState:
        """Return the largest scale that is stored, else the quick one."""
        stored = [at for at in self.scales.values() if at.state == "stored"]
        return stored[-1] if stored else self.scales["quick"]


def rows(
    root: Path | None = None, *, paper: str = "all", scales: Sequence[Scale] = SCALES
) -> list[Row]:
    """Return the rows of the ledger, in the papers' order.

    Parameters
    ----------
    root : Path, optional
        The results folder; by default the project's own.
    paper : str
        Key of one paper, or "all".
    scales : sequence of str
        Scales whose stored results are read; those of another count as absent.

    Raises
    ------
    InputError
        If there is no such paper; the message lists them.
    """
    if paper != "all":
        lookup("paper", paper, {"all": None, **papers()})
    return [
        Row(fact, {scale: _state(fact, scale, root, scales) for scale in SCALES})
        for fact in facts().values()
        if paper in ("all", fact.paper)
    ]


def _state(
    fact: Fact, scale: Scale, root: Path | None, read: Sequence[Scale]
) -> ScaleState:
    try:
        if scale in read:
            stored = load_result(fact.id, scale, root, with_arrays=False)
            evidence = stored.scalars.get("verdicts", [])
            return ScaleState(
                "stored",
                tuple(judge_again(fact.id, entry) for entry in evidence),
                stored.scalars.get("protocol", ""),
                stored.provenance,
            )
    except ResultNotFound:
        pass
    return ScaleState("live" if scale == "quick" and _is_live(fact.id) else "not run")


def _is_live(id: str) -> bool:
    """Whether the experiment is there and so is the page that shows it."""
    return id in available() and page_of(id) is not None


def summary(ledger: Sequence[Row]) -> str:
    """Return a line for each paper: its rows, by state, and verdicts."""
    columns = ("rows", *get_args(State), *MARKS)
    lines = [" " * 4 + "".join(f"  {name}" for name in columns)]
    for key in papers():
        of_paper = [row for row in ledger if row.fact.paper == key]
        if not of_paper:
            continue
        states = Counter(_furthest(row) for row in of_paper)
        words = Counter(v.verdict for row in of_paper for v in row.best().verdicts)
        counts = {"rows": len(of_paper)} | states | words
        cells = (f"{counts.get(name, 0):>{len(name) + 2}}" for name in columns)
        lines.append(f"{key:4}" + "".join(cells))
    return "\n".join(lines)


def _furthest(row: Row) -> State:
    found = {at.state for at in row.scales.values()}
    order: tuple[State, ...] = ("stored", "live")
    return next((state for state in order if state in found), "not run")


def text_table(ledger: Sequence[Row]) -> str:
    """Return the ledger as text, at most 100 columns wide."""
    wide = max(len(row.fact.id) for row in ledger) + 1
    head = "".join(f"{scale:9}" for scale in SCALES)
    lines = [f"{'id':{wide}}{head}{'verdicts':15}title"]
    for row in ledger:
        states = "".join(f"{row.scales[scale].state:9}" for scale in SCALES)
        counts = Counter(verdict.verdict for verdict in row.best().verdicts)
        marks = " ".join(f"{counts[w]}{mark}" for w, mark in MARKS.items() if counts[w])
        lines.append(f"{row.fact.id:{wide}}{states}{marks:15}{row.fact.title}")
    legend = ", ".join(f"{mark} {word}" for word, mark in MARKS.items())
    return "\n".join([*lines, "", f"verdicts of the largest stored scale: {legend}"])
