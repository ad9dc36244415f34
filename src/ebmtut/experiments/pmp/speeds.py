"""The stored benchmark of max-product, as a table for the page."""

from __future__ import annotations

from pathlib import Path

from ebmtut.experiments.growth import load_report
from ebmtut.results.tables import Table


def speeds_table(folder: Path | None = None) -> Table | None:
    """Tabulate seconds beside plain torch, a peer, and a bound."""
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
