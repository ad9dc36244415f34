"""The stored benchmark of max-product, as a table for the page."""

from __future__ import annotations

from pathlib import Path

from ebmtut.experiments.growth import load_report
from ebmtut.results.tables import Table

__all__ = ["speeds_table"]


def speeds_table(folder: Path | None = None) -> Table | None:
    """Tabulate seconds beside plain torch, a peer, and a bound.

    Parameters
    ----------
    folder
        Where ``message_passing.json`` of ``benchmarks`` lies; by default the
        repository's own results.

    Returns
    -------
    table
        A row a model; torch's time is scaled to as many chains as ours, by the
        benchmark. None, after a line that says what to call, if there is no file.
    """
    try:
        report = load_report("message_passing", folder)
    except FileNotFoundError:
        print("not stored here: benchmarks/bench_message_passing.py makes it")
        return None
    rows, made = report["rows"], report["provenance"]
    return Table(
        {
            "model, sweeps": [f"{row['model']}, {row['sweeps']}" for row in rows],
            "ours": [row["numba"] for row in rows],
            "plain torch": [row["torch"] for row in rows],
            "PGMax": [row["PGMax"] if "over PGMax" in row else None for row in rows],
            "bound": [row.get("arithmetic") for row in rows],
        },
        caption=f"Seconds on one core, for {rows[0]['chains']} samples. Measured on "
        f"{made['device']}, with the code of {made['started'][:10]}.",
    )
