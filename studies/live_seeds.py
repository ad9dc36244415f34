"""How often the live runs of the story pages give what their pages say.

A live run is one sample of what a reader may see: another seed gives another, and
so does a machine that rounds differently. `live_seeds.yaml` lists the runs, the numbers
that count and the conclusions that the pages draw. This executes the cells of each run
with seeds 0, 1, ... and stores the numbers, and the fraction of seeds with which each
conclusion holds, beside this file:

    python studies/live_seeds.py                     # what is missing or out of date
    python studies/live_seeds.py "basics, digits" --seeds 20
    python studies/live_seeds.py --faster-than 3 --threads 2
    python studies/live_seeds.py --precision bfloat16 --seeds 3
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import torch
import yaml

from ebmtut._digests import text_digest
from ebmtut.results.atomic import replace_file
from ebmtut.results.provenance import collect_provenance
from ebmtut.training import loop
from tools.paths import BOOK

RUNS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)
STORE = Path(__file__).with_suffix(".json")
USUAL = "1 thread, float32"
SLOW_S = 30.0  # runs that take more CPU time have half as many seeds


def cells_of(run: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Source of the imports and parameters, and of what a run executes after them."""
    page = nbformat.read(BOOK / f"{run['page']}.ipynb", as_version=4)
    cells = [
        cell
        for cell in page.cells
        if cell.cell_type == "code" and "install" not in cell.metadata.get("tags", [])
    ]
    at = [i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])]
    found = {cell.id: cell.source for cell in cells[at[0] + 1 :]}
    checks = cells[at[0] + 1].id
    before = [cell.source for cell in cells[: at[0] + 1]]
    return before, [found[name] for name in (checks, *run["cells"])]


def digest(run: Mapping[str, Any]) -> str:
    """Digest of a run's code and numbers, without comments and layout."""
    before, after = cells_of(run)
    code = [ast.dump(ast.parse(source)) for source in (before[-1], *after)]
    return text_digest(json.dumps([code, run["numbers"]]))[:16]


def execute(run: Mapping[str, Any], seed: int, threads: int = 1) -> dict[str, float]:
    """Execute a run's cells with a seed, and return its numbers."""
    names: dict[str, Any] = {"__name__": "page"}
    before, (checks, *cells) = cells_of(run)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for source in before:
            exec(source, names)
        names |= {"seed": seed, "device": "cpu"}
        exec(checks, names)
        torch.set_num_threads(threads)
        for source in cells:
            exec(source, names)
        plt.close("all")
        return {k: float(eval(v, names)) for k, v in run["numbers"].items()}


def rates(
    run: Mapping[str, Any], numbers: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Fraction of the seeds with which each conclusion of a run holds."""
    columns = zip(*numbers.values(), strict=True)
    seeds = [dict(zip(numbers, row, strict=True)) for row in columns]
    return {
        conclusion: sum(bool(eval(test, {}, row)) for row in seeds) / len(seeds)
        for conclusion, test in run["conclusions"].items()
    }


def out_of_date(stored: Mapping[str, Any]) -> Iterator[str]:
    """Names of the runs whose code or numbers differ from what was executed."""
    for name, run in RUNS.items():
        if stored.get(name, {}).get("code") != digest(run):
            yield name


def load() -> dict[str, Any]:
    """Read what is stored, by the name of the run."""
    stored = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    return {name: stored[name] for name in RUNS if name in stored}


def save(name: str, how: str, found: dict[str, Any], code: str) -> None:
    """Store the numbers of a run; what its earlier code gave is dropped."""
    stored = load()
    kept = stored.get(name, {})
    if kept.get("code") != code:
        kept = {"page": RUNS[name]["page"], "code": code, "found": {}}
    kept["found"][how] = found
    stored[name] = kept
    stored = {key: stored[key] for key in RUNS if key in stored}
    replace_file(STORE, (json.dumps(stored, indent=1) + "\n").encode())


def count_again() -> None:
    """Compare the stored numbers with the conclusions as they are listed now."""
    stored = load()
    stale = set(out_of_date(stored))
    for name, kept in stored.items():
        for how, found in () if name in stale else kept["found"].items():
            again = rates(RUNS[name], found["numbers"])
            if again != found["rates"]:
                save(name, how, found | {"rates": again}, code=kept["code"])


def study(name: str, how: str, seeds: int, threads: int) -> None:
    """Execute a run with each seed, and store its numbers and its success rates."""
    run, started = RUNS[name], time.time()
    rows, seconds = [], []
    while len(rows) < (seeds if max(seconds, default=0) < SLOW_S else seeds // 2):
        begin = time.process_time()
        rows.append(execute(run, len(rows), threads))
        seconds.append(time.process_time() - begin)
    numbers = {key: [row[key] for row in rows] for key in run["numbers"]}
    found = {
        "seeds": len(rows),
        "cpu_s": round(sum(seconds) / len(rows), 2),
        "numbers": numbers,
        "rates": rates(run, numbers),
        "provenance": asdict(collect_provenance(seed=0, started=started)),
    }
    save(name, how, found, digest(run))
    print(f"{name}, {how}: {len(rows)} seeds of {found['cpu_s']} s", flush=True)
    for conclusion, rate in found["rates"].items():
        print(f"  {rate:.0%} {conclusion}", flush=True)


def main() -> None:
    """Read the command line, and execute what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--faster-than", type=float, metavar="SECONDS")
    parser.add_argument("--precision", choices=("float32", "bfloat16"))
    options = parser.parse_args()
    matplotlib.use("Agg")
    precision = options.precision or "float32"
    loop.bfloat16_is_fast = lambda device: precision == "bfloat16"
    how = f"{options.threads} thread{'s' * (options.threads > 1)}, {precision}"
    count_again()
    stored = load()
    names = options.runs or (list(out_of_date(stored)) if how == USUAL else list(RUNS))
    for name in names:
        usual = stored.get(name, {}).get("found", {}).get(USUAL, {})
        if options.faster_than and usual.get("cpu_s", 1e9) > options.faster_than:
            continue
        if precision == "bfloat16" and not RUNS[name].get("bfloat16"):
            continue
        study(name, how, options.seeds, options.threads)


if __name__ == "__main__":
    main()
