"""Studies beside the table of Ising couplings, stored for the chapter's pages.

    python benchmarks/ising_studies.py others
    python benchmarks/ising_studies.py summed [--time-limit MINUTES]
    python benchmarks/ising_studies.py free

others: Table 3 as in its full run, with penalties of 3, 10, 30 and 100, five CPU
    minutes.
summed: the first three lattices at the paper's setting, with its two smallest
    penalties read as multiplying the sum of |J_ij|, half an hour.
free: ED-Bern without a penalty at 0.2, 1,000 steps, a minute.
The same command goes on where a time limit has stopped it.

The paper does not say whether its penalties multiply the mean of |J_ij| or the sum. The
experiments use the mean; the sum's smallest, 0.01, is the mean's times 100 on a
10 x 10 lattice, whose J has 10,000 entries.
"""

from dataclasses import replace

from study_command import run_study

from ebmtut.experiments.ed import ising_rmse
from ebmtut.experiments.ed.couplings import IsingConfig
from ebmtut.experiments.experiment import no_claims

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

#: The couplings from which something can be learned: 0.01 and 0.1 of the sum.
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

NO_PENALTY = replace(
    ising_rmse.EXPERIMENT,
    id="ed/ising-no-penalty",
    title="Couplings without a penalty",
    presets={
        "quick": replace(_QUICK, methods=("ED-Bern",), penalties=(0.0,)),
        "full": IsingConfig(
            problems=((10, 0.2),), methods=("ED-Bern",), penalties=(0.0,)
        ),
    },
    check=no_claims,
)

if __name__ == "__main__":
    run_study({"others": OTHERS, "summed": SUMMED, "free": NO_PENALTY}, __doc__)
