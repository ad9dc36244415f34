"""The floors of the package: which module may import which.

The renderer writes them as a table into the staged copy of the book, so that the page
shows the package as it is. A test compares every import with the floors here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tools.api_pages import NOT_PUBLIC
from tools.paths import ROOT


@dataclass(frozen=True)
class Floor:
    """Modules and sub-packages that may import each other to the left, and below."""

    what: str
    parts: tuple[str, ...]


def _floor(what: str, parts: str) -> Floor:
    return Floor(what, tuple(parts.split()))


# Lowest first. On one floor, a module may use those that stand to its left, so the
# whole list is one order and no cycle is possible.
FLOORS = (
    _floor(
        "plain helpers",
        "_digests _allocator _compilation _compiled _gpu _progress checks "
        "tensor_checks importance deadlines random _layers states schedules noise",
    ),
    _floor("what an energy is made of", "energies neighbors paths"),
    _floor(
        "exact answers, sampling, transport",
        "kernels exact samplers message_passing transport flows",
    ),
    _floor("learning and evaluation", "losses metrics"),
    _floor(
        "what a run reads, keeps and shows", "data results plotting training widgets"
    ),
    _floor("the papers' figures and tables", "experiments ledger sweeps cli"),
)


def floors_table(existing: Collection[str]) -> str:
    """Return the floors as a table, the highest first, each part a link."""
    lines = ["| floor | modules |", "|---|---|"]
    for floor in reversed(FLOORS):
        shown = [p for p in floor.parts if p in existing and not p.startswith("_")]
        linked = [f"`{p}`" if p in NOT_PUBLIC else f"[`{p}`](#api-{p})" for p in shown]
        lines.append(f"| {floor.what} | {', '.join(linked)} |")
    return "\n".join(lines) + "\n"


def write_floors(file: Path, package: Path = ROOT / "src" / "ebmtut") -> None:
    """Write the table of the parts that are there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    existing = {path.stem for path in package.iterdir()}
    file.write_text(floors_table(existing), "utf-8")
