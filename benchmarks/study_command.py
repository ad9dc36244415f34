"""The command line of the studies: which one, and where what it gives is stored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from ebmtut.deadlines import OutOfTime
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.runs import run_experiment


def run_study(
    studies: Mapping[str, Experiment[Any]], about: str, seed: int = 0
) -> None:
    """Run the study that the command line names, and say where its result lies."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("study", choices=studies)
    parser.add_argument("--scale", default="full", choices=("quick", "full"))
    parser.add_argument("--time-limit", type=float, help="minutes")
    parser.add_argument(
        "--results", type=Path, default=Path(__file__).with_name("results")
    )
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    try:
        folder, _ = run_experiment(
            studies[arguments.study],
            arguments.scale,
            seed=seed,
            root=arguments.results,
            progress=True,
            time_limit=arguments.time_limit,
        )
    except OutOfTime as error:
        print(error, file=sys.stderr)
        raise SystemExit(124) from None
    print(folder)
