"""Row dnfs/taylor-ratio (Figure 9): what a first-order ratio costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.dnfs.captions import means_of
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["EXPERIMENT", "ratio_table"]

METHODS = ("DNFS", "Taylor", "untrained")


def check_taylor(result: Result) -> list[Verdict]:
    """With Taylor ratios far more mass is in the wrong place, in every run."""
    table = result.scalars["table"]
    verdicts = []
    for density, cell in table["Taylor"].items():
        times = np.divide(cell["TV"], table["DNFS"][density]["TV"])
        name = (
            f"{density}: misplaced mass with Taylor ratios over that with exact, "
            "smallest of the runs"
        )
        smallest = float(times.min())
        verdicts.append(claim(name, smallest, "at least", 2.0, n_seeds=len(times)))
    return verdicts


def ratio_table(result: Result) -> Table:
    """Set what weights say of Taylor ratios beside what they do.

    Parameters
    ----------
    result
        Of this row, or of dnfs/pretrained-ebm.
    """
    exact, taylor = (result.scalars["table"][m] for m in ("DNFS", "Taylor"))
    columns: dict[str, list[Cell]] = {"energy": list(exact)}
    for head, row, metric in (
        ("ESS, exact ratios", exact, "ESS"),
        ("ESS, Taylor", taylor, "ESS"),
        ("log Z off, Taylor", taylor, "log Z error"),
        ("TV, exact ratios", exact, "TV"),
        ("TV, Taylor", taylor, "TV"),
    ):
        columns[head] = [mean_and_stderr(cell[metric]) for cell in row.values()]
    caption = f"Ratios to first order, and exact ones.{means_of(result)}"
    return Table(columns, caption=caption, digits=2)


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
