"""Identify what a run depends on: notebook, package, versions, the user's data."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ebmtut
from ebmtut._digests import files_digest, sha256_of, text_digest
from ebmtut.results.provenance import versions
from ebmtut.sweeps.one_run import swept

__all__ = ["files_named", "run_identity"]


def run_identity(notebook: Path) -> dict[str, str]:
    """Identify the code, versions and data that a run was made with.

    Returns
    -------
    identity
        Digests of the notebook's swept code, of the package's code, of the versions of
        numerical packages, and of the files in ``EBMTUT_DATA``; see `files_named`.
    """
    cells = swept(notebook)["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    return {
        "notebook": _digest("\n# %%\n".join(code)),
        "package": _package(),
        "versions": _digest(json.dumps(versions(), sort_keys=True)),
        "data": _digest(_data()),
    }


def files_named(notebook: Path, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the files that a run's parameters name, and of folders' listings."""
    found = {}
    for name, value in parameters.items():
        for text in _texts(value):
            try:
                path = notebook.parent / text
                if text and path.is_dir():
                    found[f"{name}={text}"] = _digest(_files_in(path))
                elif text and path.exists():
                    state = path.stat()
                    size, time = state.st_size, state.st_mtime_ns
                    found[f"{name}={text}"] = _content(path, size, time)
            except (OSError, ValueError):  # too long for a path, or not to be read
                continue
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


@cache
def _content(path: Path, size: int, time: int) -> str:
    """Digest of a file, taken once for all runs that name it."""
    return sha256_of(path)[:16]


def _digest(text: str) -> str:
    return text_digest(text)[:16]


def _package() -> str:
    """Return the digest of all modules of the package, without docstrings."""
    folder = Path(ebmtut.__file__).parent
    states = {path: path.stat() for path in sorted(folder.rglob("*.py"))}
    files = tuple((p, state.st_size, state.st_mtime_ns) for p, state in states.items())
    return _digest_of_modules(folder, files)


@cache
def _digest_of_modules(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """Digest of syntax trees, which takes seconds, once for files in one state."""
    return files_digest(folder, [path for path, *_ in files], _bare)[:16]


def _bare(path: Path) -> bytes:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def _data() -> str:
    folder = os.environ.get("EBMTUT_DATA")
    if not folder or not Path(folder).is_dir():
        return f"offline {os.environ.get('EBMTUT_OFFLINE', '')}"
    return _files_in(Path(folder))


def _files_in(folder: Path) -> str:
    """Names, sizes and times of all files: contents may be gigabytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    states = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return "\n".join(f"{path} {s}" for path, s in zip(files, states, strict=True))
