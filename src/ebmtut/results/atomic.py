"""Writing that is done entirely or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebmtut.checks import InputError, check_type

__all__ = ["check_writable", "replace_file", "replace_folder"]


def check_writable(folder: str | Path) -> Path:
    """Make a folder and prove that files can be written to it.

    Called before a long run. Raises `InputError` that names the folder.
    """
    check_type("folder", folder, str, Path)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tmp-"):
            pass
    except OSError as error:
        raise InputError(
            f"folder {folder} cannot be written to ({error.strerror}): give another"
        ) from error
    return folder


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file under another name, then rename it into place."""
    path = Path(path)
    folder = check_writable(path.parent)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def replace_folder(target: str | Path) -> Iterator[Path]:
    """Give a fresh folder to fill, and put it in the target's place at the end.

    If the block fails, the target is as it was. If the process is killed, at worst a
    hidden folder ``.tmp-*`` is left beside the target.
    """
    target = Path(target)
    parent = check_writable(target.parent)
    fresh = Path(tempfile.mkdtemp(dir=parent, prefix=f".tmp-{target.name}-"))
    old = fresh.with_name(fresh.name + "-old")
    try:
        yield fresh
        fresh.chmod(0o755)
        if target.exists():
            target.replace(old)
        try:
            fresh.replace(target)
        except BaseException:
            if old.exists():
                old.replace(target)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
