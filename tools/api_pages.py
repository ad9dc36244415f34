"""Write the API pages: one for each top-level module or sub-package of ebmtut.

The pages are generated in the staged copy of the book, so that none can be forgotten.
Every name of an ``__all__`` appears once, under the shortest path from which it can be
imported. The names of a page are grouped by the chapter that teaches them, and each
leads to the page that mentions it first. Experiments are no public interface.
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.paths import ROOT
from tools.prose import is_notes

PACKAGE = "ebmtut"
# Experiments change with the pages that show them, and nobody else imports them.
NOT_PUBLIC = ("experiments",)
# The heading of each group, by the folder of the pages that teach its names. Own data
# comes last, since its pages use what the chapters teach.
GROUPS = {
    "basics": "Basics",
    "ed": "Energy discrepancy",
    "drl": "Recovery likelihood",
    "pmp": "Perturb-and-max-product",
    "got": "Gibbs-OT",
    "dnfs": "Flow samplers",
    "own-data": "Your own data",
}
OTHERS = "More"


@dataclass
class Page:
    """A page and, for each of its modules, the names documented there."""

    name: str
    modules: dict[str, list[str]] = field(default_factory=dict)


def collect() -> list[Page]:
    """Find what each page documents; experiments and kernels are no API."""
    root = importlib.import_module(PACKAGE)
    pages = []
    for found in sorted(pkgutil.iter_modules(root.__path__), key=lambda f: f.name):
        if found.name.startswith("_") or found.name in NOT_PUBLIC:
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
    """Write one MyST page for each `Page`."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = lessons()
    files = []
    for page in collect():
        parts = [f"(api-{page.name})=\n# {PACKAGE}.{page.name}\n"]
        for module, names in page.modules.items():
            if module != f"{PACKAGE}.{page.name}":
                parts.append(f"## {module}\n")
            parts.append(f"```{{eval-rst}}\n{_directives(module, names, pages)}```\n")
        file = folder / f"{page.name}.md"
        file.write_text("\n".join(parts), "utf-8")
        files.append(file)
    return files


@dataclass(frozen=True)
class Lesson:
    """A page of a chapter: its folder, its label, the names that its code mentions."""

    chapter: str
    label: str
    names: frozenset[str]


def lessons(root: Path = ROOT) -> list[Lesson]:
    """Read which names the pages of each chapter mention, first pages first."""
    found = []
    for chapter in GROUPS:
        paths = sorted(root.glob(f"book/{chapter}/*.ipynb"))
        paths.sort(key=lambda path: path.stem != "index")
        for path in [*root.glob(f"book/{chapter}.ipynb"), *paths]:
            cells = json.loads(path.read_text("utf-8"))["cells"]
            label = re.match(r"\s*\(([\w-]+)\)=", "".join(cells[0]["source"]))
            if label and not is_notes(path):
                names = frozenset(name for cell in cells for name in _names_in(cell))
                found.append(Lesson(chapter, label[1], names))
    return found


def _names_in(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a cell imports from the package or refers to."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        roles = re.findall(rf"\{{py:\w+\}}`~?{PACKAGE}\.([\w.]+)`", source)
        yield from (name.rpartition(".")[2] for name in roles)
        return
    try:
        tree = ast.parse(source)
    except SyntaxError:  # of IPython's own, which the book does not use
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


def lesson_of(name: str, pages: Sequence[Lesson]) -> Lesson | None:
    """Return the first page that mentions a name; None if no page does."""
    return next((page for page in pages if name in page.names), None)


def undocumented(html: Path) -> list[str]:
    """Public names that the rendered book's inventory does not have."""
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
    """Return the names that a module offers; a package may hold modules only."""
    is_package = hasattr(module, "__path__")
    return list(getattr(module, "__all__", []) if is_package else module.__all__)


def _directives(module: str, names: Sequence[str], pages: Sequence[Lesson]) -> str:
    """Return the reStructuredText of one module: docstring, tables, entries."""
    lines = [f".. automodule:: {module}"]
    parent, _, last = module.rpartition(".")
    if last in getattr(importlib.import_module(parent), "__all__", ()):
        lines.append("   :no-index:")  # its package has a function of the same name
    lines += ["", f".. currentmodule:: {module}", ""]
    home = importlib.import_module(module)
    groups = _grouped(names, pages)
    for heading, inside in groups.items():
        # A constant has no docstring; the table would quote that of its type.
        listed = [name for name in inside if not _is_constant(getattr(home, name))]
        if len(groups) > 1 and listed:
            lines += [f".. rubric:: {heading}", ""]
        if listed:
            lines += [".. autosummary::", "   :nosignatures:", ""]
            lines += [f"   {name}" for name in listed]
            lines.append("")
    for name in (name for inside in groups.values() for name in inside):
        lines += _entry(module, name)
        if lesson := lesson_of(name, pages):
            lines += [f"   Taught in :ref:`{lesson.label}`.", ""]
        lines += [f"   .. autolink-examples:: {module}.{name}\n      :collapse:", ""]
    return "\n".join(lines)


def _grouped(names: Sequence[str], pages: Sequence[Lesson]) -> dict[str, list[str]]:
    """Sort names by the chapter that mentions them first."""
    groups: dict[str, list[str]] = {heading: [] for heading in GROUPS.values()}
    groups[OTHERS] = []
    for name in names:
        lesson = lesson_of(name, pages)
        groups[GROUPS[lesson.chapter] if lesson else OTHERS].append(name)
    return {heading: inside for heading, inside in groups.items() if inside}


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
