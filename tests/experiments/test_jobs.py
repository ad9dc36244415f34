"""Jobs: computed once, kept on disk, the same in parallel."""

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.deadlines import OutOfTime
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.random import make_generator
from ebmtut.results.checkpoints import load_checkpoint

# Worker processes import these by name.


def draw(seed, n=5, log=None):
    """Record every call, so that a test can count them across processes."""
    if log is not None:
        with Path(log).open("a") as file:
            file.write(f"{seed}\n")
    x = torch.randn(n, generator=make_generator(seed), dtype=torch.float64)
    arrays = {
        "x": x.numpy(),
        "half": x.numpy().astype(np.float16),
        "index": np.arange(6).reshape(2, 3),
    }
    return Outcome({"sum": float(x.sum()), "seed": seed}, arrays)


def draw_or_fail(seed, folder):
    """Fail at seed 1, once job 0 is running, which then takes its time."""
    running = Path(folder) / "running"
    if seed == 1:
        while not running.exists():
            time.sleep(0.01)
        raise RuntimeError("seed 1 is bad")
    running.touch()
    time.sleep(0.3)
    return draw(seed)


def diverges(seed):
    raise DivergenceError(f"the loss is nan at step {seed}", seed)


def not_a_number():
    return Outcome({"loss": math.nan, "one": 1.0})


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].scalars == other[name].scalars
        assert one[name].arrays.keys() == other[name].arrays.keys()
        for key, value in one[name].arrays.items():
            assert value.dtype == other[name].arrays[key].dtype
            assert np.array_equal(value, other[name].arrays[key])


def jobs(*seeds, **arguments):
    return {f"seed-{seed}": {"seed": seed, **arguments} for seed in seeds}


