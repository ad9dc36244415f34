"""Twelve studies that are no row of a paper, stored for the pages on flows.

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

scaling: our recipe at criticality over the size of the lattice, twelve CPU minutes.
longer: the same with steps in proportion to the sites, an hour and a half.
grown: networks of small lattices carried to larger ones, up to 32 x 32, six.
transformer: the paper's recipe with leTF at sigma = 0.1, half an hour.
rivals: LEAPS with leConv and a GFlowNet at sigma = 0.1, and the paper's recipe with
    leConv at criticality, half an hour.
enumerated: ours on 4 x 4 and 5 x 5 beside sums over all states, three.
nulls: those of the row dnfs/ising, run by run, three.
control: joint training with annealed sweeps in the flow's place, four.
twelve-bits: joint training on twelve bits in place of eight, ten.
couplings: those of a magnet by EB-GFN, eleven.
chains: the same by persistent Gibbs chains, two.
warm-up: trainings on 4 x 4 with a warm-up of the learning rate and without, nine.
The same command goes on where a time limit has stopped it. CPU seconds count system
time, too.
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
