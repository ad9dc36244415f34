"""Row dnfs/taylor-ratio (Figure 9): what a first-order ratio costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.results import Result

__all__ = ["EXPERIMENT"]

METHODS = ("DNFS", "Taylor", "untrained")


def check_taylor(result: Result) -> list[Verdict]:
    """With Taylor ratios far more mass is in the wrong place."""
    table = result.scalars["table"]
    verdicts = []
    for density, cell in table["Taylor"].items():
        exact = float(np.mean(table["DNFS"][density]["TV"]))
        ratio = float(np.mean(cell["TV"])) / exact
        name = f"{density}: misplaced mass with Taylor ratios over that with exact"
        n_seeds = len(cell["TV"])
        verdicts.append(claim(name, ratio, "at least", 2.0, n_seeds=n_seeds))
    return verdicts


def no_difference(result: Result) -> Result:
    """Return exact ratios in the place of Taylor's."""
    table = result.scalars["table"]
    same = {**table, "Taylor": table["DNFS"]}
    return replace(result, scalars=result.scalars | {"table": same})


_BASE = pretrained_ebm.EXPERIMENT
EXPERIMENT = replace(
    _BASE,
    id="dnfs/taylor-ratio",
    title="Taylor ratios against exact ones",
    presets={k: replace(v, methods=METHODS) for k, v in _BASE.presets.items()},
    null=no_difference,
    check=check_taylor,
)
