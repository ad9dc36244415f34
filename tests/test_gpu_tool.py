"""The GPU's plan is kept to: in order, resumed, within its time, honest without one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from tools import gpu
from tools.gpu import Step, main, run_plan
from tools.paths import ROOT


def step(name, code, limit=""):
    return Step(name, (sys.executable, "-c", code), limit)


def states(done):
    return {name: record.code for name, record in done.items()}


def run(steps, out, minutes=1.0, source="abc"):
    return run_plan(steps, out, minutes, source, "a device")


def test_steps_run_once_and_failures_are_kept(tmp_path):
    steps = [step("good", "print('well')"), step("bad", "raise SystemExit(5)")]
    assert states(run(steps, tmp_path)) == {"good": 0, "bad": 5}
    assert (tmp_path / "good.log").read_text() == "well\n"
    record = json.loads((tmp_path / "bad.step.json").read_text())
    assert (record["source"], record["device"]) == ("abc", "a device")
    (tmp_path / "good.log").unlink()
    assert states(run(steps, tmp_path)) == {"good": 0, "bad": 5}
    assert not (tmp_path / "good.log").exists()
    run(steps, tmp_path, source="def")  # other code: all anew
    assert (tmp_path / "good.log").exists()


def test_what_was_cut_off_goes_on(tmp_path):
    """A step that stops by itself; its minutes leave it time to do so."""
    mark = tmp_path / "mark"
    code = (
        "import pathlib, sys; mark = pathlib.Path(sys.argv[1]); "
        "first = not mark.exists(); mark.touch(); print(sys.argv[2:]); "
        "sys.exit(124 if first else 0)"
    )
    steps = [Step("long", (sys.executable, "-c", code, str(mark)), "--time-limit")]
    out = tmp_path / "out"
    assert states(run(steps, out, 5)) == {"long": 124}
    option, minutes = eval((out / "long.log").read_text())
    assert option == "--time-limit" and 3.5 < float(minutes) < 4.01
    assert states(run(steps, out, 5)) == {"long": 0}


def test_a_step_is_stopped_when_the_time_is_over(tmp_path):
    steps = [step("sleeps", "import time; time.sleep(60)"), step("never", "")]
    done = run(steps, tmp_path, minutes=0.01)
    assert states(done) == {"sleeps": 124}
    assert done["sleeps"].seconds < 30


def test_without_a_gpu_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--out", str(tmp_path)]) == gpu.NO_GPU
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_slice_is_packed_and_gone_on_with_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(gpu, "plan", lambda out: [step("one", ""), step("two", "")])
    assert main(["--out", str(tmp_path / "here")]) == 0
    zipped = str(tmp_path / "here" / "gpu.zip")
    assert main(["--out", str(tmp_path / "there"), "--resume", zipped, "--list"]) == 0
    assert capsys.readouterr().out.count("done,") == 4
    # What is there already is newer than what is brought, and stays.
    record = tmp_path / "there" / "one.step.json"
    record.write_text(record.read_text().replace('"code": 0', '"code": 1'))
    assert main(["--out", str(tmp_path / "there"), "--resume", zipped]) == 1
    assert "has records already" in capsys.readouterr().out
    monkeypatch.setattr(gpu, "plan", lambda out: [step("bad", "raise SystemExit(1)")])
    assert main(["--out", str(tmp_path / "there")]) == 1


def test_checkpoints_travel_in_pieces(tmp_path, monkeypatch):
    """Beside what was found, which stays small."""
    monkeypatch.setattr(gpu, "_PIECE", 1000)
    here, there = tmp_path / "here", tmp_path / "there"
    for name, content in (("row/full/result.json", b"{}"), (".tmp/row/a", bytes(10))):
        (here / "results" / name).parent.mkdir(parents=True)
        (here / "results" / name).write_bytes(content)
    noise = np.random.default_rng(0).bytes(5000)  # which packing does not shorten
    (here / "results" / ".tmp" / "row" / "b").write_bytes(noise)
    (here / "gpu-begun.123").write_bytes(b"of another slice")
    gpu._pack(here)
    sizes = [piece.stat().st_size for piece in sorted(here.glob("gpu-begun.*"))]
    assert len(sizes) == 6 and max(sizes) == 1000
    assert (here / "gpu.zip").stat().st_size < 1000
    gpu._unpack(here / "gpu.zip", there)
    assert (there / "results" / "row" / "full" / "result.json").read_bytes() == b"{}"
    assert (there / "results" / ".tmp" / "row" / "b").read_bytes() == noise
    assert (there / "results" / ".tmp" / "row" / "a").read_bytes() == bytes(10)


@pytest.mark.parametrize("passed", [True, False])
def test_options_are_taken_once_their_tests_have_passed(passed, tmp_path):
    """The tests of recorded steps alone: another's failure says nothing of them."""
    code = "import sys; print(sys.argv[1:])"
    row = Step("row", (sys.executable, "-c", code), proven=("--cuda-graph",))
    recorded = gpu.test_step(gpu.RECORDED).name
    tests = [
        step(recorded, f"raise SystemExit({int(not passed)})"),
        step("tests-other", "1 / 0"),
    ]
    run([*tests, row], tmp_path)
    assert eval((tmp_path / "row.log").read_text()) == ["--cuda-graph"] * passed


