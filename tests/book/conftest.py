"""The executed notebooks, the built book and the browser, each made once at most.

`make test` executes and builds first and says where by EBMTUT_EXECUTED and
EBMTUT_HTML. Without them, what lies in _build serves as long as nothing that it was
made from has changed since; else it is made anew, in a temporary folder.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.chromium import NoChromiumError
from tools.compare import is_fresh
from tools.execute import execute_all
from tools.pages import open_browser
from tools.paths import BOOK, EXECUTED, HTML, ROOT, book_notebooks
from tools.render import render

Executed = Callable[[Path], Path]


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """Return a function: notebook -> its copy executed with its defaults."""
    given = os.environ.get("EBMTUT_EXECUTED")
    made_here = tmp_path_factory.mktemp("executed")

    def copy_of(notebook):
        name = notebook.relative_to(ROOT)
        if given and (copy := ROOT / given / name).is_file():
            return copy
        copy = EXECUTED / name
        if not given and is_fresh(copy, notebook, ROOT / "src", ROOT / "results"):
            return copy
        copy = made_here / name
        if not copy.is_file():
            execute_all(out_dir=made_here, notebooks=[notebook])
        return copy

    return copy_of


@pytest.fixture(scope="session")
def html(executed, tmp_path_factory):
    given = os.environ.get("EBMTUT_HTML")
    if given and (ROOT / given / "index.html").is_file():
        return ROOT / given
    sources = [ROOT / name for name in ("_config.yml", "_toc.yml", "src", "results")]
    if not given and is_fresh(HTML / "index.html", BOOK, *sources):
        return HTML
    folder = tmp_path_factory.mktemp("book")
    for notebook in book_notebooks():
        target = folder / "executed" / notebook.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(executed(notebook).read_bytes())
    return render(folder / "executed", folder / "html").parent


@pytest.fixture(scope="session")
def pages(html):
    """Return every page a reader can get to, the API's among them."""
    found = sorted((html / "book").rglob("*.html"))
    return [page.relative_to(html).as_posix() for page in found]


@pytest.fixture(scope="session")
def browser():
    """Return a Chromium; found, else installed, else the tests fail and say how."""
    try:
        with open_browser() as chromium:
            yield chromium
    except NoChromiumError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
