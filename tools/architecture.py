"""Draw the two pictures of the architecture page: the floors, and an experiment's path.

The pictures are inline SVG, so that they take the colours of the light or dark theme,
and they fit a phone. The renderer draws them into the staged copy of the book, so that
they show the package as it is. A test compares every import with the floors here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tools.api_pages import NOT_PUBLIC
from tools.paths import ROOT

__all__ = ["FLOORS", "Floor", "draw_floors", "draw_way", "write_pictures"]


@dataclass(frozen=True)
class Floor:
    """Modules and sub-packages that may import each other to the left, and below."""

    what: str
    parts: tuple[str, ...]


# Lowest first. On one floor, a module may use those that stand to its left, so the
# whole list is one order and no cycle is possible.
FLOORS = (
    Floor(
        "plain helpers",
        (
            "_allocator",
            "_compilation",
            "_compiled",
            "_gpu",
            "_progress",
            "checks",
            "tensor_checks",
            "importance",
            "deadlines",
            "random",
            "_layers",
            "states",
            "schedules",
            "noise",
        ),
    ),
    Floor("what p(x) ∝ exp(−E(x)) is made of", ("energies", "neighbors", "paths")),
    Floor(
        "exact answers, sampling, transport",
        ("kernels", "exact", "samplers", "message_passing", "transport", "flows"),
    ),
    Floor("learning and evaluation", ("losses", "metrics")),
    Floor(
        "what a run reads, keeps and shows",
        ("data", "results", "plotting", "training", "widgets"),
    ),
    Floor("the papers' figures and tables", ("experiments", "ledger", "sweeps", "cli")),
)

WIDTH = 360
PACKAGE = ROOT / "src" / "ebmtut"

STYLE = """
.plan { display: block; width: 100%; max-width: 34rem; margin: 0 auto; height: auto; }
.plan text { fill: var(--pst-color-text-base, #222); font: 12px sans-serif; }
.plan .code { font: 11.5px monospace; }
.plan a .code { fill: var(--pst-color-link, #176de8); }
.plan .soft { fill: var(--pst-color-text-muted, #555); font-size: 11px; }
.plan rect { fill: var(--pst-color-surface, #f4f4f6); rx: 5px;
  stroke: var(--pst-color-border, #bbb); }
.plan .part { fill: var(--pst-color-background, #fff); }
.plan path { fill: none; stroke: var(--pst-color-text-muted, #555); stroke-width: 1.3; }
.plan marker path { fill: var(--pst-color-text-muted, #555); stroke: none; }
"""


def _svg(name: str, title: str, body: Sequence[str], height: float) -> str:
    """Return a picture that stands alone in a page; its arrow's id is its own."""
    head = (
        f'<svg class="plan" viewBox="0 0 {WIDTH} {height:g}" role="group" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
    )
    arrow = (
        f'<defs><marker id="{name}-tip" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/>'
        "</marker></defs>"
    )
    return "\n".join([head, f"<style>{STYLE}</style>", arrow, *body, "</svg>\n"])


def _box(x: float, y: float, width: float, height: float, kind: str = "") -> str:
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" '
        f'width="{width:g}" height="{height:g}"/>'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _arrow(name: str, path: str) -> str:
    return f'<path d="{path}" marker-end="url(#{name}-tip)"/>'


def draw_floors(existing: set[str]) -> str:
    """Draw the floors, the highest on top, each part a link to its reference.

    Parameters
    ----------
    existing
        Parts that are there; the others are planned, and left out.
    """
    left, row, gap = 30.0, 24.0, 5.0
    body, y = [], 6.0
    for number, floor in reversed(list(enumerate(FLOORS))):
        chips, x, line = [], left + 8, 0
        for part in floor.parts:
            if part not in existing or part.startswith("_"):
                continue
            width = 7.0 * len(part) + 14
            if x + width > WIDTH - 8:
                x, line = left + 8, line + 1
            top = y + 26 + line * (row + gap)
            label = _text(x + width / 2, top + 16, part, "code", "middle")
            link = f'<a href="api/{part}.html">{label}</a>'
            if part in NOT_PUBLIC:
                link = label  # it has no entry in the reference
            chips += [_box(x, top, width, row, "part"), link]
            x += width + gap
        height = 26 + (line + 1) * (row + gap) + 5
        body += [
            _box(left, y, WIDTH - left - 1, height),
            _text(left + 8, y + 17, f"{number}  {floor.what}"),
            *chips,
        ]
        y += height + 8
    body.append(_arrow("floors", f"M12 12V{y - 14:g}"))
    body.append(
        f'<text class="soft" transform="translate(24 {y / 2:g}) rotate(-90)" '
        'text-anchor="middle">imports go down only</text>'
    )
    title = "The floors of the package; a module imports only from the floors below."
    return _svg("floors", title, body, y)


def draw_way() -> str:
    """Draw the path of an experiment, from the paper's values to the book's page."""
    # x, y, width, what it is called in the repository, what that is
    stops = (
        (60, 6, 240, "experiments/ed/ising_rmse.py", "EXPERIMENT: a declaration"),
        (60, 92, 240, "EXPERIMENT.run(scale, seed)", "one runner: settings x seeds"),
        (1, 178, 174, "in the notebook", "quick: live, compared"),
        (185, 178, 174, "results/ed/ising-rmse/", "full, paper: stored"),
        (1, 264, 174, "Result", "arrays, numbers, provenance"),
        (185, 264, 174, "experiments/facts.yaml", "what the paper prints"),
        (1, 350, 174, "figure(result)", "a pure function"),
        (185, 350, 174, "check(result)", "verdicts, also of the baseline"),
        (1, 436, 174, "book/ed/ising.ipynb", "section (ed-ising-rmse)="),
        (185, 436, 174, "book/ledger, ebmtut list", "every number, every verdict"),
    )
    arrows = (
        ((180, 54), (180, 91)),
        ((130, 140), (88, 177)),
        ((230, 140), (272, 177)),
        ((88, 226), (88, 263)),
        ((235, 226), (125, 263)),
        ((88, 312), (88, 349)),
        ((125, 312), (235, 349)),
        ((272, 312), (272, 349)),
        ((88, 398), (88, 435)),
        ((272, 398), (272, 435)),
        ((235, 398), (125, 435)),
    )
    body = []
    for x, y, width, name, what in stops:
        middle = x + width / 2
        body += [
            _box(x, y, width, 48),
            _text(middle, y + 20, name, "code", "middle"),
            _text(middle, y + 38, what, "soft", "middle"),
        ]
    for (x, y), (to_x, to_y) in arrows:
        curve = f"M{x} {y}C{x} {y + 25} {to_x} {to_y - 25} {to_x} {to_y}"
        body.append(_arrow("way", curve))
    title = (
        "An experiment: its declaration is run, live in a notebook or stored under "
        "results; the result gives the figure of a page and, beside the paper's facts, "
        "the verdicts of page and ledger."
    )
    return _svg("way", title, body, 490)


def write_pictures(folder: Path, package: Path = PACKAGE) -> list[Path]:
    """Write both pictures.

    Parameters
    ----------
    folder
        Where to write; made if need be.
    package
        The folder of the package, whose parts are drawn.

    Returns
    -------
    list of Path
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    existing = {path.stem for path in package.iterdir()}
    files = [folder / "floors.svg", folder / "way.svg"]
    for file, text in zip(files, (draw_floors(existing), draw_way()), strict=True):
        file.write_text(text, "utf-8")
    return files
