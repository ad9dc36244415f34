"""The command line: what it prints, what it stores, what it refuses, and how."""

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from filelock import FileLock

from ebmtut import cli
from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import DataUnavailable, RemoteFile
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.facts import facts
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.registry import available
from ebmtut.experiments.runs import check_parameters
from ebmtut.experiments.verdicts import claim
from ebmtut.results import load_result
from tools import gpu

PNG = b"\x89PNG\r\n\x1a\n"


@dataclasses.dataclass(frozen=True)
class Config:
    n_points: int


class Work:
    """A tiny experiment that notes how it was called, and fails when told to."""

    def __init__(self):
        self.calls: list[dict[str, Any]] = []
        self.fails = False

    def job(self, config, seed, device, checkpoint):
        self.calls.append({"config": config, "seed": seed, "device": device})
        self.kept = checkpoint
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write_text("1")
        if self.fails:
            raise KeyboardInterrupt
        values = np.random.default_rng(seed).random(config.n_points)
        return Outcome({"mean": float(values.mean())}, {"values": values})

    def figure(self, result):
        figure, axis = plt.subplots()
        axis.plot(result.arrays["values"])
        return figure

    def check(self, result):
        return [claim("mean of the points", result.scalars["mean"], "at most", 1.0)]

    def experiment(self):
        return Experiment(
            id="ed/window",
            title="Pooling windows",
            presets={"quick": Config(5), "full": Config(9)},
            job=self.job,
            figure=self.figure,
            check=self.check,
            devices=("cpu", "cuda"),
        )


@pytest.fixture
def work(monkeypatch):
    work = Work()
    monkeypatch.setattr(cli, "get_experiment", lambda id: work.experiment())
    return work


def refused(capsys, *words, code=2):
    """Run a command that must end with 2 and one line on stderr; return the line."""
    assert cli.main(words) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ebmtut: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_list_json(capsys, tmp_path):
    assert cli.main(["list", "--json", "--results", str(tmp_path)]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in entries] == list(facts())
    for entry in entries:
        assert set(entry) == {"id", "paper", "title", "scales"}
        assert set(entry["scales"]) == {"quick", "full", "paper"}
        for at in entry["scales"].values():
            assert set(at) == {"state", "verdicts"}
            assert at["state"] in ("stored", "live", "not run")
            assert at["verdicts"] == []


def test_list_answers_at_once():
    """Two seconds of the CPU are allowed; torch alone can take longer."""
    code = "from ebmtut.cli import main; main(['list', '--json'])"
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    after = os.times()
    used = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    assert used < 2.0


