"""Claims and their verdicts as a table, for the reproduction notes."""

from collections.abc import Sequence

from ebmtut.experiments.verdicts import Verdict
from ebmtut.results import Table

_SIGNS = {"at least": "≥", "at most": "≤"}


def claims_table(verdicts: Sequence[Verdict], caption: str = "") -> Table:
    """List claims with their number, bound, baseline and verdict."""
    return Table(
        {
            "claim": [v.name for v in verdicts],
            "book": [_measured(v) for v in verdicts],
            "bound, or published": [_bound(v) for v in verdicts],
            "baseline": [v.baseline for v in verdicts],
            "verdict": [
                f"{v.verdict}, a sanity check" if v.sanity else v.verdict
                for v in verdicts
            ],
        },
        caption=caption,
    )


def _measured(verdict: Verdict) -> float | tuple[float, float] | None:
    if verdict.measured is None or verdict.stderr is None:
        return verdict.measured
    return verdict.measured, verdict.stderr


def _bound(verdict: Verdict) -> str:
    if verdict.target is None:
        return f"{verdict.published:.3g}, published"
    return f"{_SIGNS[verdict.rule]} {verdict.target:.3g}"
