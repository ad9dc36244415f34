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


def test_a_row_that_lacks_its_photographs_says_so(tmp_path, monkeypatch):
    """The very command of the plan, but for the device, in a step's surroundings."""
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EBMTUT_DATA", raising=False)
    monkeypatch.delenv("EBMTUT_OFFLINE", raising=False)
    (fid,) = (s for s in gpu.plan(tmp_path) if s.name == "drl-fid-paper")
    assert fid.instead.name == "drl-fid-full" and fid.instead.instead is None
    command = tuple("cpu" if word == "cuda" else word for word in fid.command)
    done = run([Step("fid", command, fid.limit)], tmp_path, minutes=5)
    assert states(done) == {"fid": gpu.NO_DATA}
    log = (tmp_path / "fid.log").read_text()
    assert log.count("\n") == 1 and "downloads are off: put it at" in log


def test_without_the_module_that_knows_the_cache_there_is_one(tmp_path, monkeypatch):
    monkeypatch.delenv("EBMTUT_CACHE", raising=False)
    monkeypatch.setenv("EBMTUT_OFFLINE", "0")
    monkeypatch.setattr(gpu, "find_spec", lambda name: name)
    assert "EBMTUT_CACHE" not in gpu.environment_of_steps(tmp_path)
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    environment = gpu.environment_of_steps(tmp_path)
    assert environment["EBMTUT_CACHE"] == str(tmp_path / "data")
    assert environment["EBMTUT_OFFLINE"] == "0"


def test_minutes_are_checked(capsys):
    with pytest.raises(SystemExit):
        main(["--minutes", "0"])
    assert "--minutes must be above 0, got 0" in capsys.readouterr().err
