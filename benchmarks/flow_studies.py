"""Twelve studies beyond the papers' experiments, stored for the pages on flows.

    python benchmarks/flow_studies.py scaling [--scale full] [--time-limit MINUTES]
    python benchmarks/flow_studies.py longer [--time-limit MINUTES]
    python benchmarks/flow_studies.py grown [--time-limit MINUTES]
    python benchmarks/flow_studies.py transformer [--time-limit MINUTES]
    python benchmarks/flow_studies.py rivals [--time-limit MINUTES]
    python benchmarks/flow_studies.py enumerated
    python benchmarks/flow_studies.py nulls
    python benchmarks/flow_studies.py control
    python benchmarks/flow_studies.py twelve-bits [--time-limit MINUTES]
    python benchmarks/flow_studies.py couplings
    python benchmarks/flow_studies.py chains
    python benchmarks/flow_studies.py warm-up [--time-limit MINUTES]

Each study takes the CPU minutes given in brackets:

scaling [12]: the package's recipe at criticality, for several lattice sizes.
longer [90]: the same with steps in proportion to the number of sites.
grown [6]: networks trained on small lattices, transferred to larger ones, up to
    32 x 32.
transformer [30]: the paper's recipe with leTF at sigma = 0.1.
rivals [30]: two competing methods at sigma = 0.1, LEAPS with leConv and a GFlowNet,
    and the paper's recipe with leConv at criticality.
enumerated [3]: the package's recipe on 4 x 4 and 5 x 5, beside sums over all states.
nulls [3]: the baselines of the experiment dnfs/ising, run by run.
control [4]: joint training with annealed sweeps in place of the flow.
twelve-bits [10]: joint training on twelve bits in place of eight.
couplings [11]: the couplings of a magnet, learned by EB-GFN.
chains [2]: the same couplings, learned with persistent Gibbs chains.
warm-up [9]: training on 4 x 4 with a warm-up of the learning rate and without.

After a time limit the same command resumes the study. CPU seconds include system time.
"""

from study_command import run_study

from ebmtut.experiments.dnfs.couplings_chains import CHAINS
from ebmtut.experiments.dnfs.couplings_gflownet import COUPLINGS
from ebmtut.experiments.dnfs.grown_lattices import GROWN
from ebmtut.experiments.dnfs.joint_control import CONTROL
from ebmtut.experiments.dnfs.joint_twelve_bits import TWELVE_BITS
from ebmtut.experiments.dnfs.lattice_enumeration import ENUMERATED
from ebmtut.experiments.dnfs.lattice_nulls import MANY_NULLS
from ebmtut.experiments.dnfs.lattice_rivals import RIVALS
from ebmtut.experiments.dnfs.scaling import PROPORTIONAL, SCALING
from ebmtut.experiments.dnfs.transformer import TRANSFORMER
from ebmtut.experiments.dnfs.warm_up import WARM_UP

STUDIES = {
    "scaling": SCALING,
    "longer": PROPORTIONAL,
    "grown": GROWN,
    "transformer": TRANSFORMER,
    "rivals": RIVALS,
    "enumerated": ENUMERATED,
    "nulls": MANY_NULLS,
    "control": CONTROL,
    "twelve-bits": TWELVE_BITS,
    "couplings": COUPLINGS,
    "chains": CHAINS,
    "warm-up": WARM_UP,
}


if __name__ == "__main__":
    run_study(STUDIES, __doc__)
