"""Provenance: complete, of this checkout, and without the machine's folders."""

import json
import subprocess
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from ebmtut.results import collect_provenance, to_json
from ebmtut.results import provenance as module


def test_says_what_made_a_result(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/someone/bin/ebmtut", "run", "ed/epsilon"])
    found = collect_provenance(seed=4, started=time.time() - 2.0)
    assert found.command == "ebmtut run ed/epsilon"
    assert found.seed == 4
    assert 2.0 <= found.duration_s < 60.0
    assert datetime.fromisoformat(found.started).tzinfo is not None
    assert {"python", "ebmtut", "torch", "numpy"} <= set(found.versions)
    assert found.device.startswith("cpu (")
    assert json.loads(json.dumps(to_json(found))) == asdict(found)


def test_names_no_folder_of_the_machine():
    found = collect_provenance(
        seed=None,
        command="/opt/venv/bin/ebmtut run ed/epsilon --out /home/me/x --data=/srv/d y",
        parameters={"out": Path("/home/me/x"), "more": ["/srv/d", "a/b", 3]},
    )
    assert found.command == "ebmtut run ed/epsilon --out x --data=d y"
    assert found.parameters == {"out": "x", "more": ["d", "a/b", 3]}
    text = json.dumps(to_json(found))
    for folder in ("/home", "/srv", "/opt", str(Path.cwd()), str(Path.home())):
        assert f'"{folder}' not in text
        assert f"{folder}/" not in text


def git(root, *words):
    config = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(root), *config, *words], check=True)


def test_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    package = tmp_path / "src" / "ebmtut"
    file = package / "results" / "provenance.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    monkeypatch.setattr(module, "__file__", str(file))
    assert module.git_commit() == "unknown"

    git(tmp_path, "init", "-q")
    assert module.git_commit() == "unknown"  # no commit yet
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = module.git_commit()
    assert len(clean) == 40
    (tmp_path / "results.json").write_text("{}")
    assert module.git_commit() == clean
    file.write_text("x = 2\n")
    assert module.git_commit() == f"{clean}-dirty"


def test_an_installed_copy_inside_another_repository_is_unknown(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    file = tmp_path / "lib" / "ebmtut" / "results" / "provenance.py"
    monkeypatch.setattr(module, "__file__", str(file))
    assert module.git_commit() == "unknown"


def test_without_git_it_is_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert module.git_commit() == "unknown"
