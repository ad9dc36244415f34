"""Growth of time and memory at four sizes: this package, a peer and a floor.

    growth.py --json growth.json --thrml-python PYTHON --pgmax-python PYTHON

Each party runs in a process of its own, pinned to one core and to one thread. The
parties take turns, so that other work on the machine affects all of them equally. Times
are CPU seconds of an iteration (of transport) or of a sweep of all chains; the median
of the rounds and their quartiles are kept. The exponent is the slope of a straight line
through the logarithms of time and size. Memory is the growth of a process since its
start; it includes libraries, compiled code and the smaller sizes.

The peers are POT, which the book needs, too, and thrml and PGMax, which need
environments of their own. thrml runs its chains in parallel or one after another
(JAX's vmap or map), whichever is faster in a trial at that size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from bench_message_passing import processor

from ebmtut.results import collect_provenance

# Sizes; what one is; the peer, if any; what the floor does.
OPERATIONS = {
    "Gibbs-OT": (
        (128, 512, 1024, 2048),
        "N, points of each side",
        "POT",
        "reading the cost once",
    ),
    "Gibbs-OT, plane": (
        (128, 512, 1024, 2048),
        "N, points of each side",
        "POT",
        "reading the cost once",
    ),
    "Gibbs, one coupling": (
        (16, 32, 64, 128, 256),
        "side of the lattice",
        "thrml",
        "drawing a float for each update, by torch",
    ),
    "Gibbs, any couplings": (
        (16, 32, 64, 128, 256),
        "side of the lattice",
        "thrml",
        "drawing a float for each update, by torch",
    ),
    "Gibbs, one chain": (
        (25, 64, 128, 256),
        "side of the lattice",
        "thrml",
        "drawing a float for each update, by torch",
    ),
    "max-product, lattice": (
        (10, 15, 25, 40),
        "side of the lattice",
        "PGMax",
        "copying all messages once",
    ),
    "max-product, dense": (
        (450, 900, 1800, 3600),
        "units, all pairs coupled",
        None,
        "reading and writing each message and reading each weight once",
    ),
}


class Party:
    """A process that prepares and runs when told, and answers by a line."""

    def __init__(self, python: str, operation: str, party: str) -> None:
        worker = Path(__file__).with_name("growth_worker.py")
        self.process = subprocess.Popen(
            [python, worker, operation, party],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")

    def answer(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"it ended: {self.process.args}")
        return line.strip()

    def ask(self, command: str) -> float:
        self.send(command)
        return float(self.answer())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(parties: dict[str, Party], size: int, rounds: int) -> dict:
    load = os.getloadavg()[0]
    for party in parties.values():
        party.send(str(size))
    for party in parties.values():
        party.answer()
    spent = {name: list[float]() for name in parties}
    for _ in range(rounds):
        for name, party in parties.items():
            spent[name].append(party.ask("run"))
    return {
        "size": size,
        "load average": load,
        "seconds": {name: statistics.median(s) for name, s in spent.items()},
        "quartiles": {
            name: np.quantile(s, [0.25, 0.75]).tolist() for name, s in spent.items()
        },
        "MiB": {name: party.ask("memory") for name, party in parties.items()},
    }


def exponents(rows: list[dict]) -> dict[str, float]:
    """The power of the size by which each party's seconds grow."""
    size = np.log([row["size"] for row in rows])
    return {
        name: float(np.polyfit(size, np.log([r["seconds"][name] for r in rows]), 1)[0])
        for name in rows[0]["seconds"]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--thrml-python", help="an interpreter that has thrml")
    parser.add_argument("--pgmax-python", help="an interpreter that has PGMax")
    parser.add_argument(
        "--only", nargs="+", choices=OPERATIONS, default=list(OPERATIONS)
    )
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # as all parties have it, and the provenance says
    pythons = dict.fromkeys(("ours", "POT", "floor"), sys.executable)
    for peer, python in (
        ("thrml", arguments.thrml_python),
        ("PGMax", arguments.pgmax_python),
    ):
        if python:
            pythons[peer] = python
    # What is not measured anew is kept, each with its own provenance.
    report: dict = {}
    if arguments.json and arguments.json.exists():
        report = json.loads(arguments.json.read_text())["operations"]
    for operation in arguments.only:
        started = time.time()
        sizes, unit, peer, floor = OPERATIONS[operation]
        peers = [peer] if peer in pythons else []
        names = ["ours", *peers, "floor"]
        parties = {name: Party(pythons[name], operation, name) for name in names}
        rows = []
        for size in sizes:
            rows.append(measure(parties, size, arguments.rounds))
            times = {n: f"{1e6 * s:.4g}" for n, s in rows[-1]["seconds"].items()}
            print(operation, size, "us:", times, flush=True)
        for party in parties.values():
            party.end()
        found = exponents(rows)
        print(operation, "exponents:", found, flush=True)
        report[operation] = {
            "size is": unit,
            "peer": peer,
            "floor is": floor,
            "exponents": found,
            "rounds": arguments.rounds,
            "rows": rows,
            "provenance": asdict(collect_provenance(seed=0, started=started)),
        }
    if arguments.json:
        report = {
            "processor": processor(),
            "operations": {name: report[name] for name in OPERATIONS if name in report},
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
