"""Do on a GPU, slice by slice, all that only a GPU can: tests, rates, large presets.

    python -m tools.gpu --minutes 9            # a slice; the same command goes on
    python -m tools.gpu --list                 # the plan, and what is done

Steps come in order of worth. What a step said and how it ended is kept in one folder
of small files, and what is done on this code is not done again; a run that was cut off
goes on from its checkpoints. ``gpu.zip`` in that folder holds all of it: given back by
``--resume gpu.zip`` it goes on elsewhere. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

from tools.paths import ROOT

__all__ = ["NEEDED", "NO_GPU", "Record", "Step", "main", "missing", "plan", "run_plan"]

NO_GPU = 3  # the exit code that says so
UNFINISHED = 124  # a step's, and ours: call again
NO_DATA = 66  # a step's: the row's data set is not at hand
NO_MODULE = 69  # a step's: an optional module is not, such as POT

#: What computing needs besides the package itself.
NEEDED = (
    "torch",
    "triton",
    "numpy",
    "scipy",
    "numba",
    "matplotlib",
    "jaxtyping",
    "joblib",
    "tqdm",
    "safetensors",
    "filelock",
    "yaml",
)

# Rows in order of worth; others that can use a GPU follow.
WORTH = ("ed/densities", "ed/ising-rmse", "ed/densities-table")


@dataclass(frozen=True)
class Step:
    """A command, and whether it can be told when to stop.

    Attributes
    ----------
    name
        Of its files.
    command
        Program and arguments.
    limit
        The option that takes the minutes that are left, after which the command stops
        by itself, with exit code 124, to be gone on with.
    instead
        What is done where this one's data are not at hand.
    """

    name: str
    command: tuple[str, ...]
    limit: str = ""
    instead: Step | None = None


@dataclass(frozen=True)
class Record:
    """How a step ended.

    Attributes
    ----------
    name, code
        The step and its exit code.
    seconds
        In all slices together.
    commit, device
        What ran, and where.
    """

    name: str
    code: int
    seconds: float
    commit: str
    device: str


def missing() -> list[str]:
    """Return the modules that computing needs and that are not here."""
    return [name for name in NEEDED if find_spec(name) is None]


def cuda_tests() -> list[str]:
    """Return where tests for a GPU stand; others may import what is not here."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = [f for f in files if "pytest.mark.cuda" in f.read_text("utf-8")]
    return ["tests/kernels", *(str(f.relative_to(ROOT)) for f in marked)]


def plan(out: Path) -> list[Step]:
    """Return all steps: tests on the GPU, rates, then each row's largest preset.

    Where a row's data are not at hand, the next smaller preset takes its place.

    Parameters
    ----------
    out
        Folder of what is found.
    """
    from ebmtut.experiments import get_experiment
    from ebmtut.experiments.registry import SCALES, available

    python = sys.executable
    steps = [
        Step("tests", (python, "-m", "pytest", "-q", "-m", "cuda", *cuda_tests())),
        Step(
            "rates", (python, "benchmarks/gpu_rates.py", "--json", f"{out}/rates.json")
        ),
    ]
    # Jobs that keep no state are lost where a slice ends, and come last.
    rest = [get_experiment(id) for id in available() if id not in WORTH]
    rest.sort(key=lambda row: "checkpoint" not in signature(row.job).parameters)
    for experiment in (*map(get_experiment, WORTH), *rest):
        if "cuda" not in experiment.devices:
            continue
        run = (python, "-m", "ebmtut.cli", "run", experiment.id, "--device", "cuda")
        options = ("--results", f"{out}/results", "--quiet")
        # Where it can: launches are what small models wait for.
        batch = () if experiment.batch is None else ("--batch",)
        step = None
        for scale in (s for s in SCALES[1:] if s in experiment.presets):
            command = (*run, "--scale", scale, *options, *batch)
            name = f"{experiment.id.replace('/', '-')}-{scale}"
            step = Step(name, command, "--time-limit", instead=step)
        if step is not None:
            steps.append(step)
    return steps


def reached(steps: Sequence[Step], done: Mapping[str, Record]) -> Iterator[Step]:
    """Give the steps, each followed by the one in its place if its data are missing.

    Parameters
    ----------
    steps
        In order of worth.
    done
        How steps ended; looked at when the next step is asked for.
    """
    for step in steps:
        now: Step | None = step
        while now is not None:
            yield now
            record = done.get(now.name)
            lacks_data = record is not None and record.code == NO_DATA
            now = now.instead if lacks_data else None


