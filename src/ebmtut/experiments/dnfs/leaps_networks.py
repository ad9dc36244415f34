"""Row dnfs/leaps-networks (Figure 12): LEAPS with a convolution and a transformer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.results import Result

__all__ = ["EXPERIMENT"]

METHODS = ("LEAPS, leTF", "LEAPS, leConv", "untrained")


def check_networks(result: Result) -> list[Verdict]:
    """On bits that are no lattice the transformer is nearer than the convolution."""
    table = result.scalars["table"]
    verdicts = []
    for density, cell in table["LEAPS, leTF"].items():
        ours = float(np.mean(cell["TV"]))
        ratio = float(np.mean(table["LEAPS, leConv"][density]["TV"])) / ours
        name = f"{density}: misplaced mass of LEAPS with leConv over that with leTF"
        n_seeds = len(cell["TV"])
        verdicts.append(claim(name, ratio, "at least", 1.1, n_seeds=n_seeds))
    return verdicts


_BASE = pretrained_ebm.EXPERIMENT
EXPERIMENT = replace(
    _BASE,
    id="dnfs/leaps-networks",
    title="LEAPS with a convolution and a transformer",
    presets={k: replace(v, methods=METHODS) for k, v in _BASE.presets.items()},
    check=check_networks,
)
