"""A Chromium is found, else installed, else one line says how to get one."""

import pytest

from tools import chromium


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """Return the only folder on PATH, empty, on a machine without Playwright's own."""
    monkeypatch.delenv("EBMTUT_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "_of_playwright", lambda: str(tmp_path / "none"))
    return tmp_path


def put_binary(path, code=0):
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_the_one_asked_for_comes_first(bare, monkeypatch):
    on_path = put_binary(bare / "chromium")
    assert chromium.find_chromium() == on_path
    chosen = put_binary(bare / "mine")
    monkeypatch.setenv("EBMTUT_CHROMIUM", chosen)
    assert chromium.find_chromium() == chosen


def test_a_wrong_wish_is_one_line(bare, monkeypatch, capsys):
    monkeypatch.setenv("EBMTUT_CHROMIUM", "/nowhere/chrome")
    assert chromium.main() == 1
    message = capsys.readouterr().err
    assert "EBMTUT_CHROMIUM='/nowhere/chrome'" in message
    assert message.count("\n") == 1
