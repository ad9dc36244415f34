"""A sweep whose processes are killed at random moments, until it is complete.

    python -m tests.sweeps.killing FOLDER           # 60 runs on this machine
    python -m tests.sweeps.killing FOLDER --dask    # on a scheduler and two workers

Each time the command is started something dies by SIGKILL at a random moment: the
driver, a worker (on one machine the process of a run), a kernel; and the driver, too,
a while later. The tests do the same with fewer runs.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from ebmtut.sweeps.driver import load_runs
from tests.sweeps.notebooks import write_notebook

VICTIMS = ("driver", "worker", "kernel")


def wait_until(holds, seconds=180):
    """Wait for something to come true."""
    deadline = time.time() + seconds
    while not holds():
        assert time.time() < deadline, "it never came true"
        time.sleep(0.05)


def of_sweep(folder, word=""):
    """Processes that work for the sweep in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            told = " ".join(process.cmdline())
            if str(folder) in told and word in told:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kernels(folder):
    """Kernels of the sweep in a folder."""
    found = []
    for process in of_sweep(folder, "one_run"):
        try:
            below = process.children()
            found += [p for p in below if "ipykernel" in " ".join(p.cmdline())]
        except psutil.Error:
            continue
    return found


@contextmanager
def dask_cluster(folder):
    """A scheduler and two workers, started as the book says.

    Yields the scheduler's address, and what lists the processes of the workers; each
    has one more that starts it again.
    """
    told = folder / "scheduler.json"

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--scheduler-file", str(told)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        stack.callback(end_tree, process)
        return process

    with ExitStack() as stack:
        start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        wait_until(told.exists)
        starters = [
            psutil.Process(start("worker", "--nthreads", "1", "--no-dashboard").pid)
            for _ in range(2)
        ]

        def workers():
            below = [p for starter in starters for p in starter.children()]
            return [p for p in below if "spawn_main" in " ".join(p.cmdline())]

        wait_until(lambda: len(workers()) == 2)
        yield json.loads(told.read_text("utf-8"))["address"], workers


def end_tree(process):
    """Kill a process of ours, and what it started."""
    below = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in below:
        if child.is_running():
            child.kill()


def done_in(out):
    """When each run was started that is done."""
    records = load_runs(out) if (out / "runs").is_dir() else {}
    return {n: r["started"] for n, r in records.items() if r["status"] == "done"}


def kill_until_complete(command, out, draw, *, span, workers=None, victims=VICTIMS):
    """Start a sweep again and again while its processes die; check what it leaves.

    ``span`` is the longest time, in seconds, that passes before a death, and
    ``workers`` lists the processes of a cluster's workers.
    """
    finished = {}

    def look():
        nonlocal finished
        done = done_in(out)
        assert finished.items() <= done.items()  # nothing is lost or made twice
        finished = done

    for victim in victims:
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(lambda d=driver: kernels(out) or d.poll() is not None)
        time.sleep(draw.uniform(0, span))
        doomed = []
        if victim == "worker":
            doomed = workers() if workers else of_sweep(out, "one_run")
        elif victim == "kernel":
            doomed = kernels(out)
        if doomed:
            draw.choice(doomed).kill()
            n_done = len(done_in(out))  # and the others go on
            wait_until(
                lambda d=driver, n=n_done: len(done_in(out)) > n or d.poll() is not None
            )
            time.sleep(draw.uniform(0, span))
        driver.kill()
        driver.wait()
        if workers is None:  # nobody computes for nobody
            wait_until(lambda: not of_sweep(out))
        look()
        print(f"{victim} killed: {len(finished)} done", flush=True)
    assert subprocess.run(command, check=False, timeout=3600).returncode == 0
    look()
    records = load_runs(out)
    assert {record["status"] for record in records.values()} == {"done"}
    assert not list((out / "runs").glob(".tmp-*"))
    return records


def main():
    """Do it with sixty runs of a small page, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new one")
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir()
    page, out = write_notebook(folder / "page.ipynb"), folder / "out"
    command = [
        sys.executable,
        "-m",
        "ebmtut.cli",
        "sweep",
        str(page),
        "--out",
        str(out),
    ]
    command += ["-p", "eps=0.1,0.2,0.3,0.4", "-p", "n_steps=1,2,3", "--seeds", "5"]
    print(f"random moments of seed {options.seed}")
    started, workers = time.time(), None
    with ExitStack() as stack:
        if options.dask:
            address, workers = stack.enter_context(dask_cluster(folder))
            command += ["--scheduler", address]
        draw = random.Random(options.seed)
        records = kill_until_complete(command, out, draw, span=30, workers=workers)
    starts = [len(p.read_text("utf-8").splitlines()) for p in folder.glob("log/*")]
    assert len(records) == len(starts) == 60
    print(
        f"60 runs done in {time.time() - started:.0f} s; work begun "
        f"{', '.join(f'{k} times in {n}' for k, n in sorted(Counter(starts).items()))}"
    )


if __name__ == "__main__":
    main()
