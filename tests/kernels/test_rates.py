"""The script that will measure rates runs through, on sizes that measure nothing."""

import json
import os
import runpy
import sys

import pytest

from tools.paths import ROOT


@pytest.mark.skipif("TRITON_INTERPRET" not in os.environ, reason="a GPU measures them")
def test_the_script_runs_through(tmp_path, monkeypatch):
    file = tmp_path / "rates.json"
    script = str(ROOT / "benchmarks" / "gpu_rates.py")
    options = [script, "--small", "--device", "cpu", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", options)
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_path(script, run_name="__main__")
    report = json.loads(file.read_text("utf-8"))
    assert report["device"] == "interpreter"
    assert len(report["rows"]) == 12
    assert all(row["kernel"] > 0 < row["part of bound"] for row in report["rows"])
    assert all(row["torch"] > 0 for row in report["rows"])
