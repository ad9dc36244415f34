"""Do on a GPU, slice by slice, all that only a GPU can: tests, rates, large presets.

    python -m tools.gpu --minutes 9            # a slice; the same command goes on
    python -m tools.gpu --list                 # the plan, and what is done

Steps come in order of worth. What a step said and how it ended is kept in one folder
of small files, and what is done on this code is not done again; a run that was cut off
goes on from its checkpoints. ``gpu.zip`` in that folder holds what was found, and
``gpu-begun.000`` and so on the checkpoints, in pieces of 15 MB: given back by
``--resume gpu.zip``, beside which they lie, it goes on in an empty folder elsewhere.
Nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from tools.paths import ROOT

NO_GPU = 3  # the exit code that says so
UNFINISHED = 124  # exit code of a step and of this tool: call again
NO_DATA = 66  # a step's: the row's data set is not at hand
NO_MODULE = 69  # a step's: an optional module is not, such as POT
TOO_LONG = 75  # a step's: it took more time than it may
RECORDED = "tests/training/test_cuda_graph.py"  # holds a replay to the steps

#: What computing needs besides the package itself.
NEEDED = (
    *("torch", "triton", "numpy", "scipy", "numba", "matplotlib", "jaxtyping"),
    *("joblib", "tqdm", "safetensors", "filelock", "yaml"),
)

_SHORTEST = 90.0  # seconds below which no row is begun
_MOST = 420.0  # seconds that a file of tests, and the rates, may take in one slice
_PIECE = 15_000_000  # bytes of a piece of the checkpoints

# Rows in order of worth; others that can use a GPU follow.
WORTH = ("dnfs/networks", "dnfs/control-variate", "ed/densities-table")


class Step(NamedTuple):
    """A command, and whether it can be told when to stop."""

    name: str
    command: tuple[str, ...]
    limit: str = ""
    instead: Step | None = None
    needs: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    most: float = _MOST
    leaves: tuple[Path, ...] = ()


class Record(NamedTuple):
    """How a step ended."""

    name: str
    code: int
    seconds: float
    source: str
    device: str


def cuda_tests() -> list[str]:
    """Return files with tests for a GPU; others may import what is not here.

    Recorded steps come first, then the kernels.
    """
    kernels = sorted((ROOT / "tests" / "kernels").glob("test_*.py"))
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    takes = re.compile(r"def test_\w+\([^)]*\bdevice\b")
    on_device = [f for f in kernels if takes.search(f.read_text("utf-8"))]
    marked = [f for f in files if "pytest.mark.cuda" in f.read_text("utf-8")]
    found = [str(f.relative_to(ROOT)) for f in (*on_device, *marked)]
    return list(dict.fromkeys([RECORDED, *found]))


def test_step(file: str) -> Step:
    """Return a step of one file: what is done of the tests is not done again."""
    command = (sys.executable, "-m", "pytest", "-q", "-m", "cuda", file)
    return Step(_name_of_tests(file), command, needs=("pytest", "hypothesis"))


def _name_of_tests(file: str) -> str:
    return "-".join(["tests", *Path(file).with_suffix("").parts[1:]])


def plan(out: Path) -> list[Step]:
    """Return all steps: tests on the GPU, rates, then each row's largest preset.

    Where a row's data are not at hand, the next smaller preset takes its place.
    """
    from ebmtut.experiments import get_experiment
    from ebmtut.experiments.registry import SCALES, available

    python = sys.executable
    found = out / "rates.json"
    rates = (python, "benchmarks/gpu_rates.py", "--json", str(found))
    steps = [
        *map(test_step, cuda_tests()),
        Step("rates", rates, most=2 * _MOST, leaves=(found,)),
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
        takes = signature(experiment.batch).parameters if experiment.batch else ()
        batch = ("--batch",) if experiment.batch else ()
        graph = ("--cuda-graph",) if "cuda_graph" in takes else ()
        step = None
        for scale in (s for s in SCALES[1:] if s in experiment.presets):
            command = (*run, "--scale", scale, *options, *batch)
            name = f"{experiment.id.replace('/', '-')}-{scale}"
            step = Step(name, command, "--time-limit", instead=step, proven=graph)
        if step is not None:
            steps.append(step)
    return steps


def reached(steps: Sequence[Step], done: Mapping[str, Record]) -> Iterator[Step]:
    """Give the steps, each followed by the one in its place if its data are missing."""
    for step in steps:
        now: Step | None = step
        while now is not None:
            yield now
            record = done.get(now.name)
            lacks_data = record is not None and record.code == NO_DATA
            now = now.instead if lacks_data else None


def environment_of_steps(out: Path) -> dict[str, str]:
    """Return what steps are told: where the code lies, and to fetch nothing."""
    told = {"EBMTUT_OFFLINE": "1"}
    if find_spec("platformdirs") is None:
        told["EBMTUT_CACHE"] = str(out / "data")
    path = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    joined = os.pathsep.join(filter(None, path))
    return told | dict(os.environ) | {"PYTHONPATH": joined}


def records(out: Path, source: str) -> dict[str, Record]:
    """Read how steps ended on this code."""
    found = {}
    for file in sorted(out.glob("*.step.json")):
        record = Record(**json.loads(file.read_text("utf-8")))
        if record.source == source:
            found[record.name] = record
    return found


def run_plan(
    steps: Sequence[Step], out: Path, minutes: float, source: str, device: str
) -> dict[str, Record]:
    """Do what is not done yet, until the time is over.

    A step that failed, took too long, or lacks what it needs, is done: it would again.
    One that was cut off, by itself or since the slice was over, is not.
    """
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    done = records(out, source)
    environment = environment_of_steps(out)
    for step in reached(steps, done):
        before = done.get(step.name)
        if before is not None and before.code != UNFINISHED:
            continue
        left = end - time.monotonic()
        # What stops by itself leaves a minute, too short to begin something else.
        if left <= (_SHORTEST if step.limit else 0):
            break
        command = list(step.command)
        if step.limit:
            # It has a minute to put things away.
            command += [step.limit, f"{left / 60 - 1:.2f}"]
        tested = done.get(_name_of_tests(RECORDED))
        if tested is not None and tested.code == 0:
            command += step.proven
        if before is None:
            for file in step.leaves:
                file.unlink(missing_ok=True)
        spent = 0.0 if before is None else before.seconds
        # What goes on where it stopped has so much time in all, else in each slice.
        earlier = spent if step.leaves else 0.0
        began = time.monotonic()
        print(f"{step.name}: at most {left / 60:.1f} min", flush=True)
        log = out / f"{step.name}.log"
        most = left if step.limit else min(left, max(1.0, step.most - earlier))
        code = _do(step, command, environment, most, log)
        now = time.monotonic() - began
        seconds = now + spent
        if code == UNFINISHED and not step.limit and now + earlier >= step.most:
            code = TOO_LONG
        record = Record(step.name, code, round(seconds, 1), source, device)
        text = json.dumps(record._asdict(), indent=2) + "\n"
        (out / f"{step.name}.step.json").write_text(text, "utf-8")
        log.write_bytes(log.read_bytes()[-20_000:])
        done[step.name] = record
        print(f"  {_ended(record)}", flush=True)
    return done


def _do(
    step: Step, command: list[str], environment: dict[str, str], left: float, log: Path
) -> int:
    """Run a step's command for at most so many seconds; return its exit code."""
    with log.open("w") as file:
        if lacking := [name for name in step.needs if find_spec(name) is None]:
            file.write(f"missing modules: {', '.join(lacking)}\n")
            return NO_MODULE
        try:
            return subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=left,
            ).returncode
        except subprocess.TimeoutExpired:
            return UNFINISHED