def test_outside_a_checkout_it_lists_what_can_run(tmp_path):
    """The package alone, as a wheel brings it: no pages, no results."""
    package = Path(cli.__file__).parent
    shutil.copytree(package, tmp_path / "ebmtut")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("EBMTUT_RESULTS", None)
    listed = subprocess.run(
        [sys.executable, "-m", "ebmtut.cli", "list"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = {line.split()[0]: line for line in listed.splitlines() if line}
    for id in available():
        assert "can run" in lines[id]
    assert "can run: by `ebmtut run ID`" in listed


def test_run_stores_result_and_picture(work, capsys, tmp_path):
    words = ["run", "ed/window", "--scale", "full", "--seed", "3", "--device", "cpu"]
    assert cli.main([*words, "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    folder = tmp_path / "ed" / "window" / "full"
    assert str(folder / "result.json") in out
    assert str(folder / "figure.png") in out
    assert "match           mean of the points" in out
    assert (folder / "figure.png").read_bytes().startswith(PNG)

    (call,) = work.calls
    assert call == {"config": Config(9), "seed": 3, "device": "cpu"}
    result = load_result("ed/window", "full", tmp_path)
    assert result.provenance.seed == 3
    assert result.arrays["values"].shape == (9,)
    assert not (tmp_path / ".tmp").exists()

    assert cli.main(["list", "--json", "--results", str(tmp_path)]) == 0
    entries = {entry["id"]: entry for entry in json.loads(capsys.readouterr().out)}
    at = entries["ed/window"]["scales"]["full"]
    assert at["state"] == "stored"
    assert [verdict["verdict"] for verdict in at["verdicts"]] == ["match"]


def test_redraw_computes_nothing(work, tmp_path, monkeypatch):
    words = ["run", "ed/window", "--results", str(tmp_path)]
    assert cli.main(words) == 0
    folder = tmp_path / "ed" / "window" / "quick"
    (folder / "figure.png").unlink()
    stricter = [claim("mean of the points", 0.5, "at least", 2.0)]
    monkeypatch.setattr(work, "check", lambda result: stricter)
    before = load_result("ed/window", "quick", tmp_path)
    assert cli.main([*words, "--redraw"]) == 0
    assert len(work.calls) == 1
    assert (folder / "figure.png").is_file()
    after = load_result("ed/window", "quick", tmp_path)
    assert after.scalars["verdicts"][0]["verdict"] == "miss"
    assert after.provenance == before.provenance
    assert np.array_equal(after.arrays["values"], before.arrays["values"])


def test_a_killed_run_leaves_the_old_result_and_goes_on(work, tmp_path, capsys):
    words = ["run", "ed/window", "--quiet", "--results", str(tmp_path)]
    work.fails = True
    assert cli.main(words) == 130
    assert capsys.readouterr().err.count("\n") == 1
    kept = work.kept
    assert kept.is_file()
    assert not (tmp_path / "ed" / "window" / "quick").exists()
    work.fails = False
    assert cli.main(words) == 0
    assert work.kept == kept
    assert not kept.parent.exists()
    assert cli.main([*words, "--seed", "1"]) == 0
    assert work.kept != kept


def test_the_same_run_is_not_made_twice_at_once(work, tmp_path, capsys):
    words = ("run", "ed/window", "--quiet", "--results", str(tmp_path))
    kept = tmp_path / ".tmp" / "ed-window-quick-seed0"
    kept.mkdir(parents=True)
    with FileLock(kept / ".lock"):
        assert "is at work in" in refused(capsys, *words)
        assert not work.calls
        assert cli.main([*words, "--seed", "1"]) == 0
    assert cli.main(words) == 0
    assert not kept.exists()


def test_a_time_limit_ends_a_run_that_goes_on_later(work, tmp_path, capsys):
    words = ["run", "ed/window", "--results", str(tmp_path), "--time-limit"]
    line = refused(capsys, *words, "soon")
    assert "--time-limit must be a number >= 0, got 'soon'" in line
    assert cli.main([*words, "0"]) == cli.OUT_OF_TIME
    assert "the same command goes on from there" in capsys.readouterr().err
    assert not work.calls
    assert cli.main([*words, "10"]) == 0
    assert load_result("ed/window", "quick", tmp_path).scalars["mean"] > 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--scale", "paper"], "scale of ed/window must be one of quick, full;"),
        (["--scale", "huge"], "got 'huge'"),
        (["--device", "tpu"], "device must be one of auto, cpu, cuda; got 'tpu'"),
        (["--cuda-graph"], "--cuda-graph must be False for ed/window, which has no"),
        (["--seed", "-1"], f"seed must be an integer in [0, {2**62}], got -1"),
        (["--seed", "1.5"], f"seed must be an integer in [0, {2**62}], got '1.5'"),
        (["--seed", str(10**20)], f"in [0, {2**62}], got {10**20}"),
        (["--seed", str(2**62 + 1)], f"in [0, {2**62}], got {2**62 + 1}"),
    ],
)
def test_bad_values_are_refused_before_any_work(words, line, work, capsys, tmp_path):
    root = tmp_path / "results"
    words = ["run", "ed/window", "--results", str(root), *words]
    assert line in refused(capsys, *words)
    assert not work.calls
    assert not root.exists()


@pytest.mark.parametrize("words", [["gather"], ["list", "--results"]])
@pytest.mark.parametrize("name", ["file", "n" * 300])
def test_folders_that_cannot_be_are_one_line(words, name, capsys, tmp_path):
    (tmp_path / "file").touch()
    if words == ["list", "--results"] and name == "file":
        pytest.skip("no results there, as in a folder that is not there yet")
    assert name in refused(capsys, *words, str(tmp_path / name))
    with pytest.raises(SystemExit):
        cli.main([*words, ""])
    with pytest.raises(SystemExit):
        cli.main(["sweep", "page.ipynb", "--out", ""])


def test_notebooks_refuse_wrong_values_before_any_work(tmp_path):
    assert check_parameters(3, "cpu", "") == "cpu"
    assert check_parameters(3, "cpu", str(tmp_path / "new")) == "cpu"
    assert (tmp_path / "new").is_dir()
    blocked = tmp_path / "file"
    blocked.touch()
    for seed, device, folder, words in (
        (2**64, "cpu", "", "seed must be"),
        (-1, "cpu", "", "seed must be"),
        (0, "tpu", "", "device must be"),
        (0, "cpu", None, "results_dir must be"),
        (0, "cpu", str(blocked / "below"), "file/below"),
    ):
        with pytest.raises(InputError, match=words):
            check_parameters(seed, device, folder)


def test_data_says_where_files_are(capsys, tmp_path, monkeypatch):
    content = b"three bytes"
    digest = hashlib.sha256(content).hexdigest()
    names = ("here", "kept", "broken", "absent")
    files = tuple(RemoteFile(f"toy/{name}", ("http://x",), digest) for name in names)
    files += (RemoteFile("toy/local", (), digest),)
    monkeypatch.setattr("ebmtut.data.DATASETS", {"toy": files})
    for variable, name, held in (
        ("EBMTUT_DATA", "here", content),
        ("EBMTUT_CACHE", "kept", content),
        ("EBMTUT_CACHE", "broken", b"four"),
    ):
        folder = tmp_path / variable
        monkeypatch.setenv(variable, str(folder))
        (folder / "toy").mkdir(parents=True, exist_ok=True)
        (folder / "toy" / name).write_bytes(held)
    assert cli.main(["data"]) == 0
    out = capsys.readouterr().out
    found = dict(line.split(maxsplit=1) for line in out.splitlines() if "toy/" in line)
    assert found == {
        "toy/here": "in EBMTUT_DATA",
        "toy/kept": "in cache",
        "toy/broken": "in cache, damaged (wrong SHA-256)",
        "toy/absent": "missing",
        "toy/local": "missing, cannot be downloaded",
    }
    assert str(tmp_path / "EBMTUT_CACHE") in out
    assert "checkerboard" in out


def test_what_ends_a_run_is_one_line(work, tmp_path, monkeypatch, capsys):
    run = ("run", "ed/window", "--quiet", "--results", str(tmp_path))

    def fails(error):
        def job(*args, **options):
            raise error

        monkeypatch.setattr(work, "job", job)

    assert (cli.NO_MODULE, cli.NO_DATA) == (gpu.NO_MODULE, gpu.NO_DATA)
    for error, told, code in (
        (OSError(errno.ENOSPC, "No space left on device", "x.npz"), "No space left", 2),
        (ImportError("this needs POT"), r"'ebmtut[NAME]'", 69),
        (DataUnavailable("x.zip: put it at /data"), ": x.zip: put it at", cli.NO_DATA),
        (DivergenceError("nan at step 7", step=7), ": nan at step 7\n", cli.DIVERGED),
        (ModuleNotFoundError("No module named 'ot'", name="ot"), "No module named", 69),
    ):
        fails(error)
        assert told in refused(capsys, *run, code=code)
    for bug in (OSError(errno.EBADF, "odd"), ImportError("odd", name="ebmtut.odd")):
        fails(bug)
        with pytest.raises(type(bug), match="odd"):
            cli.main(list(run))


def test_a_damaged_row_is_marked_and_the_others_listed(tmp_path, capsys):
    path = tmp_path / "ed" / "window" / "full" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text("{", "utf-8")
    assert cli.main(["list", "--results", str(tmp_path)]) == 0
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert "holds no readable result" in line
    rows = {row.split()[0]: row for row in told.out.splitlines() if "/" in row}
    assert "damaged" in rows["ed/window"] and len(rows) > 30
