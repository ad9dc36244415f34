"""The API pages link back to the pages of the book that use a name."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.api_pages import collect, links, write_pages
from tools.backlinks import code_names, role_names, used_names
from tools.paths import BOOK

CHAPTER = BOOK / "ed"


@pytest.fixture(scope="module")
def pages():
    return collect()


@pytest.fixture(scope="module")
def used_in(pages):
    return links(pages)


@pytest.fixture
def small_book(tmp_path):
    """A page of text, a chapter of two notebooks, and what is no page of its own."""
    book = tmp_path / "book"
    (book / "chapter").mkdir(parents=True)
    (book / "api").mkdir()
    role = "See {py:func}`~ebmtut.states.one_hot`."
    (book / "using.md").write_text(role, "utf-8")
    (book / "api" / "index.md").write_text(role, "utf-8")
    for name, cells in {
        "again": [new_code_cell("from ebmtut.states import gray_encode")],
        "index": [
            new_markdown_cell("By {py:meth}`drawing <ebmtut.losses.Grid.negatives>`."),
            new_code_cell("from ebmtut import states\nfrom ebmtut.losses import Grid"),
            new_code_cell("states.gray_encode(x, 1.0).sum()"),
        ],
    }.items():
        nbformat.write(new_notebook(cells=cells), book / "chapter" / f"{name}.ipynb")
    return book


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{py:func}`ebmtut.states.one_hot`", {"ebmtut.states.one_hot"}),
        ("{py:class}`~ebmtut.losses.Grid`s", {"ebmtut.losses.Grid"}),
        ("{py:func}`the code <ebmtut.states.one_hot>`", {"ebmtut.states.one_hot"}),
        ("{py:func}`~torch.nn.functional.fold`, `ebmtut.states`", set()),
    ],
)
def test_roles_of_a_text(text, names):
    assert role_names(text) == names


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["from ebmtut.a import b, c as d\nd.e(b)"], {"a.b", "a.c", "a.c.e"}),
        (["from ebmtut import a", "a.b(1).c"], {"a", "a.b"}),
        (["import ebmtut.a.b as c", "c.d"], {"a.b", "a.b.d"}),
        (["import numpy as np\nfrom torch import nn", "np.a, nn.b"], set()),
    ],
)
def test_names_of_the_code(cells, names):
    assert code_names(cells) == {f"ebmtut.{name}" for name in names}


def test_an_import_of_the_whole_package():
    assert "ebmtut.a.b" in code_names(["import ebmtut.a", "ebmtut.a.b"])


def test_pages_in_the_order_of_a_chapter(small_book):
    assert list(used_names(small_book)) == [
        "/book/using",
        "/book/chapter/index",
        "/book/chapter/again",
    ]


def test_entries_say_where_they_are_used(small_book, tmp_path):
    def written(folder):
        return {f.stem: f.read_text("utf-8") for f in write_pages(folder, small_book)}

    pages = written(tmp_path / "one")
    entries = {
        ("states", "autofunction:: one_hot"): ["using"],
        # By an attribute of the module in one notebook, by its name in the other.
        ("states", "autofunction:: gray_encode"): ["chapter/index", "chapter/again"],
        # By its method.
        ("losses", "autoclass:: Grid"): ["chapter/index"],
        ("states", "automodule:: ebmtut.states"): ["chapter/index"],
        ("states", "autofunction:: gray_decode"): [],
        ("losses", "automodule:: ebmtut.losses"): [],
    }
    for (page, directive), documents in entries.items():
        links = ", ".join(f":doc:`/book/{document}`" for document in documents)
        found = re.findall(r"Used in: (.*)\.", entry(pages[page], directive))
        assert found == ([links] if documents else [])
    assert sum(text.count("Used in") for text in pages.values()) == 4
    assert written(tmp_path / "two") == pages


def entry(text, directive):
    """Text of one entry: up to the next one, or a module's up to its table."""
    _, after = text.split(f".. {directive}\n")
    return re.split(r"\n\.\. (?!currentmodule)", after)[0]


@pytest.mark.parametrize("page", sorted(CHAPTER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_what_a_page_names_leads_back_to_it(page, pages, used_in):
    text = page.read_text("utf-8")
    public = {
        f"{m}.{n}" for p in pages for m, names in p.modules.items() for n in names
    }
    named = set(re.findall(r"\{py:\w+\}`~?(ebmtut[\w.]+)`", text)) & public
    for module, names in re.findall(r'"from (ebmtut\.\S+) import ([\w, ]+)', text):
        named |= {f"{module}.{name}" for name in names.split(", ")} & public
    assert len(named) >= 10
    document = f"/book/{page.relative_to(BOOK).with_suffix('').as_posix()}"
    assert {n for n in named if document not in used_in.get(n, [])} == set()
