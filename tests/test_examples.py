"""Examples in docstrings run and print what they say."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import ebmtut

FOLDER = Path(ebmtut.__file__).parent
PACKAGES = (
    "energies",
    "exact",
    "flows",
    "losses",
    "message_passing",
    "metrics",
    "samplers",
    "transport",
)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules_with_examples():
    names = []
    for path in sorted(FOLDER.rglob("*.py")):
        name = path.relative_to(FOLDER.parent).with_suffix("")
        if "experiments" not in name.parts and ">>>" in path.read_text("utf-8"):
            names.append(".".join(name.parts))
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name):
    tests = doctest.DocTestFinder(exclude_empty=True).find(
        importlib.import_module(name)
    )
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    found: list[str] = []
    for test in tests:
        runner.run(test, out=found.append)
    assert runner.tries
    assert not runner.failures, "".join(found)


def test_entry_points_have_examples():
    """Each package has examples at the names with which readers begin."""
    counts = {}
    for package in PACKAGES:
        module = importlib.import_module(f"ebmtut.{package}")
        docs = [inspect.getdoc(getattr(module, name)) or "" for name in module.__all__]
        counts[package] = sum(">>>" in doc for doc in docs)
    assert min(counts.values()) >= 3, counts
    assert sum(counts.values()) >= 70, counts


def test_a_wrong_example_is_caught():
    parser = doctest.DocTestParser()
    test = parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=lambda text: None)
    assert runner.failures == 1
