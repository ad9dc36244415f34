"""How often each claim of the quick experiments holds, over several seeds.

A quick experiment is one sample of what a reader may see: another seed, or another
machine's rounding, gives another. This runs experiments with seeds 0, 1, ... and stores
how each claim fared with each seed, and the fraction of seeds with which it holds:

    python studies/seeds.py ed/densities got/gibbs-bands --seeds 10

What is stored already, by the same code, does not run again. Without a name it goes
through all experiments, which takes hours.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

from ebmtut.data import DataUnavailable
from ebmtut.experiments.registry import available, get_experiment
from ebmtut.experiments.runs import run_experiment
from ebmtut.results import (
    Result,
    ResultNotFound,
    collect_provenance,
    git_commit,
    load_result,
    save_result,
)

RESULTS = Path(__file__).with_name("results")
HOLDS = ("match", "better")


def outcomes(experiment: str, seed: int) -> dict[str, tuple[str, float | None]]:
    """Verdict and value of each claim, of one run at quick scale."""
    with tempfile.TemporaryDirectory() as folder:
        _, verdicts = run_experiment(
            get_experiment(experiment), "quick", seed=seed, root=Path(folder)
        )
    return {v.name: (v.verdict, v.measured) for v in verdicts}


def success_rates(
    claims: dict[str, dict[str, tuple[str, float | None]]],
) -> dict[str, float]:
    """Fraction of the seeds with which each claim holds, the rarest first."""
    rates = {
        name: sum(found[0] in HOLDS for found in seeds.values()) / len(seeds)
        for name, seeds in claims.items()
    }
    return dict(sorted(rates.items(), key=lambda entry: entry[1]))


def study(experiment: str, seeds: range, root: Path = RESULTS) -> Result:
    """Run an experiment with each seed, and store the outcomes after each run."""
    name = f"seeds/{experiment.replace('/', '-')}"
    claims: dict[str, dict[str, tuple[str, float | None]]] = {}
    commits: dict[str, str] = {}
    try:
        kept = load_result(name, "quick", root).scalars
        claims, commits = kept["claims"], kept["commits"]
    except ResultNotFound:
        pass
    for seed in map(str, seeds):
        if commits.get(seed) == git_commit():
            continue
        started = time.time()
        for claim, found in outcomes(experiment, int(seed)).items():
            claims.setdefault(claim, {})[seed] = found
        commits[seed] = git_commit()
        scalars: dict[str, Any] = {"rates": success_rates(claims)}
        scalars |= {"claims": claims, "commits": commits}
        provenance = collect_provenance(seed=int(seed), started=started)
        config = dataclasses.asdict(get_experiment(experiment).config("quick"))
        save_result(Result(name, "quick", config, scalars, provenance=provenance), root)
    return load_result(name, "quick", root)


def main() -> None:
    """Read the command line, and print the claims that do not always hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="*", metavar="ID")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    options = parser.parse_args()
    matplotlib.use("Agg")
    for experiment in options.experiments or available():
        try:
            rates = study(experiment, range(options.seeds)).scalars["rates"]
        except DataUnavailable as error:
            print(f"{experiment}: {error}", file=sys.stderr)
            continue
        always = sum(rate == 1 for rate in rates.values())
        print(f"{experiment}: {always} of {len(rates)} claims hold with every seed")
        for claim, rate in rates.items():
            if rate < 1:
                print(f"  {rate:.0%} {claim}")


if __name__ == "__main__":
    main()
