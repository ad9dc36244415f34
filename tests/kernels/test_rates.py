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
