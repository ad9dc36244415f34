"""Run everything that `make test` promises, stage by stage, and sum it up.

A stage runs if those that it needs have passed; the others run all the same, so that
one run tells everything that is wrong.

    python -m tools.run_stages               # all
    python -m tools.run_stages lint unit     # these, and what they need
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.paths import EXECUTED, HTML, ROOT

__all__ = ["STAGES", "Stage", "main", "run"]

PYTHON = sys.executable
PYTEST = (PYTHON, "-m", "pytest", "-q")
TWO = ("-n", "2", "--dist", "loadfile")
# Where the long tests stand in few files, whoever is idle takes the next of them.
SHARED = ("-n", "2", "--dist", "worksteal")
# A marker stands for the input that a test needs, and so for the stage it belongs to.
BOOK_MARKERS = ("executed", "parameters", "rendered", "browser")


@dataclass(frozen=True)
class Stage:
    """Commands that run one after another, and the stages that must pass before.

    Attributes
    ----------
    name, what
        What it is called and what it proves.
    commands
        Each a program and its arguments.
    needs
        Names of stages.
    """

    name: str
    what: str
    commands: tuple[tuple[str, ...], ...]
    needs: tuple[str, ...] = ()


STAGES = (
    Stage(
        "lint",
        "style, and what is vendored is what was reviewed",
        (
            (PYTHON, "-m", "ruff", "check", "."),
            (PYTHON, "-m", "ruff", "format", "--check", "--quiet", "."),
            (PYTHON, "-m", "tools.vendor"),
        ),
    ),
    Stage("types", "mypy", ((PYTHON, "-m", "mypy"),)),
    Stage(
        "unit",
        "unit and statistical tests",
        ((*PYTEST, *SHARED, "--durations=10", "tests", "--ignore=tests/book"),),
    ),
    Stage(
        "checks",
        "the notebooks' contract; every check of the book can fail",
        ((*PYTEST, *TWO, "tests/book", "-m", f"not ({' or '.join(BOOK_MARKERS)})"),),
    ),
    Stage(
        "execute",
        "every notebook runs with its defaults",
        ((PYTHON, "-m", "tools.execute"),),
    ),
    Stage(
        "outputs",
        "stored outputs are what the code prints today",
        ((*PYTEST, "tests/book", "-m", "executed"),),
        needs=("execute",),
    ),
    Stage(
        "parameters",
        "every notebook runs with other parameters",
        ((*PYTEST, "tests/book", "-m", "parameters"),),
    ),
    Stage(
        "render",
        "the book builds without a warning, and no public name is left out",
        (
            (PYTHON, "-m", "tools.render"),
            (PYTHON, "-m", "tools.api_pages", "--check"),
        ),
        needs=("execute",),
    ),
    Stage(
        "read",
        "links; the pages in Chromium with the network cut",
        (
            # Before two processes of tests would install one at the same time.
            (PYTHON, "-m", "tools.chromium"),
            (*PYTEST, *SHARED, "tests/book", "-m", "rendered or browser"),
        ),
        needs=("render",),
    ),
)


def run(stages: Sequence[Stage]) -> dict[str, tuple[str, float]]:
    """Run stages in order.

    Parameters
    ----------
    stages
        In an order in which no stage comes before one that it needs.

    Returns
    -------
    dict
        Name -> ("passed", "failed" or "not run", seconds).
    """
    done: dict[str, tuple[str, float]] = {}
    # The tests of the book read what earlier stages made instead of making their own.
    environment = os.environ | {
        "EBMTUT_EXECUTED": str(EXECUTED.relative_to(ROOT)),
        "EBMTUT_HTML": str(HTML.relative_to(ROOT)),
        "OMP_NUM_THREADS": "1",
    }
    for stage in stages:
        if any(done[name][0] != "passed" for name in stage.needs):
            done[stage.name] = ("not run", 0.0)
            continue
        print(f"\n=== {stage.name}: {stage.what}", flush=True)
        started = time.perf_counter()
        codes = [
            subprocess.run(command, cwd=ROOT, env=environment).returncode
            for command in stage.commands
        ]
        state = "failed" if any(codes) else "passed"
        done[stage.name] = (state, time.perf_counter() - started)
    return done


def select(names: Sequence[str]) -> list[Stage]:
    """Return the named stages and those that they need, in order; all for none."""
    wanted = set(names or (stage.name for stage in STAGES))
    for stage in reversed(STAGES):
        if stage.name in wanted:
            wanted |= set(stage.needs)
    return [stage for stage in STAGES if stage.name in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Run the stages of the test.")
    known = [stage.name for stage in STAGES]
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(known))
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.stages) - set(known)):
        parser.error(f"no stage {unknown}; there are {known}")
    done = run(select(options.stages))
    width = max(map(len, done))
    print("\n=== summary")
    for name, (state, seconds) in done.items():
        print(f"{name:{width}}  {seconds:7.1f} s  {state}")
    failed = [name for name, (state, _) in done.items() if state != "passed"]
    total = sum(seconds for _, seconds in done.values())
    print(f"{'all':{width}}  {total:7.1f} s  ", end="")
    print(f"FAILED: {', '.join(failed)}" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
