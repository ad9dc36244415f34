"""Jobs, computed once and the same in parallel, and the experiments made of them."""

import importlib
import json
import math
import multiprocessing
import runpy
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.experiments.experiment import Experiment, by_seed, nested
from ebmtut.experiments.identity import code_digest
from ebmtut.experiments.injected import check_injected, executed_cells
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.verdicts import claim, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import save_result
from ebmtut.results.checkpoints import load_checkpoint
from ebmtut.samplers import ising_gibbs

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


@dataclass(frozen=True)
class Inner:
    scale: float = 1.0


@dataclass(frozen=True)
class Config:
    methods: tuple[str, ...] = ("a", "b")
    sizes: tuple[int, ...] = (2, 3)
    n_seeds: int = 2
    inner: Inner = field(default_factory=Inner)


def job(method, size, scale, seed, log=None):
    """Draw, and note the call in a file, which other processes can write to, too."""
    if log is not None:
        with Path(log).open("a") as file:
            file.write(f"{method}{size}-{seed}\n")
    x = np.random.default_rng([seed, size]).normal(scale=scale, size=size)
    scalars = {"sum": float(x.sum())} | ({"only b": 1.0} if method == "b" else {})
    return Outcome(scalars, {"x": x, "unkept": x})


def cells(config, **more):
    return {
        (method, str(size)): {
            "method": method,
            "size": size,
            "scale": config.inner.scale,
            **more,
        }
        for method in config.methods
        for size in config.sizes
    }


def verdicts():
    return [claim("few", 1, "at most", 2), claim("many", 1, "at least", 2)]


ROW = Experiment(
    id="ed/window",
    title="x",
    presets={"quick": Config(), "full": Config(n_seeds=3)},
    job=job,
    cells=cells,
    arrays={"x": "{name} of {cell}"},
    extras=lambda config, seed: Outcome({"exact": 0.0}, {"truth": np.zeros(seed)}),
    figure=lambda result: None,
    check=lambda result: verdicts(),
    parallel=False,
)


def logged(tmp_path, **changes):
    """Return the row, and what lists its jobs as they were computed."""
    log = tmp_path / "log"
    log.touch()
    row = replace(ROW, cells=lambda config: cells(config, log=str(log)), **changes)
    return row, lambda: sorted(log.read_text().split())


def test_a_row_is_its_cells_seeds_and_extras():
    result = ROW.run("full", seed=5, inner={"scale": 2.0})
    assert (result.id, result.scale) == ("ed/window", "full")
    assert result.config["inner"] == {"scale": 2.0}
    table = result.scalars["table"]
    assert [(m, list(row)) for m, row in table.items()] == [
        (m, ["2", "3"]) for m in "ab"
    ]
    want = [job("a", 3, 2.0, seed) for seed in (5, 6, 7)]
    assert table["a"]["3"] == {"sum": [o.scalars["sum"] for o in want]}
    assert table["b"]["2"]["only b"] == [1.0] * 3
    assert result.scalars["exact"] == 0.0
    kept = [f"x of {m}/{n}" for m in "ab" for n in "23"]
    assert list(result.arrays) == ["truth", *kept]
    assert np.array_equal(result.arrays["x of a/3"], want[0].arrays["x"])
    assert result.provenance.seed == 5
    assert result.provenance.device.startswith("cpu")
    assert result.provenance.jobs_s > 0


def test_a_row_that_is_no_table_is_one_job():
    declared = {name: getattr(ROW, name) for name in ("id", "title", "figure", "check")}

    def whole(config, seed):
        return Outcome({"sizes": list(config.sizes), "seed": seed})

    row = Experiment(**declared, presets={"quick": Config()}, job=whole)
    scalars = row.run(seed=3).scalars
    assert (scalars["sizes"], scalars["seed"]) == ([2, 3], 3)


