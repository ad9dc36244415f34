"""How a number of ours is judged: one rule, stated once.

`compare` sets a number beside the one that a paper prints, `claim` beside a
bound that we set ourselves. A verdict carries its evidence, so that the ledger
judges it again whenever it is read: a stored word is never believed. Published
numbers are those of the facts; the bounds of our own are the stored ones, which
a test holds to those that the experiments claim today.

Part of the evidence is the *null*: the same number where nothing was learned, from
the row's null result. What it cannot be told from shows nothing, and a claim that
the null keeps, too, is none.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ebmtut.experiments.facts import Better, get_fact

Word = Literal["match", "better", "miss", "not told from null", "not comparable"]
Rule = Literal["published", "at least", "at most"]

RULES: Mapping[Rule, str] = {
    "published": (
        "Not comparable if the protocols differ or the paper's number is not "
        "available. A number that is not finite is a miss. Like the baseline if the "
        "book's number is ahead of the baseline's by no more than the larger of half "
        "a unit of the last printed digit and two standard errors. A match if its "
        "difference from the paper's number is no more than the larger of these two. "
        "Not comparable if the difference is within what the paper's protocol leaves "
        "open. Otherwise better or a miss, by the metric's direction."
    ),
    "at least": (
        "Kept if the book's number is finite and at least the bound, otherwise a "
        "miss. Like the baseline if the baseline's number keeps the bound as well, "
        "or is behind by no more than two standard errors."
    ),
    "at most": "The same, with at most in place of at least.",
}

# Decimal fractions such as 4.65 - 4.6 miss their bound by a rounding error.
_FUZZ = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What a number of ours is worth, with the evidence.

    `ours` is the mean over `n_seeds` runs, None if it is not finite, with the standard
    error `stderr` (None for one run). It is compared with `target`, a bound of our own,
    or with `published`, the paper's number, which stands in `cell` (table, method,
    column). `verdict` is "match", "better", "miss" or "not comparable", by the key
    `rule` of `RULES`; `reason` says why, and `excuse` why our protocol makes numbers
    incomparable. `null` and `null_stderr` are the number where nothing was learned.
    `sanity`: it only guards against a broken computation, is not counted, and the null
    may keep it.
    """

    name: str
    ours: float | None
    target: float | None
    published: float | None
    verdict: Word
    rule: Rule
    reason: str = ""
    stderr: float | None = None
    n_seeds: int | None = None
    cell: tuple[str, str, str] | None = None
    excuse: str = ""
    null: float | None = None
    null_stderr: float | None = None
    sanity: bool = False


#: What the claims of an experiment yield.
Verdicts = Iterable[Verdict]


def judge(
    ours: float | None,
    published: float | None,
    *,
    better: Better,
    rounding: float,
    stderr: float | None = None,
    slack: float = 0.0,
    slack_reason: str = "",
    excuse: str = "",
    null: float | None = None,
    null_noise: float = 0.0,
) -> tuple[Word, str]:
    """Judge a number against a published one."""
    if excuse:
        return "not comparable", excuse
    if published is None or not math.isfinite(published):
        return "not comparable", "the paper's number is not available"
    if ours is None or not math.isfinite(ours):
        return "miss", "our number is not finite"
    if null is not None and math.isfinite(null):
        gap = ours - null
        ahead = {"higher": gap, "lower": -gap, "equal": abs(gap)}[better]
        if ahead <= max(rounding, 2 * null_noise) + _FUZZ:
            return "not told from null", _beside(gap, null, null_noise)
    difference = ours - published
    noise = 2 * stderr if stderr is not None and math.isfinite(stderr) else 0.0
    margin = max(rounding, noise)
    if abs(difference) <= margin + _FUZZ:
        return "match", f"difference {difference:+.4g} within {margin:.4g}"
    if abs(difference) <= slack + _FUZZ:
        return "not comparable", slack_reason
    reason = f"difference {difference:+.4g} beyond {margin:.4g}"
    if better == "equal":
        return "miss", reason
    return ("better" if (difference > 0) == (better == "higher") else "miss"), reason


def compare(
    id: str,
    table: str,
    method: str,
    column: str,
    ours: float | Sequence[float] | None,
    *,
    stderr: float | None = None,
    n_seeds: int | None = None,
    excuse: str = "",
    null: float | None = None,
    null_stderr: float | None = None,
) -> Verdict:
    """Set a number of ours, or the mean of one per seed, beside the paper's."""
    ours, stderr, n_seeds = _over_seeds(ours, stderr, n_seeds)
    printed = get_fact(id).table(table)
    published = printed.number(method, column)
    deviation = printed.deviation(method, column)
    word, reason = judge(
        ours,
        published,
        better=printed.better,
        rounding=0.5 * 10.0**-printed.decimals,
        stderr=math.hypot(stderr or 0.0, deviation or 0.0),
        slack=printed.slack,
        slack_reason=printed.slack_reason,
        excuse=excuse,
        null=null,
        null_noise=math.hypot(stderr or 0.0, null_stderr or 0.0),
    )
    return Verdict(
        name=f"{table}: {method}, {column}",
        ours=_finite(ours),
        target=None,
        published=published,
        verdict=word,
        rule="published",
        reason=reason,
        stderr=_finite(stderr),
        n_seeds=n_seeds,
        cell=(table, method, column),
        excuse=excuse,
        null=_finite(null),
        null_stderr=_finite(null_stderr),
    )


