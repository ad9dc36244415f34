"""Other l1 penalties for Table 3, and the other reading of what they multiply.

The paper does not say whether its penalties multiply the mean of |J_ij| or the sum.
The rows read the mean; by the sum the smallest, 0.01, is the mean's times 100 on a
lattice of 10 x 10, whose J has 10,000 entries.
Studies of ours and no rows of the facts: they are stored beside the benchmarks, and
`benchmarks/ising_studies.py` runs them.
"""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.ed import ising_rmse
from ebmtut.experiments.ed.couplings import IsingConfig
from ebmtut.experiments.experiment import no_claims

__all__ = ["OTHERS", "SUMMED"]

_QUICK = replace(ising_rmse.EXPERIMENT.config("quick"), problems=((10, 0.1),))

OTHERS = replace(
    ising_rmse.EXPERIMENT,
    id="ed/ising-other-penalties",
    title="Couplings by other penalties",
    presets={
        "quick": replace(_QUICK, penalties=(3.0, 100.0)),
        "full": IsingConfig(penalties=(3.0, 10.0, 30.0, 100.0)),
    },
    check=no_claims,
)

#: Where there is something to learn: 0.01 and 0.1 of the sum.
SUMMED = replace(
    ising_rmse.EXPERIMENT,
    id="ed/ising-summed-penalty",
    title="Couplings by the paper's smallest penalty, of the sum",
    presets={
        "quick": replace(_QUICK, penalties=(100.0,)),
        "full": replace(
            ising_rmse.EXPERIMENT.config("paper"),
            problems=((10, 0.1), (10, 0.2), (10, 0.3)),
            penalties=(100.0, 1000.0),
        ),
    },
    check=no_claims,
)
