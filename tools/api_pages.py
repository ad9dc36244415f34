"""Write the API pages: one for each top-level module or sub-package of ebmtut.

The pages follow the code and are made anew in the staged copy of the book, so that
none can be forgotten. Every name of an ``__all__`` appears once, under the shortest
path from which it can be imported, with links to the sections whose code uses it.

    python -m tools.api_pages _build/api            # write the pages
    python -m tools.api_pages --check _build/html   # is every public name there?
"""

import argparse
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.paths import HTML

__all__ = ["ApiError", "Page", "collect", "undocumented", "write_pages"]

PACKAGE = "ebmtut"


class ApiError(RuntimeError):
    """A public module cannot be documented."""


@dataclass
class Page:
    """A page and, for each of its modules, the names documented there."""

    name: str
    modules: dict[str, list[str]] = field(default_factory=dict)


def collect() -> list[Page]:
    """Find what each page documents; experiments and kernels are no API.

    Returns
    -------
    list of Page
        In alphabetical order.

    Raises
    ------
    ApiError
        If a public module has no ``__all__`` or no docstring, or names something
        that it does not have.
    """
    root = importlib.import_module(PACKAGE)
    pages = []
    for found in sorted(pkgutil.iter_modules(root.__path__), key=lambda f: f.name):
        if found.name.startswith("_"):
            continue
        page = Page(found.name)
        shown: set[int] = set()
        for module in _walk(f"{PACKAGE}.{found.name}"):
            names = [n for n in _public(module) if id(getattr(module, n)) not in shown]
            shown |= {id(getattr(module, name)) for name in names}
            if names or module.__name__.count(".") == 1:
                page.modules[module.__name__] = names
        pages.append(page)
    return pages


def write_pages(folder: Path) -> list[Path]:
    """Write one MyST page for each `Page`.

    Parameters
    ----------
    folder
        Where to write; made if need be.

    Returns
    -------
    list of Path
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for page in collect():
        parts = [f"(api-{page.name})=\n# {PACKAGE}.{page.name}\n"]
        for module, names in page.modules.items():
            if module != f"{PACKAGE}.{page.name}":
                parts.append(f"## {module}\n")
            parts.append(f"```{{eval-rst}}\n{_directives(module, names)}```\n")
        file = folder / f"{page.name}.md"
        file.write_text("\n".join(parts), "utf-8")
        files.append(file)
    return files


def undocumented(html: Path) -> list[str]:
    """Public names that the rendered book's inventory does not have.

    Parameters
    ----------
    html
        A rendered book, with ``objects.inv``.

    Returns
    -------
    list of str
        Full names; empty if the reference is complete.
    """
    from sphinx.util.inventory import InventoryFile

    with (html / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, target: target)
    known = {
        name
        for domain, entries in inventory.items()
        if domain.startswith("py:")
        for name in entries
    }
    return [
        f"{module}.{name}"
        for page in collect()
        for module, names in page.modules.items()
        for name in names
        if f"{module}.{name}" not in known
    ]


def _walk(name: str) -> Iterator[ModuleType]:
    """Yield a module and, depth first, the public modules inside it."""
    module = importlib.import_module(name)
    yield module
    if name in (f"{PACKAGE}.experiments", f"{PACKAGE}.kernels"):
        return
    inside = pkgutil.iter_modules(getattr(module, "__path__", []))
    for found in sorted(inside, key=lambda f: f.name):
        if not found.name.startswith("_"):
            yield from _walk(f"{name}.{found.name}")


def _public(module: ModuleType) -> list[str]:
    if not module.__doc__:
        raise ApiError(f"{module.__name__} has no docstring")
    if not hasattr(module, "__all__"):
        if hasattr(module, "__path__"):
            return []  # a package that only holds modules
        raise ApiError(f"{module.__name__} has no __all__")
    if absent := [name for name in module.__all__ if not hasattr(module, name)]:
        raise ApiError(f"{module.__name__}.__all__ names {absent}, which are not there")
    return list(module.__all__)


def _directives(module: str, names: Sequence[str]) -> str:
    """Return the reStructuredText of one module: docstring, table, entries."""
    lines = [f".. automodule:: {module}"]
    parent, _, last = module.rpartition(".")
    if last in getattr(importlib.import_module(parent), "__all__", ()):
        lines.append("   :no-index:")  # its package has a function of the same name
    lines += ["", f".. currentmodule:: {module}", ""]
    home = importlib.import_module(module)
    # A constant has no docstring; the table would quote that of its type.
    if listed := [name for name in names if not _is_constant(getattr(home, name))]:
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in listed]
        lines.append("")
    for name in names:
        lines += [*_entry(module, name), f"   {_used_in(f'{module}.{name}')}", ""]
    return "\n".join(lines)


def _used_in(name: str) -> str:
    """Return the directive that lists the sections whose code uses a name."""
    return f".. autolink-examples:: {name}\n      :collapse:"


def _entry(module: str, name: str) -> list[str]:
    """Return the directive that documents one object."""
    value: Any = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        # The fields of a named tuple have no text beyond the class's docstring.
        members = [] if issubclass(value, tuple) else ["   :members:"]
        return [f".. {kind}:: {name}", *members, "   :show-inheritance:", ""]
    if _is_constant(value):
        return [f".. py:data:: {name}", "", *_comment(module, name), ""]
    return [f".. autofunction:: {name}", ""]


def _is_constant(value: Any) -> bool:
    """Whether a value is neither a class nor a function, be it compiled by numba."""
    return not (
        inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "py_func")
    )


def _comment(module: str, name: str) -> list[str]:
    """Return the ``#:`` comment of a constant, from the module that defines it."""
    from sphinx.pycode import ModuleAnalyzer

    value = getattr(importlib.import_module(module), name)
    for home in _walk(module):
        if getattr(home, name, None) is value:
            text = ModuleAnalyzer.for_module(home.__name__)
            text.analyze()
            if comment := text.attr_docs.get(("", name)):
                return [f"   {line}" for line in comment]
    return [f"   ``{value!r}``"] if len(repr(value)) < 300 else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="API pages of the book.")
    parser.add_argument("folder", type=Path, nargs="?", default=HTML)
    parser.add_argument("--check", action="store_true", help="check a rendered book")
    options = parser.parse_args(arguments)
    if not options.check:
        print(f"{len(write_pages(options.folder))} pages in {options.folder}")
        return 0
    absent = undocumented(options.folder)
    print("\n".join(f"no API entry: {name}" for name in absent) or "API: complete")
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
