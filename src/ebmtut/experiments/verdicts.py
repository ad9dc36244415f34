"""How a measured number is compared with a published one or a bound, by one rule.

`compare` compares a number with the one that a paper prints, `claim` with a bound of
this book. A verdict carries its evidence, and the ledger computes it again whenever it
is read, so that a stored word has no effect. Published numbers are those of the facts.
The bounds are the stored ones, and a test compares them with those of the experiments.

Part of the evidence is the *baseline*: the same number where nothing was learned, from
the experiment's baseline result. A number that cannot be distinguished from it shows
nothing, and a claim that also holds for the baseline is no claim.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ebmtut.experiments.facts import Better, get_fact

Word = Literal["match", "better", "miss", "like the baseline", "not comparable"]
Rule = Literal["published", "at least", "at most"]

#: Scores of one method: by number of sweeps, one per seed.
Scores = Mapping[int, Sequence[float]]

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
    """A measured number, what it is compared with, and how it compares.

    `measured` is the mean over `n_seeds` runs, None if it is not finite, with the
    standard error `stderr` (None for one run). It is compared with `target`, a bound of
    this book, or with `published`, the paper's number, which stands in `cell` (table,
    method, column). `verdict` follows from the key `rule` of `RULES`; `reason` says
    why, and `excuse` why the protocol makes numbers incomparable. `baseline` and
    `baseline_stderr` are the number where nothing was learned. With `sanity` the claim
    only guards against a broken computation: it is not counted, and may hold for the
    baseline.
    """

    name: str
    measured: float | None
    target: float | None
    published: float | None
    verdict: Word
    rule: Rule
    reason: str = ""
    stderr: float | None = None
    n_seeds: int | None = None
    cell: tuple[str, str, str] | None = None
    excuse: str = ""
    baseline: float | None = None
    baseline_stderr: float | None = None
    sanity: bool = False


#: What the claims of an experiment yield.
Verdicts = Iterable[Verdict]


def compare_numbers(
    measured: float | None,
    published: float | None,
    *,
    better: Better,
    rounding: float,
    stderr: float | None = None,
    slack: float = 0.0,
    slack_reason: str = "",
    excuse: str = "",
    baseline: float | None = None,
    baseline_noise: float = 0.0,
) -> tuple[Word, str]:
    """Compare a number with a published one."""
    if excuse:
        return "not comparable", excuse
    if published is None or not math.isfinite(published):
        return "not comparable", "the paper's number is not available"
    if measured is None or not math.isfinite(measured):
        return "miss", "the book's number is not finite"
    if baseline is not None and math.isfinite(baseline):
        gap = measured - baseline
        ahead = {"higher": gap, "lower": -gap, "equal": abs(gap)}[better]
        if ahead <= max(rounding, 2 * baseline_noise) + _FUZZ:
            return "like the baseline", _beside(gap, baseline, baseline_noise)
    difference = measured - published
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
    measured: float | Sequence[float] | None,
    *,
    stderr: float | None = None,
    n_seeds: int | None = None,
    excuse: str = "",
    baseline: float | None = None,
    baseline_stderr: float | None = None,
) -> Verdict:
    """Compare a number, or the mean of one per seed, with the paper's."""
    measured, stderr, n_seeds = _over_seeds(measured, stderr, n_seeds)
    printed = get_fact(id).table(table)
    published = printed.number(method, column)
    deviation = printed.deviation(method, column)
    word, reason = compare_numbers(
        measured,
        published,
        better=printed.better,
        rounding=0.5 * 10.0**-printed.decimals,
        stderr=math.hypot(stderr or 0.0, deviation or 0.0),
        slack=printed.slack,
        slack_reason=printed.slack_reason,
        excuse=excuse,
        baseline=baseline,
        baseline_noise=math.hypot(stderr or 0.0, baseline_stderr or 0.0),
    )
    return Verdict(
        name=f"{table}: {method}, {column}",
        measured=_finite(measured),
        target=None,
        published=published,
        verdict=word,
        rule="published",
        reason=reason,
        stderr=_finite(stderr),
        n_seeds=n_seeds,
        cell=(table, method, column),
        excuse=excuse,
        baseline=_finite(baseline),
        baseline_stderr=_finite(baseline_stderr),
    )