def environment_of_steps(out: Path) -> dict[str, str]:
    """Return what steps are told: where the code lies, and to fetch nothing.

    Parameters
    ----------
    out
        Folder of what is found; of data sets, too, where nothing tells the system's.
    """
    told = {"EBMTUT_OFFLINE": "1"}
    if find_spec("platformdirs") is None:
        told["EBMTUT_CACHE"] = str(out / "data")
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    return told | dict(os.environ) | {"PYTHONPATH": path}


def records(out: Path, commit: str) -> dict[str, Record]:
    """Read how steps ended on this code."""
    found = {}
    for file in sorted(out.glob("*.step.json")):
        record = Record(**json.loads(file.read_text("utf-8")))
        if record.commit == commit:
            found[record.name] = record
    return found


def run_plan(
    steps: Sequence[Step], out: Path, minutes: float, commit: str, device: str
) -> dict[str, Record]:
    """Do what is not done yet, until the time is over.

    A step that failed, or lacks what it needs, is done: it would again. One that was
    cut off, by itself or by us, is not.

    Parameters
    ----------
    steps
        In order of worth.
    out
        Folder of what they leave: a record and the end of what was said.
    minutes
        Of this slice.
    commit, device
        For the records.

    Returns
    -------
    records
        Of all steps that have begun on this code.
    """
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    done = records(out, commit)
    environment = environment_of_steps(out)
    for step in reached(steps, done):
        before = done.get(step.name)
        if before is not None and before.code != UNFINISHED:
            continue
        left = end - time.monotonic()
        if left <= 0:
            break
        command = list(step.command)
        if step.limit:
            # The command stops by itself, and has a minute to put things away.
            command += [step.limit, f"{max(left / 60 - 1, left / 120):.2f}"]
        began = time.monotonic()
        print(f"{step.name}: at most {left / 60:.1f} min", flush=True)
        log = out / f"{step.name}.log"
        with log.open("w") as file:
            try:
                code = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=environment,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=left,
                ).returncode
            except subprocess.TimeoutExpired:
                code = UNFINISHED
        seconds = time.monotonic() - began + (before.seconds if before else 0)
        record = Record(step.name, code, round(seconds, 1), commit, device)
        text = json.dumps(asdict(record), indent=2) + "\n"
        (out / f"{step.name}.step.json").write_text(text, "utf-8")
        log.write_bytes(log.read_bytes()[-20_000:])
        done[step.name] = record
        print(f"  {_ended(record)}", flush=True)
    return done


def _ended(record: Record | None) -> str:
    if record is None:
        return "to do"
    states = {
        0: "done",
        NO_DATA: "data not at hand",
        NO_MODULE: "a module not at hand",
        UNFINISHED: "begun, to be gone on with",
    }
    state = states.get(record.code, f"failed (exit code {record.code})")
    return f"{state}, {record.seconds:.0f} s on {record.device}"


def _commit() -> str:
    """Return which code this is; a copy without a history has none."""
    command = ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _pack(out: Path) -> None:
    """Put the folder into one file in it, but for that file."""
    file = out / "gpu.zip"
    file.unlink(missing_ok=True)
    made = shutil.make_archive(str(out.with_name(out.name + "-packed")), "zip", out)
    Path(made).replace(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns
    -------
    code
        0 if all steps are done or lack data or a module, 1 if one failed, 2 if what
        all need is missing, 3 without a GPU, 124 if steps are left.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="of this slice")
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "gpu")
    parser.add_argument("--resume", type=Path, help="a gpu.zip to go on from")
    parser.add_argument("--list", action="store_true", help="show the plan only")
    options = parser.parse_args(arguments)
    if options.minutes <= 0:
        parser.error(f"--minutes must be above 0, got {options.minutes:g}")
    if lacking := missing():
        print(f"tools.gpu: missing modules: {', '.join(lacking)}", file=sys.stderr)
        return 2
    import torch

    if not (options.list or torch.cuda.is_available()):
        print("tools.gpu: no CUDA device here; nothing was run", file=sys.stderr)
        return NO_GPU
    out = options.out.resolve()
    if options.resume is not None:
        shutil.unpack_archive(options.resume, out)
    steps, commit = plan(out), _commit()
    if options.list:
        known = records(out, commit)
        for step in reached(steps, known):
            print(f"{step.name:28} {_ended(known.get(step.name))}")
        return 0
    name = torch.cuda.get_device_name()
    done = run_plan(steps, out, options.minutes, commit, name)
    _pack(out)
    print(f"{out / 'gpu.zip'} holds what was found")
    codes = [
        done[s.name].code if s.name in done else None for s in reached(steps, done)
    ]
    if None in codes or UNFINISHED in codes:
        return UNFINISHED
    return int(any(code not in (0, NO_DATA, NO_MODULE) for code in codes))


if __name__ == "__main__":
    sys.exit(main())
