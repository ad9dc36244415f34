"""How far one sampler's score lies above another's, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Result

__all__ = ["Scores", "lead", "took", "with_table"]

#: Scores of one method: by number of sweeps, one a seed.
Scores = Mapping[int, Sequence[float]]


def lead(theirs: Scores, ours: Scores, at: int) -> tuple[float, float | None]:
    """Subtract our score from theirs at one number of sweeps.

    Parameters
    ----------
    theirs, ours
        Scores of two methods with the same seeds.
    at
        The number of sweeps.

    Returns
    -------
    mean
        The mean difference over the seeds.
    stderr
        Its standard error. A single seed has an error, too, that of sampling: half
        the mean square step from one number of sweeps to the next, which a trend only
        makes larger. None if there is one number of sweeps.
    """
    both = zip(theirs[at], ours[at], strict=True)
    mean, stderr = mean_and_stderr([a - b for a, b in both])
    if stderr is None and len(ours) > 1:
        stderr = math.hypot(_scatter(theirs), _scatter(ours))
    return mean, stderr


def _scatter(scores: Scores) -> float:
    curve = [float(np.mean(scores[k])) for k in sorted(scores)]
    return float(np.sqrt(np.mean(np.diff(curve) ** 2) / 2))


def took(seconds: float) -> str:
    """Write a time with its unit: what two runs of a page need not share."""
    return f"{seconds:.1f} s"


def with_table(result: Result, table: Mapping[str, Any], **scalars: Any) -> Result:
    """Return a result with another table, and other scalars: a null's."""
    return replace(result, scalars=result.scalars | {"table": table} | scalars)