def _ended(record: Record | None) -> str:
    if record is None:
        return "to do"
    states = {
        0: "done",
        NO_DATA: "data not at hand",
        NO_MODULE: "a module not at hand",
        TOO_LONG: "took too long",
        UNFINISHED: "begun, to be gone on with",
    }
    state = states.get(record.code, f"failed (exit code {record.code})")
    return f"{state}, {record.seconds:.0f} s on {record.device}"


def _source() -> str:
    """Return which code this is: changed by a hand, or without a history, too."""
    from ebmtut._digests import files_digest

    folders = ("benchmarks", "src", "tests", "tools")
    files = (f for folder in folders for f in sorted((ROOT / folder).rglob("*.py")))
    return files_digest(ROOT, files)[:16]


def _pack(out: Path) -> None:
    """Put what was found into one file, and the checkpoints into pieces beside it."""
    for stale in (out / "gpu.zip", *out.glob("gpu-begun.*")):
        stale.unlink(missing_ok=True)
    begun = out / "results" / ".tmp"
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        found, rest = Path(folder, "found"), Path(folder, "begun")
        aside = shutil.ignore_patterns(".tmp")
        shutil.copytree(out, found, ignore=aside)
        Path(shutil.make_archive(str(found), "zip", found)).replace(out / "gpu.zip")
        if not begun.is_dir():
            return
        packed = Path(shutil.make_archive(str(rest), "zip", begun)).read_bytes()
    for k, at in enumerate(range(0, len(packed), _PIECE)):
        (out / f"gpu-begun.{k:03}").write_bytes(packed[at : at + _PIECE])


def _unpack(file: Path, out: Path) -> None:
    """Do the reverse in a folder that has no records yet."""
    if any(out.glob("*.step.json")):
        print(f"{out} has records already: goes on with those, not with {file}")
        return
    shutil.unpack_archive(file, out)
    if pieces := sorted(file.parent.glob("gpu-begun.*")):
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder, "begun.zip")
            packed.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
            shutil.unpack_archive(packed, out / "results" / ".tmp")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
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
    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        print(f"tools.gpu: missing modules: {', '.join(lacking)}", file=sys.stderr)
        return 2
    import torch

    if not (options.list or torch.cuda.is_available()):
        print("tools.gpu: no CUDA device here; nothing was run", file=sys.stderr)
        return NO_GPU
    out = options.out.resolve()
    if options.resume is not None:
        _unpack(options.resume, out)
    sys.path.insert(0, str(ROOT / "src"))  # the package need not be installed
    steps, source = plan(out), _source()
    if options.list:
        known = records(out, source)
        for step in reached(steps, known):
            print(f"{step.name:28} {_ended(known.get(step.name))}")
        return 0
    name = torch.cuda.get_device_name()
    done = run_plan(steps, out, options.minutes, source, name)
    _pack(out)
    print(f"{out / 'gpu.zip'} holds what was found, gpu-begun.* what was begun")
    codes = [
        done[s.name].code if s.name in done else None for s in reached(steps, done)
    ]
    if None in codes or UNFINISHED in codes:
        return UNFINISHED
    return int(any(code not in (0, NO_DATA, NO_MODULE) for code in codes))


if __name__ == "__main__":
    sys.exit(main())
