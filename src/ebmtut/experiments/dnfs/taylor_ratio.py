"""Row dnfs/taylor-ratio (Figure 9): what a first-order ratio costs."""

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
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
