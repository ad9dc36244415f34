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
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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
# Pages that explain what these names compute without naming them, by their labels.
EXPLAINED_IN = {
    "basics": "annealed_importance_sampling boltzmann_annealing boltzmann_gibbs "
    "color_gibbs ising_gibbs mala",
    "ed-ising": "rmse",
    "ed-record": "DirectedNeighborhood ResNetEnergy dula",
    "recovery": "denoising_score_matching_loss",
    "drl-images": "frechet_distance",
    "recovery-record": "hmc precision_recall",
    "perturb-and-max-product": "bit_moments clamp_unaries log_partition_bound mplp",
    "pmp-ising": "mmd pair_covariances",
    "pmp-deconvolution": "or_to_child",
    "pmp-record": "relax",
    "gibbs-ot": "c_transform",
    "got-one-dimensional": "sinkhorn",
    "got-wnmf": "mirror_step",
    "flow-ising": "lattice_log_partition",
    "flow-densities": "BitsGFlowNet",
    "dnfs-combinatorial": "dmala",
    "own-bits": "gwg log_partition_uniform",
}


def collect() -> dict[str, list[str]]:
    """Return what is documented of each module, the modules of a page in a row."""
    documented: dict[str, list[str]] = {}
    shown: set[tuple[str, int]] = set()
    for module in _walk(PACKAGE):
        _, page, *inside = [*module.__name__.split("."), ""]
        names = [
            n for n in _public(module) if (page, id(getattr(module, n))) not in shown
        ]
        shown |= {(page, id(getattr(module, name))) for name in names}
        if page and (names or len(inside) == 1):
            documented[module.__name__] = names
    return documented


def write_pages(folder: Path) -> list[Path]:
    """Write one MyST page for each top-level module or sub-package."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = lessons()
    parts: dict[Path, list[str]] = {}
    for module, names in collect().items():
        name = module.split(".")[1]
        top = module == f"{PACKAGE}.{name}"
        head = f"(api-{name})=\n# {module}\n" if top else f"## {module}\n"
        body = f"```{{eval-rst}}\n{_directives(module, names, pages)}```\n"
        parts.setdefault(folder / f"{name}.md", []).extend((head, body))
    for file, texts in parts.items():
        file.write_text("\n".join(texts), "utf-8")
    return list(parts)


class Lesson(NamedTuple):
    """A page of a chapter: its folder, its label, the names that it teaches."""

    chapter: str
    label: str
    names: frozenset[str]


def lessons(root: Path = ROOT) -> list[Lesson]:
    """Read which names the pages of each chapter teach, first pages first."""
    found = []
    for chapter in GROUPS:
        paths = sorted(root.glob(f"book/{chapter}/*.ipynb"))
        paths.sort(key=lambda path: path.stem != "index")
        for path in [*root.glob(f"book/{chapter}.ipynb"), *paths]:
            cells = json.loads(path.read_text("utf-8"))["cells"]
            label = re.match(r"\s*\(([\w-]+)\)=", "".join(cells[0]["source"]))
            if label:
                names = set(EXPLAINED_IN.get(label[1], "").split())
                if not is_notes(path):
                    names.update(name for cell in cells for name in _names_in(cell))
                found.append(Lesson(chapter, label[1], frozenset(names)))
    return found


def _names_in(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a cell imports from the package or refers to."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        roles = re.findall(rf"\{{py:\w+\}}`~?{PACKAGE}\.([\w.]+)`", source)
        yield from (name.rpartition(".")[2] for name in roles)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


def lesson_of(name: str, pages: Sequence[Lesson]) -> Lesson | None:
    """Return the first page that teaches a name; None if no page does."""
    return next((page for page in pages if name in page.names), None)


def undocumented(html: Path) -> list[str]:
    """Public names that the rendered book's inventory does not have."""
    from sphinx.util.inventory import InventoryFile

    with (html / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, target: target)
    public = [f"{module}.{n}" for module, names in collect().items() for n in names]
    return [n for n in public if not any(n in known for known in inventory.values())]


def _walk(name: str) -> Iterator[ModuleType]:
    """Yield a module and, depth first, the public modules inside it."""
    module = importlib.import_module(name)
    yield module
    # What is inside of the kernels is no public interface.
    inside = () if name == f"{PACKAGE}.kernels" else getattr(module, "__path__", ())
    for found in pkgutil.iter_modules(inside):  # sorted by name
        if not found.name.startswith("_") and found.name not in NOT_PUBLIC:
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
        if listed:
            lines += [f".. rubric:: {heading}", ""] if len(groups) > 1 else []
            lines += [".. autosummary::", "   :nosignatures:", ""]
            lines += [*(f"   {name}" for name in listed), ""]
    for name in (name for inside in groups.values() for name in inside):
        lines += _entry(module, name)
        if lesson := lesson_of(name, pages):
            lines += [f"   Taught in :ref:`{lesson.label}`.", ""]
        lines += [f"   .. autolink-examples:: {module}.{name}\n      :collapse:", ""]
    return "\n".join(lines)


def _grouped(names: Sequence[str], pages: Sequence[Lesson]) -> dict[str, list[str]]:
    """Sort names by the chapter that mentions them first."""
    found = {name: lesson_of(name, pages) for name in names}
    headings = {
        n: GROUPS[page.chapter] if page else OTHERS for n, page in found.items()
    }
    groups = {
        heading: [name for name in names if headings[name] == heading]
        for heading in (*GROUPS.values(), OTHERS)
    }
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
