"""A sweep whose processes are killed at random moments, until it is complete."""

import subprocess
import time

import psutil

from ebmtut.sweeps.driver import load_runs


def wait_until(holds, seconds=180):
    deadline = time.time() + seconds
    while not holds():
        assert time.time() < deadline, "it never came true"
        time.sleep(0.2)  # a scan of all processes takes time from them


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
    found = []
    for process in of_sweep(folder, "one_run"):
        try:
            below = process.children()
            found += [p for p in below if "ipykernel" in " ".join(p.cmdline())]
        except psutil.Error:
            continue
    return found


def done_in(out):
    """When each run was started that is done."""
    records = load_runs(out) if (out / "runs").is_dir() else {}
    return {n: r["started"] for n, r in records.items() if r["status"] == "done"}


def kill_until_complete(command, out, draw, *, span):
    """Start a sweep again and again while its processes die; check what it leaves.

    Each time something dies by SIGKILL at a random moment, at most ``span`` seconds
    after the first kernel is there: the process of a run, a kernel; and the driver a
    while later.
    """
    finished = {}

    def look():
        nonlocal finished
        done = done_in(out)
        assert finished.items() <= done.items()  # nothing is lost or made twice
        finished = done

    for victim in ("run", "kernel"):
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(lambda d=driver: kernels(out) or d.poll() is not None)
        time.sleep(draw.uniform(0, span))
        doomed = of_sweep(out, "one_run") if victim == "run" else kernels(out)
        if doomed:
            draw.choice(doomed).kill()
            n_done = len(done_in(out))  # and the others go on
            wait_until(
                lambda d=driver, n=n_done: len(done_in(out)) > n or d.poll() is not None
            )
            time.sleep(draw.uniform(0, span))
        driver.kill()
        driver.wait()
        wait_until(lambda: not of_sweep(out))  # nobody computes for nobody
        look()
    assert subprocess.run(command, check=False, timeout=3600).returncode == 0
    look()
    records = load_runs(out)
    assert {record["status"] for record in records.values()} == {"done"}
    assert not list((out / "runs").glob(".tmp-*"))
    return records
