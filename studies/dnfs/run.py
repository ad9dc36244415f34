"""Studies of discrete neural flow samplers that belong to no figure or table.

    python -m studies.dnfs.run STUDY [--scale full] [--time-limit MINUTES]

scaling: the flow at criticality over the size of the lattice, twelve CPU minutes.
longer: the same with steps in proportion to the sites, an hour and a half.
grown: networks of small lattices transferred to larger ones, up to 32 x 32, six.
transformer: the published recipe with leTF at sigma = 0.1, half an hour.
competing: LEAPS with leConv and a GFlowNet at sigma = 0.1, and the published recipe
    with leConv at criticality, half an hour.
enumerated: the flow on 4 x 4 and 5 x 5 beside sums over all states, three.
baselines: those of dnfs/ising, run by run, three.
control: joint training with annealed sweeps in the flow's place, four.
twelve-bits: joint training on twelve bits in place of eight, ten.
couplings: those of an Ising model by EB-GFN, eleven.
chains: the same by persistent Gibbs chains, two.
wide: energies of 32 bits with a flow and without, two hours.
warm-up: trainings on 4 x 4 with a warm-up of the learning rate and without, nine.

The same command continues where a time limit has stopped it. CPU seconds include
system time.
"""

from benchmarks.study_command import run_study
from studies.dnfs.baselines import MANY_BASELINES
from studies.dnfs.competing import COMPETING, TRANSFORMER
from studies.dnfs.couplings_chains import CHAINS
from studies.dnfs.couplings_gflownet import COUPLINGS
from studies.dnfs.enumerated import ENUMERATED
from studies.dnfs.grown import GROWN
from studies.dnfs.joint import CONTROL, TWELVE_BITS
from studies.dnfs.scaling import PROPORTIONAL, SCALING
from studies.dnfs.warm_up import WARM_UP
from studies.dnfs.wide import WIDE

STUDIES = {
    "scaling": SCALING,
    "longer": PROPORTIONAL,
    "grown": GROWN,
    "transformer": TRANSFORMER,
    "competing": COMPETING,
    "enumerated": ENUMERATED,
    "baselines": MANY_BASELINES,
    "control": CONTROL,
    "twelve-bits": TWELVE_BITS,
    "couplings": COUPLINGS,
    "chains": CHAINS,
    "warm-up": WARM_UP,
    "wide": WIDE,
}

if __name__ == "__main__":
    run_study(STUDIES, __doc__)