def test_a_job_is_computed_once(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "outcomes"
    first = run_jobs(draw, jobs(0, 1, log=str(log)), folder=folder, n_workers=1)
    assert log.read_text().split() == ["0", "1"]
    again = run_jobs(draw, jobs(0, 1, 2, log=str(log)), folder=folder, n_workers=1)
    assert log.read_text().split() == ["0", "1", "2"]
    again.pop("seed-2")
    same(first, again)


def test_other_arguments_are_computed_anew(tmp_path):
    run_jobs(draw, {"job": {"seed": 0}}, folder=tmp_path, n_workers=1)
    other = run_jobs(draw, {"job": {"seed": 0, "n": 3}}, folder=tmp_path, n_workers=1)
    same(other, {"job": draw(0, n=3)})
    # The file now holds the new one.
    back = run_jobs(draw, {"job": {"seed": 0}}, folder=tmp_path, n_workers=1)
    same(back, {"job": draw(0)})


def stopped_at_first(seed, n=1, checkpoint=None):
    """Leave a state and stop; end where a state is found."""
    if checkpoint is None or checkpoint.exists():
        return Outcome({"went on": float(checkpoint is not None)})
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text(str(n))
    checkpoint.with_name(f"{checkpoint.stem}-rival.safetensors").write_text(str(n))
    raise OutOfTime("no time")


def test_a_job_goes_on_from_its_own_state_only(tmp_path):
    """What another job of the same name left is not gone on from, nor removed."""
    assert run_jobs(stopped_at_first, jobs(0))["seed-0"].scalars["went on"] == 0

    def run(n):
        return run_jobs(stopped_at_first, jobs(0, n=n), folder=tmp_path, n_workers=1)

    for n in (1, 2):
        with pytest.raises(OutOfTime, match="0 of 1 jobs"):
            run(n)
    assert len(list((tmp_path / "parts").iterdir())) == 4
    assert run(2)["seed-0"].scalars["went on"] == 1
    left = [file.read_text() for file in (tmp_path / "parts").iterdir()]
    assert left == ["1", "1"]


def test_a_number_that_is_none_comes_back_as_it_was(tmp_path):
    for _ in range(2):
        kept = run_jobs(not_a_number, {"job": {}}, folder=tmp_path, n_workers=1)
        assert math.isnan(kept["job"].scalars["loss"])
        assert kept["job"].scalars["one"] == 1.0


def test_a_damaged_outcome_is_named(tmp_path):
    run_jobs(draw, jobs(0), folder=tmp_path, n_workers=1)
    (tmp_path / "seed-0.safetensors").write_bytes(b"half a file")
    with pytest.raises(InputError, match=r"seed-0.safetensors is damaged: remove it"):
        run_jobs(draw, jobs(0), folder=tmp_path, n_workers=1)


def test_two_processes_give_what_one_gives(tmp_path):
    serial = run_jobs(draw, jobs(0, 1, 2), folder=tmp_path / "a", n_workers=1)
    parallel = run_jobs(draw, jobs(0, 1, 2), folder=tmp_path / "b", n_workers=2)
    same(serial, parallel)
    for path in (tmp_path / "a").iterdir():
        _, one = load_checkpoint(path)
        _, other = load_checkpoint(tmp_path / "b" / path.name)
        assert one | {"seconds": 0} == other | {"seconds": 0}


def test_a_job_that_fails_in_parallel_leaves_the_others(tmp_path):
    """Job 0 is running when job 1 fails: its outcome is kept all the same."""
    folder = tmp_path / "outcomes"
    with pytest.raises(RuntimeError, match="seed 1 is bad"):
        run_jobs(
            draw_or_fail, jobs(0, 1, folder=str(tmp_path)), folder=folder, n_workers=2
        )
    assert [path.name for path in folder.iterdir()] == ["seed-0.safetensors"]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_job_that_diverged_is_named_with_its_step(n_workers, tmp_path):
    both = {name: {"seed": 3} for name in ("one", "two")}
    with pytest.raises(
        DivergenceError, match=r"^(one|two): the loss .* step 3"
    ) as caught:
        run_jobs(diverges, both, folder=tmp_path, n_workers=n_workers)
    assert caught.value.step == 3


def test_an_outcome_keeps_the_commit_that_computed_it(tmp_path, monkeypatch):
    monkeypatch.setattr("ebmtut.experiments.jobs.git_commit", lambda: "first")
    run_jobs(draw, {"a": {"seed": 1}}, folder=tmp_path)
    monkeypatch.setattr("ebmtut.experiments.jobs.git_commit", lambda: "second")
    jobs = {name: {"seed": seed} for name, seed in (("a", 1), ("b", 2))}
    outcomes = run_jobs(draw, jobs, folder=tmp_path, n_workers=1)
    assert [outcomes[name].commit for name in "ab"] == ["first", "second"]
    assert commits_of(outcomes) == ["first", "second"]


WAITING = """
import os, sys, time
from pathlib import Path
from ebmtut.experiments.jobs import run_jobs

def wait(folder, k):
    Path(folder, str(os.getpid())).touch()
    time.sleep(120)

if __name__ == "__main__":
    jobs = {k: {"folder": sys.argv[1], "k": k} for k in "ab"}
    run_jobs(wait, jobs, n_workers=2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_a_killed_parent(tmp_path):

    def is_running(pid):
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and ") Z" not in stat.read_text()

    def is_worker(pid):
        words = Path(f"/proc/{pid}/cmdline")
        return words.exists() and b"LokyProcess" in words.read_bytes()

    def wait_until(condition):
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        return condition()

    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    seen = tmp_path / "seen"
    seen.mkdir()
    parent = subprocess.Popen([sys.executable, script, seen])

    def workers():
        threads = Path(f"/proc/{parent.pid}/task").glob("*/children")
        children = [int(pid) for file in threads for pid in file.read_text().split()]
        return [pid for pid in children if is_worker(pid)]

    try:
        assert wait_until(lambda: len([*seen.iterdir()]) == 2)
        started = workers()
    finally:
        parent.kill()
        parent.wait()
    assert len(started) == 2
    assert wait_until(lambda: not any(map(is_running, started)))


def test_a_number_that_a_run_lacks_is_nan():
    table = scalars_of([Outcome({"a": 1.0}), Outcome({"b": 2.0})])
    assert list(table) == ["a", "b"]
    assert table["a"][0] == 1.0 and table["b"][1] == 2.0
    assert math.isnan(table["a"][1]) and math.isnan(table["b"][0])
