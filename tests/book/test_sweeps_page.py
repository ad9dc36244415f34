"""What the page of sweeps says of many models in one process was measured."""

import re

import pytest

from ebmtut.cli import main
from ebmtut.experiments.growth import load_report
from tools.paths import BOOK, ROOT

TEXT = (BOOK / "sweeps.md").read_text("utf-8")
PAGE = " ".join(TEXT.split())
SLIPS = re.findall(r"^\$ ebmtut (sweep .+)\n(ebmtut: .+)$", TEXT, re.MULTILINE)
WAYS = {
    "a process a model": "with a process per model",
    "one by one": "one after the other in one process",
    "one batch": "as one batch",
}


@pytest.mark.parametrize(("command", "answer"), SLIPS)
def test_a_slip_is_answered_as_the_page_says(command, answer, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 2
    assert capsys.readouterr().err.strip() == answer


def test_the_page_says_what_was_stored():
    report = load_report("ensemble")
    for row in report["rows"]:
        assert row["models"] == 8
        parts = [
            f"{row['all'][way]:.1f} CPU seconds and {row['MiB'][way] / 1024:.2f} GiB "
            f"{words}"
            for way, words in WAYS.items()
        ]
        assert f"{parts[0]}, {parts[1]}, and {parts[2]}" in PAGE
        assert row["M"] == 1 and "one negative per data point" in PAGE
        assert f"{row['steps']} steps each" in PAGE
    assert report["rounds"] == 3 and "medians of three rounds" in PAGE


def test_the_batch_spares_processes_and_nothing_else():
    for row in load_report("ensemble")["rows"]:
        apart, alone, batch = (row["all"][way] for way in WAYS)
        assert apart > 3 * alone
        assert batch > 0.9 * alone
        assert row["losses apart in 20 steps"] < 1e-6