def test_the_plan_is_made_where_the_package_is_not_installed(tmp_path):
    """By a Python that finds it nowhere, as on a machine that has a torch only."""
    bare = (
        "import sys; from pathlib import Path; sys.path[:] = "
        "[p for p in sys.path if not Path(p, 'ebmtut').is_dir()]; "
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
        "from importlib.util import find_spec; assert find_spec('ebmtut') is None; "
        "from tools.gpu import main; sys.exit(main(['--list']))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", bare],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tests-training-test_cuda_graph ")


def test_the_plan_runs_rows_that_say_so(tmp_path):
    steps = gpu.plan(tmp_path)
    tests = [s.command[-1] for s in steps if s.name.startswith("tests-")]
    kernels = [f"tests/kernels/test_{k}.py" for k in ("gibbs", "max_product")]
    assert tests[:3] == [gpu.RECORDED, *kernels]
    assert "tests/energies/test_contract.py" in tests
    assert "tests/kernels/test_rates.py" not in tests  # which has none for a GPU
    names = [s.name for s in steps[len(tests) : len(tests) + 2]]
    assert names == ["rates", "dnfs-networks-paper"]
    runs = [s for s in steps if s.limit]
    assert all("cuda" in s.command for s in runs)
    assert len({s.name for s in steps}) == len(steps)
    # What can be gone on with in the next slice comes before what cannot.
    names = [s.name for s in runs]
    assert names.index("dnfs-max-cut-paper") < names.index("pmp-deconvolution-paper")
    batched = [s.name for s in runs if "--batch" in s.command]
    proven = {s.name: s.proven for s in runs if s.proven}
    assert set(proven) <= set(batched)
    assert batched[:2] == ["ed-densities-table-paper", "ed-densities-paper"]
    assert proven[batched[0]] == ("--cuda-graph",)
    assert "ed-ising-rmse-paper" not in batched


def test_a_step_without_its_data_is_one_line_and_another_takes_its_place(
    tmp_path, monkeypatch, capsys
):
    """Its place, and no other: what has its data runs alone."""
    lacking = f"raise SystemExit({gpu.NO_DATA})"
    steps = [
        Step("a-paper", step("", lacking).command, instead=step("a-full", "")),
        Step("b-paper", step("", "").command, instead=step("b-full", "")),
        Step("c-paper", step("", lacking).command, instead=step("c-full", lacking)),
    ]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(gpu, "plan", lambda out: steps)
    done = ["a-paper", "a-full", "b-paper", "c-paper", "c-full"]
    for _ in range(2):
        assert main(["--out", str(tmp_path)]) == 0
        assert sorted(f.stem for f in tmp_path.glob("*.log")) == sorted(done)
    capsys.readouterr()
    assert main(["--out", str(tmp_path), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == done
    lacks = [line.split()[0] for line in lines if "data not at hand" in line]
    assert lacks == ["a-paper", "c-paper", "c-full"]
    # What takes a place counts like any other.
    needs = f"raise SystemExit({gpu.NO_MODULE})"
    steps[2] = Step("d-paper", step("", needs).command, instead=step("d-full", "1/0"))
    assert main(["--out", str(tmp_path)]) == 0  # a smaller preset needs it, too
    steps[2] = Step("e-paper", step("", lacking).command, instead=step("e-full", "1/0"))
    assert main(["--out", str(tmp_path)]) == 1
