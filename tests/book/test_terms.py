"""The repository uses the field's words, by the table of terms in book/style.md.

Files that do not yet are listed in not_yet_plain.txt, which may only become shorter.
"""

import pytest

from tools import terms as tool
from tools.paths import ROOT
from tools.prose import CHAPTERS
from tools.terms import places, read_list, searched_files, terms


@pytest.fixture(scope="module")
def counts():
    return tool.count()


def test_files_use_the_terms_of_the_table(counts):
    known = read_list()
    wrong = {
        name: f"{number} places, at most {known.get(name, 0)}"
        for name, number in counts.items()
        if number > known.get(name, 0)
    }
    assert not wrong, f"python -m tools.terms FILE shows the places of: {wrong}"


# They select by the keys of stored results, which keep their names.
BY_STORED_KEYS = {"book/drl/images.ipynb", "book/drl/two_dimensional.ipynb"}


def test_story_pages_are_not_on_the_list():
    folders = tuple(f"book/{chapter}/" for chapter in CHAPTERS)
    listed = {
        name
        for name in read_list()
        if name.startswith(folders) and not name.endswith("/notes.ipynb")
    }
    assert listed <= BY_STORED_KEYS


def test_the_table_is_read():
    phrases = {term.phrase for term in terms()}
    assert {"law", "rival", "told from", "knob", "normed"} <= phrases
    assert len(phrases) == len(terms())
    assert all(term.instead for term in terms())
    names = {path.relative_to(ROOT).as_posix() for path in searched_files()}
    assert {"README.md", "src/ebmtut/cli.py", "book/ed/index.ipynb"} <= names


def found(text):
    return [place.term.phrase for place in places(text)]


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.phrase)
def test_every_term_is_caught(term):
    assert found(f"Here stands {term.phrase.upper()}, where it should not.") == [
        term.phrase
    ]
    for allowed in term.allowed:
        assert not found(f"This is a {allowed} and is allowed.")
