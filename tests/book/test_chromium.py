"""A Chromium is found, else installed, else one line says how to get one."""

import subprocess
from pathlib import Path

import pytest

from tools import chromium


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the only folder on PATH, empty, on a machine without Playwright's own."""
    monkeypatch.delenv("EBMTUT_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "_of_playwright", lambda: str(tmp_path / "none"))
    return tmp_path


def put_binary(path: Path, code: int = 0) -> str:
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def record_commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let commands do nothing but be noted; binaries still run with --version."""
    run, commands = subprocess.run, []

    def noted(command, **options):  # type: ignore[no-untyped-def]
        if command[1:] == ["--version"]:
            return run(command, **options)
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", noted)
    return commands


def test_the_one_asked_for_comes_first(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = put_binary(bare / "chromium")
    assert chromium.find_chromium() == on_path
    chosen = put_binary(bare / "mine")
    monkeypatch.setenv("EBMTUT_CHROMIUM", chosen)
    assert chromium.find_chromium() == chosen


def test_one_that_does_not_run_is_passed_over(bare: Path) -> None:
    put_binary(bare / "chromium", code=1)
    other = put_binary(bare / "google-chrome")
    assert chromium.find_chromium() == other


def test_a_wrong_wish_is_one_line(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EBMTUT_CHROMIUM", "/nowhere/chrome")
    assert chromium.main() == 1
    message = capsys.readouterr().err
    assert "EBMTUT_CHROMIUM='/nowhere/chrome'" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("root", "debian", "expected"),
    [
        (True, True, ["apt-get"]),
        (True, False, ["playwright", "--with-deps"]),
        (False, True, ["playwright"]),
    ],
)
def test_failed_installation_says_how(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    root: bool,
    debian: bool,
    expected: list[str],
) -> None:
    put_binary(bare / "apt-get")
    monkeypatch.setattr(chromium.os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(chromium, "_is_debian", lambda: debian)
    commands = record_commands(monkeypatch)
    with pytest.raises(chromium.NoChromiumError) as caught:
        chromium.install_chromium()
    assert all(word in commands[-1] for word in expected)
    assert "EBMTUT_CHROMIUM" in str(caught.value)
    assert "\n" not in str(caught.value)
