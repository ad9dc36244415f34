"""Tables of the stored studies: run by run, beside sums over states, and failures."""

import statistics
from collections.abc import Sequence
from typing import Any

from ebmtut.experiments.dnfs.captions import table_of
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Cell, Result, Table

#: Keys of columns that have another heading.
_KEYS = {"discrete-time ESS": "ESS chain", "CPU s": "train cpu s"}


def runs_table(
    entries: Sequence[tuple[str, int, dict[str, list[Any]]]], *heads: str
) -> Table:
    """Show a line for every run of every entry: (method, steps, scores)."""
    lines: list[list[Cell]] = []
    for method, steps, scores in entries:
        n = len(scores["ESS"])
        columns = [scores.get(_KEYS.get(h, h), [None] * n) for h in heads]
        lines += [[method, steps, *values] for values in zip(*columns, strict=True)]
    return table_of(("method", "steps", *heads), lines)


def competing_table(row: Result, study: Result, lattice: str, n_steps: int) -> Table:
    """Show every run of the flow and of the competing methods."""
    entries = [("flow", n_steps, row.scalars["table"]["ours"][lattice])]
    for method, _, n in study.config["trainings"]:
        name = method if n else f"{method}, untrained"
        entry = (name, n, study.scalars["table"][name].get(lattice))
        if entry[2] and entry not in entries:
            entries.append(entry)
    return runs_table(entries, "ESS", "log Z error", "energy", "distance", "CPU s")


def enumeration_table(result: Result) -> Table:
    """Set what flows estimate beside the sums over all states."""
    lines: list[list[Cell]] = []
    for lattice, exact in result.scalars["exact"].items():
        for method, entries in result.scalars["table"].items():
            for way in ("in steps", "exactly"):
                runs = entries[lattice][way]
                values = [
                    [run["log Z"] for run in runs],
                    [run["energy"] for run in runs],
                    [max(abs(m - 0.5) for m in run["marginals"]) for run in runs],
                    [run["products"][0] for run in runs],
                    [run["products"][1] for run in runs],
                ]
                scores = [mean_and_stderr(v) for v in values]
                lines.append([f"{lattice}, {method}, {way}", *scores])
        sums = (exact["log Z"], exact["energy"], 0, *exact["products"][:2])
        lines.append([f"{lattice}, all states", *(round(v, 4) for v in sums)])
    heads = ("flow", "log Z", "energy", "marginal off by", "distance 1", "distance 2")
    words = "4000 samples per run; standard errors over two runs. "
    words += "Distances: correlations of two spins."
    return table_of(heads, lines, caption=words, digits=6)


def failure_table(result: Result) -> Table:
    """Count failed trainings: diverged, low ESS, or log Z off by half a nat."""
    lines: list[list[Cell]] = []
    for training, entry in result.scalars["table"].items():
        least = 0.5 * statistics.median(entry["with"]["ESS"])
        for words, found in entry.items():
            # A diverged training has no error of log Z, and an ESS of 0.
            off = [abs(v) for v in found["log Z error"] if v is not None]
            failed = sum(
                ess < least or error is None or abs(error) > 0.5
                for ess, error in zip(found["ESS"], found["log Z error"], strict=True)
            )
            n = len(found["ESS"])
            ends = (min(found["ESS"]), max(off, default=None))
            lines.append([training, words, f"{failed} of {n}", *ends])
    heads = ("training", "warm-up", "failed", "smallest ESS", "log Z off by")
    words = "4 × 4 sites, eight seeds; the error of log Z is the largest."
    return table_of(heads, lines, caption=words)