def claim(
    name: str,
    measured: float | Sequence[float] | None,
    rule: Literal["at least", "at most"],
    target: float,
    *,
    stderr: float | None = None,
    n_seeds: int | None = None,
    baseline: float | None = None,
    baseline_stderr: float | None = None,
    sanity: bool = False,
) -> Verdict:
    """Compare a number, or the mean of one per seed, with a bound of this book."""
    measured, stderr, n_seeds = _over_seeds(measured, stderr, n_seeds)
    measured, baseline = _finite(measured), _finite(baseline)
    holds = measured is not None and (
        measured >= target - _FUZZ if rule == "at least" else measured <= target + _FUZZ
    )
    shown = "not finite" if measured is None else f"{measured:.4g}"
    word: Word = "match" if holds else "miss"
    reason = f"{shown}, claimed {rule} {target:.4g}"
    if measured is not None and baseline is not None and not sanity and holds:
        noise = math.hypot(stderr or 0.0, baseline_stderr or 0.0)
        gap = measured - baseline
        ahead = gap if rule == "at least" else -gap
        if _keeps(baseline, rule, target) or ahead <= 2 * noise + _FUZZ:
            word = "like the baseline"
            reason += f"; {_beside(gap, baseline, noise)}"
    return Verdict(
        name=name,
        measured=measured,
        target=target,
        published=None,
        verdict=word,
        rule=rule,
        reason=reason,
        stderr=_finite(stderr),
        n_seeds=n_seeds,
        baseline=baseline,
        baseline_stderr=_finite(baseline_stderr),
        sanity=sanity,
    )


def _keeps(baseline: float, rule: Rule, target: float) -> bool:
    """Whether the baseline is beyond a bound, and not equal to it."""
    return (
        baseline > target + _FUZZ if rule == "at least" else baseline < target - _FUZZ
    )


def _beside(gap: float, baseline: float, noise: float) -> str:
    error = f" ± {noise:.2g}" if noise else ""
    return f"{gap:+.4g}{error} from the baseline's {baseline:.4g}"


def baseline_keeps(verdict: Verdict) -> bool:
    """Whether a claim is inadmissible because it also holds for the baseline."""
    target, baseline = verdict.target, verdict.baseline
    if target is None or baseline is None or verdict.sanity:
        return False
    return _keeps(baseline, verdict.rule, target)


def against_baseline(
    id: str, verdicts: Iterable[Verdict], baselines: Iterable[Verdict]
) -> list[Verdict]:
    """Give verdicts the baseline of the same name as evidence."""
    known = {baseline.name: baseline for baseline in baselines}

    def beside(verdict: Verdict) -> Verdict:
        baseline = known.get(verdict.name)
        if baseline is None or verdict.sanity:
            return verdict
        evidence = {"baseline": baseline.measured, "baseline_stderr": baseline.stderr}
        return verdict_from_json(id, to_json(verdict) | evidence)

    return [beside(verdict) for verdict in verdicts]


def mean_and_stderr(
    values: Sequence[float | None], errors: Sequence[float | None] = ()
) -> tuple[float, float | None]:
    """Return the mean over the seeds and its standard error."""
    import numpy as np

    numbers = np.array(values, dtype=float)
    spreads = []
    if len(numbers) > 1:  # equal numbers do not spread, though their mean is rounded
        spreads.append(float(numbers.std(ddof=1)) if np.ptp(numbers) else 0.0)
    if len(errors):
        spreads.append(float(np.array(errors, dtype=float).mean()))
    stderr = max(spreads) / len(numbers) ** 0.5 if spreads else None
    return float(numbers.mean()), stderr


def lead(theirs: Scores, ours: Scores, at: int) -> tuple[float, float | None]:
    """Mean difference of two methods' scores over the seeds, and its standard error.

    A single seed has an error, too, that of sampling: half the mean square step from
    one number of sweeps to the next, which a trend only makes larger.
    """
    both = zip(theirs[at], ours[at], strict=True)
    mean, stderr = mean_and_stderr([a - b for a, b in both])
    if stderr is None and len(ours) > 1:
        stderr = math.hypot(_scatter(theirs), _scatter(ours))
    return mean, stderr


def _scatter(scores: Scores) -> float:
    import numpy as np

    curve = [float(np.mean(scores[k])) for k in sorted(scores)]
    return float(np.sqrt(np.mean(np.diff(curve) ** 2) / 2))


def _over_seeds(
    measured: float | Sequence[float] | None, stderr: float | None, n_seeds: int | None
) -> tuple[float | None, float | None, int | None]:
    """Return the mean over the seeds, its standard error and the number of seeds."""
    if isinstance(measured, Sequence):
        return *mean_and_stderr(measured), len(measured)
    return measured, stderr, n_seeds


def verdict_from_json(id: str, stored: Mapping[str, Any]) -> Verdict:
    """Compute a verdict from stored evidence by today's facts and rule."""
    keys = ("stderr", "n_seeds", "baseline", "baseline_stderr")
    evidence: dict[str, Any] = {key: stored.get(key) for key in keys}
    evidence["measured"] = stored["measured"]
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
