"""Row dnfs/leaps-networks (Figure 12): LEAPS with a convolution and a transformer."""

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.results import Result

METHODS = ("LEAPS, leTF", "LEAPS, leConv", "untrained")


def check_networks(result: Result) -> Verdicts:
    """Where bits are no lattice the transformer is the nearer, in every run."""
    table = result.scalars["table"]
    for density, cell in table["LEAPS, leTF"].items():
        times = np.divide(table["LEAPS, leConv"][density]["TV"], cell["TV"])
        name = (
            f"{density}: total variation of LEAPS with leConv relative to leTF, "
            "smallest of the runs"
        )
        smallest = float(times.min())
        yield claim(name, smallest, "at least", 1.1, n_seeds=len(times))


_BASE = pretrained_ebm.EXPERIMENT
EXPERIMENT = replace(
    _BASE,
    id="dnfs/leaps-networks",
    title="LEAPS with a convolution and a transformer",
    presets={k: replace(v, methods=METHODS) for k, v in _BASE.presets.items()},
    check=check_networks,
)
