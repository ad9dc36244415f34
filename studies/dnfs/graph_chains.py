"""Annealed DMALA of the stored graph problems, with the code of today.

    python -m studies.dnfs.graph_chains [--results DIR]

The chains learn nothing and share no random numbers with the other methods. Their
scores replace the stored ones, and all other numbers stay as they are. The result then
lists the commits of both runs; its parameters tell where and when the chains ran.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from ebmtut.experiments.dnfs.graph_problems import dmala_scores, held_out_problem
from ebmtut.experiments.registry import get_experiment
from ebmtut.experiments.runs import redraw
from ebmtut.results import Result, collect_provenance, load_result, save_result


def with_new_chains(result: Result, config: Any) -> Result:
    """Run the chains of each size as often as they are stored."""
    started = time.time()
    seed = result.provenance.seed or 0
    table = dict(result.scalars["table"])
    for size in table:
        problem, n_runs = held_out_problem(config, size), len(table[size]["DMALA 0"])
        runs = [dmala_scores(problem, config, seed + k) for k in range(n_runs)]
        table[size] |= {name: [run[name] for run in runs] for name in runs[0]}
    run = asdict(collect_provenance(seed=seed, started=started))
    commits = dict.fromkeys([*result.scalars["commits"], run["commit"]])
    told = {name: run[name] for name in ("command", "commit", "device", "started")}
    return replace(
        result,
        scalars=result.scalars | {"table": table, "commits": list(commits)},
        provenance=replace(result.provenance, parameters={"DMALA alone": told}),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    root = parser.parse_args().results
    torch.set_num_threads(1)
    for id in ("dnfs/max-independent-set", "dnfs/max-cut"):
        experiment = get_experiment(id)
        result = load_result(id, "full", root)
        save_result(with_new_chains(result, experiment.config("full")), root)
        redraw(experiment, "full", root)
