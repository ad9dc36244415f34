"""Identify what a run depends on: notebook, package, versions, the user's data."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from pathlib import Path

import ebmtut
from ebmtut.results.provenance import versions
from ebmtut.sweeps.one_run import swept

__all__ = ["run_identity"]


def run_identity(notebook: Path) -> dict[str, str]:
    """Identify the code, versions and data that a run was made with.

    Parameters
    ----------
    notebook
        The notebook's file.

    Returns
    -------
    identity
        Digests of the notebook's code that a sweep executes, of the package's code
        (without comments and docstrings), of the versions of numerical packages, and
        of the files in ``EBMTUT_DATA``. Files that the package downloads have their
        own checksums.
    """
    return {
        "notebook": _digest(_code_of(notebook)),
        "package": _digest(_package()),
        "versions": _digest(json.dumps(versions(), sort_keys=True)),
        "data": _digest(_data()),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _code_of(notebook: Path) -> str:
    cells = swept(notebook)["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    return "\n# %%\n".join(code)


def _package() -> str:
    """Return the syntax trees of all modules of the package, without docstrings."""
    folder = Path(ebmtut.__file__).parent
    return "\n".join(
        f"{path.relative_to(folder)} {_bare(path.read_text('utf-8'))}"
        for path in sorted(folder.rglob("*.py"))
    )


def _bare(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree)


def _data() -> str:
    folder = os.environ.get("EBMTUT_DATA")
    if not folder or not Path(folder).is_dir():
        return f"offline {os.environ.get('EBMTUT_OFFLINE', '')}"
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    looks = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return "\n".join(f"{path} {look}" for path, look in zip(files, looks, strict=True))
