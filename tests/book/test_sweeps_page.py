"""What the page of sweeps says of many models in one process was measured."""

import re

import pytest

from ebmtut.cli import main
from ebmtut.experiments.growth import load_report
from tools.paths import BOOK, ROOT

TEXT = (BOOK / "sweeps.md").read_text("utf-8")
PAGE = " ".join(TEXT.split())
SLIPS = re.findall(r"^\$ ebmtut (sweep .+)\n(ebmtut: .+)$", TEXT, re.MULTILINE)
WAYS = ("a process a model", "one by one", "one batch")


@pytest.mark.parametrize(("command", "answer"), SLIPS)
def test_a_slip_is_answered_as_the_page_says(command, answer, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 2
    assert capsys.readouterr().err.strip() == answer


def test_the_page_says_what_was_stored():
    (row,) = load_report("ensemble")["rows"]
    assert (row["models"], row["steps"], row["M"]) == (8, 60, 1)
    apart, _, batch = (row["all"][way] for way in WAYS)
    memory = {way: mib / 1024 for way, mib in row["MiB"].items()}
    assert f"60 steps each took {batch:.1f} CPU seconds instead of {apart:.0f}" in PAGE
    assert f"{memory[WAYS[2]]:.2f} GiB instead of {memory[WAYS[0]]:.1f}" in PAGE
    step = load_report("gpu_rates")["training"]
    times = f"{step['replayed']:.1f} ms instead of {step['step by step']:.0f} ms"
    assert f"a step of {step['models']} models" in PAGE and times in PAGE


def test_the_batch_spares_processes_and_nothing_else():
    for row in load_report("ensemble")["rows"]:
        apart, alone, batch = (row["all"][way] for way in WAYS)
        assert apart > 3 * alone
        assert alone == pytest.approx(batch, rel=0.1)
        assert row["losses apart in 20 steps"] < 1e-6
