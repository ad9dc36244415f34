"""The state of every figure and table, from the facts and the stored results.

A row is `stored`, `same run` at paper scale where the stored full run has the paper's
setting, `live` where a notebook computes it at quick scale, `can run` where only the
experiment is at hand, else `not run`. Verdicts are computed here from the evidence in
the stored results. Nothing here imports torch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from ebmtut.checks import InputError
from ebmtut.experiments.facts import Fact, facts, lookup, papers
from ebmtut.experiments.registry import (
    PAPERS_IN_FULL,
    SCALES,
    Scale,
    available,
    page_of,
)
from ebmtut.experiments.verdicts import (
    Verdict,
    Word,
    compare,
    to_json,
    verdict_from_json,
)
from ebmtut.results import (
    Provenance,
    Result,
    ResultNotFound,
    benchmarks_root,
    load_result,
)

__all__ = [
    "KINDS",
    "Line",
    "Row",
    "ScaleState",
    "State",
    "counts",
    "lines",
    "rows",
    "tally",
    "text_table",
]

State = Literal["stored", "same run", "live", "can run", "not run", "damaged"]

Kind = Literal["own method", "other method", "claim", "sanity check"]
#: What a number is about: the first two are printed by the paper.
KINDS: tuple[Kind, ...] = ("own method", "other method", "claim", "sanity check")

# Methods whose numbers a paper quotes from others, or got by running their code.
_OTHERS = {
    *("ALOE+", "DMALA", "EB-GFN", "GFlowNet", "GWG", "Gibbs", "Gibbs-reset"),
    *("PCD", "PCD1", "PCD100", "PmapLP", "exact solver"),
}

QUOTED = "quoted only"


class Study(NamedTuple):
    """A stored run beside the experiments, too short to be compared with the paper.

    ``metric`` is the key of its numbers in ``table``, the table of the paper.
    """

    id: str
    table: str
    metric: str
    why: str


# By the figure or table whose methods they run.
_REDUCED = "run at a reduced scale:"
_EB_GFN = f"{_REDUCED} 150 updates, one or two runs per lattice"
_EB_GFN_DENSITIES = f"{_REDUCED} 50 updates, one run per density"
_EB_DNFS = f"{_REDUCED} 4,400 updates, leMLP in the place of leTF"
_STUDIES: Mapping[str, tuple[Study, ...]] = {
    "ed/ising-rmse": tuple(
        Study(id, "negative log-RMSE", "nlr", _EB_GFN)
        for id in ("dnfs/couplings-gflownet", "ed/ising-eb-gfn")
    ),
    "ed/densities-table": tuple(
        Study("ed/densities-eb-gfn", table, table.lower(), _EB_GFN_DENSITIES)
        for table in ("NLL", "MMD")
    ),
    "dnfs/ebm-table": tuple(
        Study("dnfs/wide", table, table, _EB_DNFS) for table in ("NLL", "MMD")
    ),
}

MARKS: Mapping[Word, str] = {
    "match": "=",
    "better": "+",
    "miss": "-",
    "like the baseline": "~",
    "not comparable": "?",
}


@dataclass(frozen=True)
class ScaleState:
    """A row at one scale.

    Attributes
    ----------
    state
        "stored", "same run" as at full scale, "live", "can run", "not run", or
        "damaged".
    verdicts, protocol, provenance
        Of the stored result, empty or None if none is stored.
    fault
        What is wrong with a damaged one.
    """

    state: State
    verdicts: tuple[Verdict, ...] = ()
    protocol: str = ""
    provenance: Provenance | None = None
    fault: str = ""


@dataclass(frozen=True)
class Row:
    """A figure or table of a paper, how far we are with it, and the studies beside."""

    fact: Fact
    scales: Mapping[Scale, ScaleState]
    studies: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)

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

    def stored(self) -> dict[Scale, ScaleState]:
        """Return the scales that are stored, the largest last."""
        return {scale: at for scale, at in self.scales.items() if at.state == "stored"}

    def verdicts(self) -> list[Verdict]:
        """Return every number and claim once, from the largest stored run that has it.

        A larger run may have fewer methods: what only a smaller one or a study has
        still stands.
        """
        latest: dict[Any, Verdict] = {}
        found = [*self.studies.values()]
        found += [at.verdicts for at in self.stored().values()]
        for verdicts in found:
            latest |= {(verdict.cell, verdict.name): verdict for verdict in verdicts}
        return list(latest.values())


def rows(
    root: Path | None = None,
    *,
    paper: str = "all",
    scales: Sequence[Scale] = SCALES,
    studies: Path | None = None,
) -> list[Row]:
    """Return the rows of the ledger, in the papers' order.

    Parameters
    ----------
    root, studies
        The folders of results and of studies; by default the project's own.
    paper
        Key of one paper, or "all".
    scales
        Scales whose stored results are read; those of another count as absent.
    """
    if paper != "all":
        lookup("paper", paper, {"all": None, **papers()})
    if studies is None and root is None:
        studies = benchmarks_root()
    return [
        Row(fact, _states(fact, root, scales), _studies(fact, studies))
        for fact in facts().values()
        if paper in ("all", fact.paper)
    ]


def _states(
    fact: Fact, root: Path | None, read: Sequence[Scale]
) -> dict[Scale, ScaleState]:
    found = {scale: _state(fact, scale, root, read) for scale in SCALES}
    if (
        fact.id in PAPERS_IN_FULL
        and found["full"].state == "stored"
        and found["paper"].state == "not run"
    ):
        found["paper"] = ScaleState("same run")
    return found


def _studies(fact: Fact, root: Path | None) -> dict[str, tuple[Verdict, ...]]:
    """Return the numbers of the studies beside a figure or table, by study."""
    found: dict[str, tuple[Verdict, ...]] = {}
    for id, table, metric, why in _STUDIES.get(fact.id, ()) if root else ():
        with suppress(ResultNotFound):
            stored = load_result(id, "full", root, with_arrays=False)
            for method, cells in stored.scalars["table"].items():
                if method in fact.table(table).published:
                    for column, cell in cells.items():
                        mean = fmean(cell.get(metric, [nan]))  # NaN: a run diverged
                        where = (fact.id, table, method, column)
                        beside = compare(*where, mean, excuse=why)
                        found[id] = (*found.get(id, ()), beside)
    return found


def _state(
    fact: Fact, scale: Scale, root: Path | None, read: Sequence[Scale]
) -> ScaleState:
    try:
        if scale in read:
            stored = load_result(fact.id, scale, root, with_arrays=False)
            return ScaleState(
                "stored",
                _verdicts(fact.id, stored),
                stored.scalars.get("protocol", ""),
                stored.provenance,
            )
    except ResultNotFound:
        pass
    except InputError as error:
        return ScaleState("damaged", fault=str(error))
    if scale != "quick" or fact.id not in available():
        return ScaleState("not run")
    return ScaleState("can run" if page_of(fact.id) is None else "live")


def _verdicts(id: str, stored: Result) -> tuple[Verdict, ...]:
    """Compute verdicts from the evidence of a stored result, whatever its JSON."""
    try:
        evidence = stored.scalars.get("verdicts", [])
        return tuple(verdict_from_json(id, entry) for entry in evidence)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{id} at scale {stored.scale} holds no readable verdicts: "
            f"{type(error).__name__}: {error}"
        ) from error


def counts(ledger: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Count each paper's rows by state, its printed numbers and the book's own claims.

    Returns
    -------
    table
        By paper: ``rows``, ``stored``, ``live`` and ``neither``; ``printed``, and of
        these each word of a verdict, ``not run`` and ``quoted only``; ``claims`` with a
        baseline, of these ``kept``, ``missed`` and ``claims like the baseline``; and
        claims ``without a baseline``.
    """
    return {
        key: _count(of_paper)
        for key in papers()
        if (of_paper := [row for row in ledger if row.fact.paper == key])
    }


