"""CD and PCD on 16 bits, for ten times as long and with the settings of the comparison.

After ten seconds PCD has the error of uniform bits, log 2. Does it leave it? Run:
python -m studies.comparison.plateau
"""

import torch

from ebmtut.results import load_result
from studies.comparison import learning, shared

PROBLEM = "16 bits checkerboard"
BUDGET = 10 * learning.BUDGET
SEEDS = (0, 1, 2)


def study() -> None:
    """Train each with the tuned setting, and store the curves."""
    known = load_result(
        "comparison/learning-16-bits-checkerboard", "full", shared.FOLDER
    )
    options = {m: known.scalars["methods"][m]["options"] for m in ("CD", "PCD")}
    learning.BUDGET = BUDGET
    problem = learning.PROBLEMS[PROBLEM]()
    shared.study(
        f"plateau {PROBLEM}",
        {
            m: {name: (value,) for name, value in of.items()}
            for m, of in options.items()
        },
        lambda method, of, seed: learning.curve(problem, method, of, seed),
        {
            "columns": learning.COLUMNS,
            "shown": "error",
            "references": {"baseline": {"error": problem.baseline}},
            "measure": problem.measure,
        },
        {"batch": learning.BATCH, "budget": BUDGET},
        seeds=SEEDS,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    study()