def test_another_form_of_result_is_gathered():
    def gather(config, runs):
        return Outcome({"cells": ["-".join(cell) for cell in runs]})

    scalars = replace(ROW, gather=gather).run().scalars
    assert scalars["cells"] == ["a-2", "a-3", "b-2", "b-3"]
    assert "table" not in scalars


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"n_seed": 1}, r"parameter must be one of .*n_seed'.*did you mean 'n_seeds'"),
        (
            {"inner": {"scal": 1}},
            r"parameter must be one of inner.scale; got 'inner.sc",
        ),
        ({"time_limit": -1, "checkpoints": "x"}, "time_limit must be .* >= 0"),
        ({"time_limit": 1}, "time_limit needs checkpoints"),
        ({"seed": -1}, "seed must be"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda; got 'tpu'"),
        ({"device": "cuda"}, "device must be auto, cpu for ed/window, got 'cuda'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(knobs, words, tmp_path):
    row, computed = logged(tmp_path)
    with pytest.raises(InputError, match=words):
        row.run(**knobs)
    assert computed() == []


def test_auto_takes_the_best_device_that_the_row_can_use(monkeypatch):
    both = replace(ROW, devices=("cpu", "cuda"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert (ROW.device("auto"), both.device("auto")) == ("cpu", "cuda")
    assert both.device("cuda") == "cuda"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert both.device("auto") == "cpu"
    with pytest.raises(InputError, match="no CUDA device"):
        both.device("cuda")


def test_a_run_that_was_broken_off_goes_on(tmp_path):
    row, computed = logged(tmp_path)

    def broken(method, seed, **arguments):
        if method == "b":
            raise KeyboardInterrupt
        return job(method, seed=seed, **arguments)

    folder = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        replace(row, job=broken).run(checkpoints=folder)
    assert computed() == ["a2-0", "a3-0"]
    first = row.run(checkpoints=folder)  # another function: computed anew
    assert len(computed()) == 2 + 8
    again = row.run("full", checkpoints=folder)
    assert len(computed()) == 2 + 8 + 4
    table, other = first.scalars["table"], again.scalars["table"]
    assert other["b"]["3"]["sum"][:2] == table["b"]["3"]["sum"]


SCRIPT = """
import sys
from pathlib import Path
from dataclasses import dataclass
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.jobs import Outcome

{code}

def slow(k, log, seed):
    with Path(log).open("a") as file:
        file.write(f"{{k}}\\n")
    return Outcome({{"value": helper(k)}})

@dataclass(frozen=True)
class Config:
    n: int = 6

ROW = Experiment(
    id="ed/window", title="x", presets={{"quick": Config()}}, job=slow,
    cells=lambda c: {{str(k): {{"k": k, "log": sys.argv[1]}} for k in range(c.n)}},
    figure=lambda result: None, check=lambda result: [], parallel=False,
)
if __name__ == "__main__":
    table = ROW.run(checkpoints=sys.argv[2]).scalars["table"]
    print([cell["value"][0] for cell in table.values()])
"""
KILLS = """
import os, signal
def helper(k):
    if k == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return k
"""


def as_main(script, *words):
    """Run a script; what it says goes to files beside it."""
    sys.argv = [str(script), *map(str, words)]
    out, err = (script.with_suffix(end).open("w") for end in (".out", ".err"))
    with out, err, redirect_stdout(out), redirect_stderr(err):
        runpy.run_path(str(script), run_name="__main__")


def test_a_killed_run_goes_on_and_other_code_begins_anew(tmp_path):
    """The function is the same; what it calls is not: nothing old is mixed in."""
    script, log, folder = (tmp_path / name for name in ("row.py", "log", "kept"))

    def run(code):
        script.write_text(SCRIPT.format(code=code))
        # In a fork, which has imported torch.
        words = {"target": as_main, "args": (script, log, folder)}
        process = multiprocessing.get_context("fork").Process(**words)
        process.start()
        process.join()
        said = (script.with_suffix(end).read_text() for end in (".out", ".err"))
        return process.exitcode, *said

    assert run(KILLS)[0] == -9
    assert log.read_text().split() == ["0", "1", "2", "3"]
    assert len(list(folder.glob("*.safetensors"))) == 3
    # Were it the same code, it would die again.
    _, out, err = run("def helper(k):\n    return k + SHIFT\n\nSHIFT = 10\n")
    assert json.loads(out) == [k + 10 for k in range(6)]
    assert "3 kept outcomes are of other code or arguments" in err
    assert len(log.read_text().split()) == 4 + 6
    # A comment is no other code.
    code = "def helper(k):\n    # as before\n    return k + SHIFT\n\nSHIFT = 10\n"
    assert run(code) == (0, out, "")
    assert len(log.read_text().split()) == 4 + 6


def slowly(seed, k, log, checkpoint=None):
    """Stop at the deadline, with its state kept, or at the end of its steps."""
    with Path(log).open("a") as file:
        file.write(f"{k}\n")
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for step in range(done, 3):
        time.sleep(0.2)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write_text(str(step + 1))
        if out_of_time():
            raise OutOfTime("a state is kept")
    return Outcome({"began at": done})


def test_a_time_limit_stops_cleanly_and_the_same_call_goes_on(tmp_path):
    log = tmp_path / "log"
    row = replace(
        ROW,
        job=slowly,
        cells=lambda config: {str(k): {"k": k, "log": str(log)} for k in range(2)},
        n_seeds=lambda config, cell: 1,
    )
    with pytest.raises(OutOfTime, match="0 of 2 jobs are done; the same command goes"):
        row.run(checkpoints=tmp_path, time_limit=0.1 / 60)
    assert log.read_text().split() == ["0"]  # the second did not begin
    table = row.run(checkpoints=tmp_path, time_limit=10).scalars["table"]
    assert table == {"0": {"began at": [1]}, "1": {"began at": [0]}}
    assert not list((tmp_path / "parts").iterdir())


def test_a_cluster_gives_what_this_machine_gives(tmp_path):
    distributed = pytest.importorskip("distributed")
    row = replace(ROW, parallel=True)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        far = row.run(checkpoints=tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 8
    near = ROW.run()
    assert far.scalars["table"] == near.scalars["table"]
    for name, array in near.arrays.items():
        assert np.array_equal(array, far.arrays[name])


def test_the_largest_stored_result_is_found(tmp_path, capsys):
    assert ROW.stored(tmp_path) is None
    line = capsys.readouterr().out
    assert line == "not stored yet: ebmtut run ed/window --scale full\n"
    save_result(ROW.run("quick"), tmp_path)
    assert ROW.stored(tmp_path) is None  # the live run is quick: nothing larger yet
    full = ROW.run("full")
    save_result(full, tmp_path)
    assert ROW.stored(tmp_path).scalars == full.scalars


def test_tables_nest_as_their_cells_names_do():
    runs = {("x", "y", "z"): [Outcome({"m": 1.0}), Outcome()]}
    (row,) = nested(runs)["x"]["y"].values()
    assert row["m"][0] == 1.0 and np.isnan(row["m"][1])


def test_a_table_of_any_form_lists_the_seeds_at_its_leaves():
    runs = [
        Outcome({"rows": {"ours": {"kl": k}}, "bits": [k, 2 * k]}, {"x": np.array([k])})
        for k in (1.0, 3.0)
    ]
    found = by_seed(None, {("only",): runs})
    assert found.scalars == {
        "rows": {"ours": {"kl": [1.0, 3.0]}},
        "bits": [[1.0, 2.0], [3.0, 6.0]],
    }
    assert found.arrays["x"].tolist() == [1.0]


def test_mean_and_stderr():
    assert mean_and_stderr([3.0]) == (3.0, None)
    assert mean_and_stderr([1.0, 3.0]) == pytest.approx((2.0, 1.0))
    assert mean_and_stderr([1.0], [0.1]) == pytest.approx((1.0, 0.1))
    assert mean_and_stderr([1.0, 3.0], [4.0, 4.0]) == pytest.approx((2.0, 8**0.5))
    assert all(map(np.isnan, mean_and_stderr([1.0, None])))


def test_code_is_followed_through_imports_inside_functions(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text(
        "def job():\n"
        "    def inner():\n"
        "        from lazily.tools import used\n"
        "        return used()\n"
        "    return inner()\n"
        "def on_gpu():\n"
        "    from lazily._sweeps_triton import sweep\n"
        "    return sweep()\n"
    )

    def digests(used="1", unused="1", kernel="1", comment=""):
        (package / "tools.py").write_text(
            f"def deep(): return {used}\n"
            "def used(): return deep()\n"
            f"def unused(): return {unused}\n"
        )
        (package / "_sweeps_triton.py").write_text(
            f'"""Kernels. {comment}"""\n'
            "import a_module_that_only_a_gpu_brings\n"
            "from lazily.tools import used\n"
            f"def sweep():  # {comment}\n"
            f"    return used() + {kernel}\n"
        )
        for name in [n for n in sys.modules if n.partition(".")[0] == "lazily"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        work = importlib.import_module("lazily.work")
        return code_digest(work.job), code_digest(work.on_gpu)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    job, on_gpu = digests()
    assert digests(unused="2", comment="said better") == (job, on_gpu)
    assert digests(kernel="2")[0] == job and digests(kernel="2")[1] != on_gpu
    changed = digests(used="2")
    assert changed[0] != job and changed[1] != on_gpu


def test_the_digest_of_a_job_on_a_gpu_reaches_its_kernels():
    reached = set()
    read = Path.read_text

    def noted(path, *arguments, **options):
        reached.add(path.name)
        return read(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", noted)
        code_digest(ising_gibbs)
    assert "gibbs_triton.py" in reached


def test_code_is_followed_through_methods_containers_and_defaults():
    def made(value, inner):
        class Model:
            knob = value

            def energy(self, x):
                return inner(x)

        methods = {"m": Model}

        def work(seed, way="m"):
            return methods[way]().energy(seed)

        return work

    one, other = (lambda x: x + 1), (lambda x: x + 2)
    assert code_digest(made(1, one)) == code_digest(made(1, one))
    assert code_digest(made(1, one)) != code_digest(made(2, one))
    assert code_digest(made(1, one)) != code_digest(made(1, other))


CELL = 'seed: int = 0\neps: float = 0.1  # strength\nkind: str = "a"\n'


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("epx = 1", "parameter must be one of seed, eps, kind; got 'epx'"),
        ("eps = 'a'", "eps must be float, got 'a'"),
        ("seed = 1.5", "seed must be int, got 1.5"),
        ("seed = True", "seed must be int, got True"),
        ("kind = None", "kind must be str, got None"),
    ],
)
def test_other_names_and_types_are_refused(added, message):
    with pytest.raises(InputError, match=message):
        check_injected(["import this", CELL, f"# Parameters\n{added}\n", "check()"])


def test_what_fits_passes():
    check_injected([])
    check_injected(["", CELL, "check()"])
    good = "# Parameters\nseed = 3\neps = 1\nkind = 'b'\n"
    check_injected([CELL, good, "check()"])
    check_injected([CELL, "# Parameters\neps = float('nan')\n"])


def test_outside_of_a_kernel_nothing_was_executed():
    assert executed_cells() == []
