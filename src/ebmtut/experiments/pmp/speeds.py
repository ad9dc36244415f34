"""The stored benchmark of max-product, as a table for the page."""

from __future__ import annotations

import json
from pathlib import Path

from ebmtut.results import default_root

__all__ = ["speeds_table"]


def speeds_table(folder: Path | None = None) -> str:
    """Tabulate seconds beside plain torch, a peer, and a bound.

    Parameters
    ----------
    folder
        Where ``message_passing.json`` of ``benchmarks`` lies; by default the
        repository's own results.

    Returns
    -------
    text
        A line a model; torch's time is scaled to as many chains as ours. What
        to call if there is no such file.
    """
    folder = folder or default_root().parent / "benchmarks" / "results"
    file = folder / "message_passing.json"
    if not file.is_file():
        return "not stored here: benchmarks/bench_message_passing.py makes it"
    lines = []
    for row in json.loads(file.read_text())["rows"]:
        torch_seconds = row["torch"] / row["torch chains"] * row["chains"]
        line = (
            f"{row['model']:14} {row['chains']} samples, {row['sweeps']:3} sweeps: "
            f"{row['numba']:.3f} s, plain torch {torch_seconds:.1f} s"
        )
        if "over PGMax" in row:
            line += f", PGMax {row['PGMax']:.3f} s"
        if "arithmetic" in row:
            line += f", the bound {row['arithmetic']:.3f} s"
        lines.append(line)
    return "\n".join(lines)
