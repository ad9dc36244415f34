"""Studies beside the table of Ising couplings, stored for the chapter's pages.

    python benchmarks/ising_studies.py others
    python benchmarks/ising_studies.py summed [--time-limit MINUTES]
    python benchmarks/ising_studies.py pseudo

others: Table 3 as in its full run, with penalties of 3, 10, 30 and 100, five CPU
    minutes.
summed: the first three lattices at the paper's setting, with its two smallest
    penalties read as multiplying the sum of |J_ij|, half an hour.
pseudo: pseudo-likelihood on the seven lattices, 200 steps each, two minutes.
The same command goes on where a time limit has stopped it.
"""

from study_command import run_study

from ebmtut.experiments.ed.ising_penalties import OTHERS, PSEUDO_LIKELIHOOD, SUMMED

if __name__ == "__main__":
    studies = {"others": OTHERS, "summed": SUMMED, "pseudo": PSEUDO_LIKELIHOOD}
    run_study(studies, __doc__)
