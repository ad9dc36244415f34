"""Row dnfs/taylor-ratio (Figure 9): what a first-order ratio costs."""

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.dnfs.planes import means_of
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.results import Result

METHODS = ("DNFS", "Taylor", "untrained")


def check_taylor(result: Result) -> Verdicts:
    """With Taylor ratios far more mass is in the wrong place, in every run."""
    table = result.scalars["table"]
    for density, cell in table["Taylor"].items():
        times = np.divide(cell["TV"], table["DNFS"][density]["TV"])
        name = (
            f"{density}: total variation with Taylor ratios relative to exact ratios, "
            "smallest of the runs"
        )
        smallest = float(times.min())
        yield claim(name, smallest, "at least", 2.0, n_seeds=len(times))


# What the weights say of Taylor ratios, beside what they do.
ratio_table = Pivot(
    head="energy",
    rows={"{density}": "table/DNFS/{density}"},
    columns={
        "ESS, exact ratios": "ESS",
        "ESS, Taylor": "/table/Taylor/{density}/ESS",
        "log Z off, Taylor": "/table/Taylor/{density}/log Z error",
        "TV, exact ratios": "TV",
        "TV, Taylor": "/table/Taylor/{density}/TV",
    },
    caption=lambda result: f"Ratios to first order, and exact ones.{means_of(result)}",
    digits=2,
)


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
    baseline=no_difference,
    check=check_taylor,
)