def claim(
    name: str,
    ours: float | Sequence[float] | None,
    rule: Literal["at least", "at most"],
    target: float,
    *,
    stderr: float | None = None,
    n_seeds: int | None = None,
    null: float | None = None,
    null_stderr: float | None = None,
    sanity: bool = False,
) -> Verdict:
    """Set a number of ours, or the mean of one per seed, beside a bound of our own."""
    ours, stderr, n_seeds = _over_seeds(ours, stderr, n_seeds)
    ours, null = _finite(ours), _finite(null)
    holds = ours is not None and (
        ours >= target - _FUZZ if rule == "at least" else ours <= target + _FUZZ
    )
    shown = "not finite" if ours is None else f"{ours:.4g}"
    word: Word = "match" if holds else "miss"
    reason = f"{shown}, claimed {rule} {target:.4g}"
    if ours is not None and null is not None and not sanity and holds:
        noise = math.hypot(stderr or 0.0, null_stderr or 0.0)
        gap = ours - null
        ahead = gap if rule == "at least" else -gap
        if _keeps(null, rule, target) or ahead <= 2 * noise + _FUZZ:
            word = "not told from null"
            reason += f"; {_beside(gap, null, noise)}"
    return Verdict(
        name=name,
        ours=ours,
        target=target,
        published=None,
        verdict=word,
        rule=rule,
        reason=reason,
        stderr=_finite(stderr),
        n_seeds=n_seeds,
        null=null,
        null_stderr=_finite(null_stderr),
        sanity=sanity,
    )


def _keeps(null: float, rule: Rule, target: float) -> bool:
    """Whether the null lies beyond a bound; a bound that is the null's is not kept."""
    return null > target + _FUZZ if rule == "at least" else null < target - _FUZZ


def _beside(gap: float, null: float, noise: float) -> str:
    error = f" ± {noise:.2g}" if noise else ""
    return f"{gap:+.4g}{error} from the null's {null:.4g}"


def null_keeps(verdict: Verdict) -> bool:
    """Whether a claim of our own is inadmissible, as the null keeps it, too."""
    if verdict.target is None or verdict.sanity:
        return False
    return verdict.null is not None and _keeps(
        verdict.null, verdict.rule, verdict.target
    )


def against_null(
    id: str, verdicts: Iterable[Verdict], nulls: Iterable[Verdict]
) -> list[Verdict]:
    """Judge verdicts beside those of the null result, matched by name."""
    known = {null.name: null for null in nulls}

    def beside(verdict: Verdict) -> Verdict:
        null = known.get(verdict.name)
        if null is None or verdict.sanity:
            return verdict
        evidence = {"null": null.ours, "null_stderr": null.stderr}
        return judge_again(id, to_json(verdict) | evidence)

    return [beside(verdict) for verdict in verdicts]


def mean_and_stderr(
    values: Sequence[float | None], errors: Sequence[float | None] = ()
) -> tuple[float, float | None]:
    """Return the mean over the seeds and its standard error."""
    import numpy as np

    numbers = np.array(values, dtype=float)
    spreads = []
    if len(numbers) > 1:
        spreads.append(float(numbers.std(ddof=1)))
    if len(errors):
        spreads.append(float(np.array(errors, dtype=float).mean()))
    stderr = max(spreads) / len(numbers) ** 0.5 if spreads else None
    return float(numbers.mean()), stderr


def _over_seeds(
    ours: float | Sequence[float] | None, stderr: float | None, n_seeds: int | None
) -> tuple[float | None, float | None, int | None]:
    """Return the mean over the seeds, its standard error and the number of seeds."""
    if isinstance(ours, Sequence):
        return *mean_and_stderr(ours), len(ours)
    return ours, stderr, n_seeds


def judge_again(id: str, stored: Mapping[str, Any]) -> Verdict:
    """Judge stored evidence by today's facts and rule."""
    keys = ("ours", "stderr", "n_seeds", "null", "null_stderr")
    evidence: dict[str, Any] = {key: stored.get(key) for key in keys}
    if stored["rule"] == "published":
        table, method, column = stored["cell"]
        excuse = stored["excuse"]
        return compare(id, table, method, column, **evidence, excuse=excuse)
    return claim(
        stored["name"],
        rule=stored["rule"],
        target=stored["target"],
        sanity=stored.get("sanity", False),
        **evidence,
    )


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain JSON: no NaN, lists for tuples."""
    entry = dataclasses.asdict(verdict)
    return entry | {"cell": list(verdict.cell) if verdict.cell else None}


def _finite(value: float | None) -> float | None:
    """Return a plain float (numpy's are no JSON), None if it is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None
