"""Docstrings say what a signature cannot: meaning, units, range; types and shapes are
in the signature, and the sizes there bear the names that CONTRIBUTING.md lists."""

import ast
import builtins
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ebmtut"
SECTION = re.compile(
    r"^( *)(Parameters|Other Parameters|Attributes|Returns|Yields)\n\1-+\n"
    r"((?:\1 .*\n|\1\S.*\n(?!\1-+\n)|\s*\n)*)",
    re.MULTILINE,
)
NAME = r"\*{0,2}[A-Za-z_]\w*"


def docstrings(file):
    """Yield the names and docstrings of all functions and classes of a file."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.name, text


def typed_entries(text):
    """Return the heads of entries that give a type, or nothing but one."""
    found = []
    for _, section, body in SECTION.findall(text + "\n"):
        heads = [line for line in body.splitlines() if line.strip() and line[0] != " "]
        several = section not in ("Returns", "Yields")
        allowed = rf"{NAME}(, {NAME})*" if several else NAME
        for head in heads:
            is_type = section in ("Returns", "Yields") and (
                hasattr(builtins, head) or not head.islower()
            )
            if is_type or not re.fullmatch(allowed, head):
                found.append(f"{section}: {head}")
    return found


def test_entries_are_untyped():
    faults = [
        f"{file.relative_to(ROOT)}: {owner}: {entry}"
        for file in sorted(SOURCE.rglob("*.py"))
        for owner, text in docstrings(file)
        for entry in typed_entries(text)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("section", "head", "typed"),
    [
        ("Parameters", "x", False),
        ("Parameters", "start, stop", False),
        ("Parameters", "**options", False),
        ("Parameters", "x : Tensor, shape (n, d)", True),
        ("Parameters", "n: int", True),
        ("Attributes", "first, second", False),
        ("Returns", "weight, bias", True),
        ("Returns", "log_ratios", False),
        ("Returns", "Tensor", True),
        ("Returns", "float", True),
        ("Returns", "tuple of int", True),
    ],
)
def test_an_entry_with_a_type_is_found(section, head, typed):
    line = "-" * len(section)
    text = f"Do it.\n\n{section}\n{line}\n{head}\n    Is.\n\nNotes\n-----\nNo more."
    assert bool(typed_entries(text)) == typed


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
