"""Which pages of the book use which names of the package: the API's way back to them.

A page uses what its text links to by a role (``{py:func}`ebmtut.states.one_hot```) and
what its code imports, be it by itself or as an attribute of an imported module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

from tools.paths import BOOK, book_notebooks

__all__ = ["code_names", "role_names", "used_names"]

PACKAGE = "ebmtut"

# {py:func}`~ebmtut.a.b` and {py:func}`text <ebmtut.a.b>`
ROLE = re.compile(rf"\{{py:\w+\}}`(?:[^`<]*<)?~?({PACKAGE}(?:\.\w+)+)>?`")


def used_names(book: Path = BOOK) -> dict[str, set[str]]:
    """Find the dotted names that each page uses.

    Parameters
    ----------
    book
        The folder of the pages; those of the API itself are left out.

    Returns
    -------
    dict of str to set of str
        By document, such as ``/book/using``: chapter by chapter, the first page of
        each before the others.
    """
    pages = [*book_notebooks(book.parent), *book.glob("*.md"), *book.glob("[!_]*/*.md")]
    order = sorted(pages, key=lambda path: (path.parent, path.stem != "index", path))
    return {
        f"/{path.relative_to(book.parent).with_suffix('').as_posix()}": _names(path)
        for path in order
        if path.parent != book / "api"
    }


def role_names(text: str) -> set[str]:
    """Return the dotted names to which a text in MyST links by a role."""
    return set(ROLE.findall(text))


def code_names(sources: Iterable[str]) -> set[str]:
    """Return the dotted names that the cells of one notebook import or reach.

    Parameters
    ----------
    sources
        The cells, in order; a module imported in one is known in the others.
    """
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    known = dict(pair for node in nodes for pair in _imports(node))
    reached = (_path(node) for node in nodes if isinstance(node, ast.Attribute))
    return set(known.values()) | {
        ".".join([known[first], *rest]) for first, *rest in reached if first in known
    }


def _names(page: Path) -> set[str]:
    if page.suffix == ".md":
        return role_names(page.read_text("utf-8"))
    notebook = nbformat.read(page, as_version=4)
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return role_names("\n".join(text)) | code_names(code)


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what an import of the package binds: the name here and the dotted one."""
    if isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
    if isinstance(node, ast.Import):
        for alias in node.names:
            if _is_ours(alias.name):
                yield alias.asname or PACKAGE, alias.name if alias.asname else PACKAGE


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def _path(node: ast.expr) -> list[str]:
    """Return the parts of a.b.c; the first is empty if it is no plain name."""
    if isinstance(node, ast.Attribute):
        return [*_path(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]
