"""The GPU's plan is kept to: in order, resumed, within its time, honest without one."""

import json
import sys

import pytest
import torch

from tools import gpu
from tools.gpu import Step, main, run_plan


def step(name, code, limit=""):
    return Step(name, (sys.executable, "-c", code), limit)


def states(done):
    return {name: record.code for name, record in done.items()}


def run(steps, out, minutes=1.0, commit="abc"):
    return run_plan(steps, out, minutes, commit, "a device")


def test_steps_run_once_and_failures_are_kept(tmp_path):
    steps = [step("good", "print('well')"), step("bad", "raise SystemExit(5)")]
    assert states(run(steps, tmp_path)) == {"good": 0, "bad": 5}
    assert (tmp_path / "good.log").read_text() == "well\n"
    record = json.loads((tmp_path / "bad.step.json").read_text())
    assert (record["commit"], record["device"]) == ("abc", "a device")
    (tmp_path / "good.log").unlink()
    assert states(run(steps, tmp_path)) == {"good": 0, "bad": 5}
    assert not (tmp_path / "good.log").exists()
    run(steps, tmp_path, commit="def")  # other code: all anew
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


def test_missing_modules_are_named(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "NEEDED", ("torch", "no_such_module"))
    assert main([]) == 2
    assert capsys.readouterr().err == "tools.gpu: missing modules: no_such_module\n"


def test_a_slice_is_packed_and_gone_on_with_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(gpu, "plan", lambda out: [step("one", ""), step("two", "")])
    assert main(["--out", str(tmp_path / "here")]) == 0
    zipped = str(tmp_path / "here" / "gpu.zip")
    assert main(["--out", str(tmp_path / "there"), "--resume", zipped, "--list"]) == 0
    assert capsys.readouterr().out.count("done,") == 4
    monkeypatch.setattr(gpu, "plan", lambda out: [step("bad", "raise SystemExit(1)")])
    assert main(["--out", str(tmp_path / "there")]) == 1


def test_the_plan_runs_rows_that_say_so(tmp_path):
    steps = gpu.plan(tmp_path)
    assert [s.name for s in steps[:3]] == ["tests", "rates", "ed-densities-paper"]
    assert "tests/kernels" in steps[0].command
    assert "tests/energies/test_mlp.py" in steps[0].command
    runs = [s for s in steps if s.limit]
    assert all("cuda" in s.command for s in runs)
    assert len({s.name for s in steps}) == len(steps)
    # What can be gone on with in the next slice comes before what cannot.
    names = [s.name for s in runs]
    assert names.index("dnfs-max-cut-paper") < names.index("pmp-deconvolution-paper")
    batched = [s.name for s in runs if "--batch" in s.command]
    assert batched[:2] == ["ed-densities-paper", "ed-densities-table-paper"]
    assert "ed-ising-rmse-paper" not in batched


def test_minutes_are_checked(capsys):
    with pytest.raises(SystemExit):
        main(["--minutes", "0"])
    assert "--minutes must be above 0, got 0" in capsys.readouterr().err
