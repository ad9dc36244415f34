"""The script that will measure rates runs through, on sizes that measure nothing."""

import json
import os
import subprocess
import sys

from tools.paths import ROOT


def test_the_script_runs_through(tmp_path):
    file = tmp_path / "rates.json"
    options = ("--small", "--device", "cpu", "--json", str(file))
    script = ROOT / "benchmarks" / "gpu_rates.py"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = [sys.executable, script, *options]
    assert subprocess.run(run, env=environment).returncode == 0
    report = json.loads(file.read_text("utf-8"))
    assert report["device"] == "interpreter"
    assert len(report["rows"]) == 12
    assert all(row["kernel"] > 0 < row["part of bound"] for row in report["rows"])
    assert all(row["torch"] > 0 for row in report["rows"])
    # What is there is not measured again.
    del report["rows"][-1]
    file.write_text(json.dumps(report), "utf-8")
    again = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert again.returncode == 0
    assert again.stdout.count(" torch ") == 1 and "training" not in again.stdout
    assert len(json.loads(file.read_text("utf-8"))["rows"]) == 12