def _count(ledger: Sequence[Row]) -> dict[str, int]:
    states = [{at.state for at in row.scales.values()} for row in ledger]
    verdicts = [verdict for row in ledger for verdict in row.verdicts()]
    # Our number where the paper leaves the entry empty is no printed number.
    published = Counter(v.verdict for v in verdicts if v.published is not None)
    claims = [v for v in verdicts if not v.cell and not v.sanity]
    own = Counter(v.verdict for v in claims if v.baseline is not None)
    printed = sum(row.fact.n_printed for row in ledger)
    quoted = sum(line.word == QUOTED for line in lines(ledger))
    return {
        "rows": len(ledger),
        "stored": sum("stored" in found for found in states),
        "live": sum(row.scales["quick"].state == "live" for row in ledger),
        "neither": sum(found == {"not run"} for found in states),
        "printed": printed,
        **{word: published[word] for word in MARKS},
        "not run": printed - published.total() - quoted,
        QUOTED: quoted,
        "claims": own.total(),
        "kept": own["match"],
        "missed": own["miss"],
        "claims like the baseline": own["like the baseline"],
        "without a baseline": len(claims) - own.total(),
    }


@dataclass(frozen=True)
class Line:
    """One number or claim of the ledger.

    `published` is the paper's number and `spread` its standard deviation, None where it
    prints none. `verdict` is that of a stored run of this `scale`, None where nothing
    was run; `superseded` if a larger stored run has the same number; `study` names
    the stored study that has it where no run of the experiment does; `quoted` if the
    book has no code for the method.
    """

    fact: Fact
    kind: Kind
    name: str
    published: float | None = None
    spread: float | None = None
    verdict: Verdict | None = None
    scale: Scale | None = None
    superseded: bool = False
    study: str = ""
    quoted: bool = False

    @property
    def word(self) -> str:
        """The verdict, "not run", or "quoted only"."""
        if self.verdict is None:
            return QUOTED if self.quoted else "not run"
        return self.verdict.verdict


