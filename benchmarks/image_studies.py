"""A study that is no row of a paper, stored for the pages on recovery likelihood.

    python benchmarks/image_studies.py again [--time-limit MINUTES]

again: the larger images of the row drl/samples with another seed, by recovery
    likelihood and by score matching, an hour of two cores.
The same command goes on where a time limit has stopped it.
"""

from study_command import run_study

from ebmtut.experiments.drl.samples import AGAIN, AGAIN_SEED

if __name__ == "__main__":
    run_study({"again": AGAIN}, __doc__, seed=AGAIN_SEED)
