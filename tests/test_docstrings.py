"""Docstrings say what a signature cannot: meaning, units, range; types and shapes are
in the signature, and the sizes there bear the names that CONTRIBUTING.md lists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ebmtut"


def test_sizes_bear_the_names_that_are_agreed():
    """One name a size all over the package, so that signatures can be compared."""
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paragraph = re.search(r"^- Sizes in signatures:(.*?)(?=^- |^#)", guide, re.S | re.M)
    agreed = set(re.findall(r"`(\w+)`", paragraph[1]))
    used = {}
    for file in SOURCE.rglob("*.py"):
        text = file.read_text("utf-8")
        for shape in re.findall(
            r'\b(?:Float|Int|Bool|UInt8)\w*\[\s*\w+(?:\.\w+)?,\s*"([^"]*)"', text
        ):
            for size in re.findall(r"[A-Za-z_]\w*", shape):
                used.setdefault(size, file.name)
    strange = {size: file for size, file in used.items() if size not in agreed}
    assert not strange, f"not in CONTRIBUTING.md: {strange}"
