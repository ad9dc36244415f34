"""The comparison of losses with equally many evaluations of the energy.

Settings are tuned for this budget. Run: python -m
studies.comparison.learning_by_evaluations [PROBLEM ...]
"""

from functools import partial

from studies.comparison import learning, shared

if __name__ == "__main__":
    study = partial(learning.study, by_evaluations=True)
    shared.command_line(__doc__, learning.PROBLEMS, study)
