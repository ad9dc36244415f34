"""The floors of the package: which module may import which.

The renderer writes them as a table into the staged copy of the book, so that the page
shows the package as it is. A test compares every import with the floors here.
"""

from tools.api_pages import NOT_PUBLIC

# Lowest first. On one floor, a module may use those that stand to its left, so the
# whole list is one order and no cycle is possible.
FLOORS = {
    "plain helpers": "_digests _allocator _compilation _compiled _gpu _gradients "
    "_progress checks tensor_checks importance deadlines random _layers states "
    "schedules noise",
    "what an energy is made of": "energies neighbors paths",
    "exact answers, sampling, transport": "kernels exact samplers message_passing "
    "transport flows",
    "learning and evaluation": "losses metrics",
    "what a run reads, keeps and shows": "data results plotting training widgets",
    "the papers' figures and tables": "experiments ledger sweeps cli",
}


def floors_table() -> str:
    """Return the floors as a table, the highest first, each part a link."""
    lines = ["| floor | modules |", "|---|---|"]
    for what, parts in reversed(FLOORS.items()):
        shown = [p for p in parts.split() if p[0] != "_"]
        linked = [f"`{p}`" if p in NOT_PUBLIC else f"[`{p}`](#api-{p})" for p in shown]
        lines.append(f"| {what} | {', '.join(linked)} |")
    return "\n".join(lines) + "\n"
