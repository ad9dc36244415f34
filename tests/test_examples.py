"""Examples in docstrings run and print what they say."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import ebmtut
from tools import api_pages

FOLDER = Path(ebmtut.__file__).parent
PACKAGES = "energies exact flows losses message_passing metrics samplers transport"
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


def test_an_entry_point_has_an_example_where_a_page_teaches_it():
    """What has an example leads to its page, and what a page teaches has an example."""
    pages, with_both, wrong = api_pages.lessons(), 0, []
    for package in PACKAGES.split():
        module = importlib.import_module(f"ebmtut.{package}")
        for name in module.__all__:
            if not callable(value := getattr(module, name)):
                continue
            example = ">>>" in (inspect.getdoc(value) or "")
            taught = api_pages.lesson_of(name, pages) is not None
            with_both += example and taught
            if example != taught:
                wrong.append(f"{package}.{name}")
    assert not wrong, wrong
    assert with_both >= 100


def test_pages_that_explain_are_there():
    labels = {page.label for page in api_pages.lessons()}
    assert api_pages.EXPLAINED_IN.keys() <= labels


def test_a_wrong_example_is_caught():
    parser = doctest.DocTestParser()
    test = parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=lambda text: None)
    assert runner.failures == 1