def lines(ledger: Sequence[Row]) -> list[Line]:
    """Return every published number and every claim, run or not, one line each."""
    found: list[Line] = []
    for row in ledger:
        stored = [
            (scale, verdict)
            for scale, at in row.stored().items()
            for verdict in at.verdicts
        ]
        largest = {(verdict.cell, verdict.name): scale for scale, verdict in stored}
        seen = {verdict.cell for _, verdict in stored}
        for scale, verdict in stored:
            known = largest[verdict.cell, verdict.name]
            found.append(_line(row.fact, verdict, scale, known != scale))
        for study, verdicts in row.studies.items():
            alone = [verdict for verdict in verdicts if verdict.cell not in seen]
            seen |= {verdict.cell for verdict in alone}
            found += [_line(row.fact, verdict, study=study) for verdict in alone]
        for table in row.fact.tables:
            for method in table.published:
                for column in table.columns:
                    number = table.number(method, column)
                    cell = (table.name, method, column)
                    if number is None or cell in seen:
                        continue
                    spread = table.deviation(method, column)
                    name = f"{table.name}: {method}, {column}"
                    kind = _kind(method)
                    quoted = method in table.quoted
                    line = Line(row.fact, kind, name, number, spread, quoted=quoted)
                    found.append(line)
    return found


def _kind(method: str) -> Kind:
    return "other method" if method in _OTHERS else "own method"


def _line(
    fact: Fact,
    verdict: Verdict,
    scale: Scale | None = None,
    superseded: bool = False,
    study: str = "",
) -> Line:
    kind: Kind = "sanity check" if verdict.sanity else "claim"
    spread = None
    if verdict.cell is not None:
        table, method, column = verdict.cell
        kind = _kind(method)
        with suppress(InputError):  # a table or column that the paper does not print
            spread = fact.table(table).deviation(method, column)
    number = verdict.published
    found = (fact, kind, verdict.name, number, spread, verdict, scale, superseded)
    return Line(*found, study)


def tally(found: Sequence[Line]) -> dict[Kind, Counter[str]]:
    """Count lines by kind and verdict, without numbers that no paper prints."""
    counted: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
    for line in found:
        is_printed = line.kind in ("own method", "other method")
        if not line.superseded and not (is_printed and line.published is None):
            counted[line.kind][line.word] += 1
    return counted


def text_table(ledger: Sequence[Row]) -> str:
    """Return the ledger as text, at most 100 columns wide."""
    wide = max(len(row.fact.id) for row in ledger) + 1
    head = "".join(f"{scale:9}" for scale in SCALES)
    lines = [f"{'id':{wide}}{head}{'verdicts':15}title"]
    for row in ledger:
        states = "".join(f"{row.scales[scale].state:9}" for scale in SCALES)
        words = Counter(v.verdict for v in row.verdicts() if not v.sanity)
        marks = " ".join(f"{words[w]}{mark}" for w, mark in MARKS.items() if words[w])
        lines.append(f"{row.fact.id:{wide}}{states}{marks:14} {row.fact.title}")
    legend = ", ".join(f"{mark} {word}" for word, mark in MARKS.items())
    lines += ["", f"by the largest stored run: {legend}"]
    if any(row.scales["paper"].state == "same run" for row in ledger):
        lines.append("same run: the full run has the paper's own setting")
    if any(row.scales["quick"].state == "can run" for row in ledger):
        lines.append("can run: by `ebmtut run ID`")
    return "\n".join(lines)
