"""SHA-256 digests: of values, of files, and of the sources that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def text_digest(text: str) -> str:
    """SHA-256 of a text, in lower-case hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_digest(value: Any) -> str:
    """SHA-256 of a value that JSON can hold, whatever the order of its keys."""
    return text_digest(json.dumps(value, sort_keys=True))


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, in lower-case hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(
    folder: Path, files: Iterable[Path], read: Callable[[Path], bytes] = Path.read_bytes
) -> str:
    """SHA-256 of files below a folder: their names and what ``read`` finds in them."""
    digest = hashlib.sha256()
    for file in files:
        content = read(file)
        digest.update(f"{file.relative_to(folder)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
