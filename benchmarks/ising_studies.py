"""Studies that are no row of a paper, stored for the page on Ising couplings.

    python benchmarks/ising_studies.py others
    python benchmarks/ising_studies.py summed [--time-limit MINUTES]

others: Table 3 as in its full run, with penalties of 3, 10, 30 and 100, five CPU
    minutes.
summed: the first three lattices at the paper's setting, with its two smallest
    penalties read as multiplying the sum of |J_ij|, half an hour.
The same command goes on where a time limit has stopped it.
"""

from study_command import run_study

from ebmtut.experiments.ed.ising_penalties import OTHERS, SUMMED

if __name__ == "__main__":
    run_study({"others": OTHERS, "summed": SUMMED}, __doc__)
