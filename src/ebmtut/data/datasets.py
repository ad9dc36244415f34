"""Files from the network: found at hand, or fetched, checked and kept.

A file is looked for in ``data_dir``, else in the folder that ``EBMTUT_DATA`` names;
then in the cache (``EBMTUT_CACHE``, else the platform's); then it is downloaded.
Whatever is returned has the SHA-256 that was asked for.
"""

import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ebmtut._digests import sha256_of
from ebmtut.checks import InputError, checked

__all__ = ["DataUnavailable", "RemoteFile", "cache_folder", "fetch", "sha256_of"]

_TIMEOUT_S = 30.0
_BLOCK = 1 << 20


class DataUnavailable(InputError):
    """A file is not at hand and cannot be downloaded, or what reads it is missing."""


@dataclass(frozen=True)
class RemoteFile:
    """A file with a known content.

    Attributes
    ----------
    name
        Its place below a data folder.
    urls
        Where it is published.
    sha256
        Hash of its content.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str


def cache_folder() -> Path:
    """Folder of downloaded files: ``EBMTUT_CACHE``, or the platform's."""
    if named := os.environ.get("EBMTUT_CACHE"):
        return Path(named)
    # Only here: what is computed, on a machine with a GPU say, needs no cache.
    import platformdirs

    return Path(platformdirs.user_cache_dir("ebmtut"))


@checked
def fetch(
    file: RemoteFile, *, data_dir: str | Path | None = None, offline: bool | None = None
) -> Path:
    """Find a file, downloading it if need be.

    Parameters
    ----------
    data_dir
        A folder of files at hand, in place of ``EBMTUT_DATA``.
    offline
        Not to use the network; by default if ``EBMTUT_OFFLINE`` is set to anything but
        0.

    Raises
    ------
    DataUnavailable
        If it is not at hand and cannot be downloaded; the message says where to put it.
    """
    if offline is None:
        offline = os.environ.get("EBMTUT_OFFLINE", "0") not in ("", "0")
    folder = data_dir if data_dir is not None else os.environ.get("EBMTUT_DATA")
    if folder:
        at_hand = Path(folder) / file.name
        if at_hand.is_file():
            # Someone else's file: refused, never repaired.
            _require_hash(at_hand, file)
            return at_hand

    path = cache_folder() / file.name
    try:
        if path.is_file() and sha256_of(path) == file.sha256:
            return path
        if offline:
            state = "is damaged" if path.is_file() else "is not there"
            raise DataUnavailable(
                f"{path} {state}, and downloads are off: {_advice(file)}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            # Another process may have fetched it in the meantime.
            if not path.is_file() or sha256_of(path) != file.sha256:
                _download(file, path)
    except OSError as error:
        raise DataUnavailable(
            f"cache folder {cache_folder()} cannot be used ({error.strerror}): "
            f"give another by EBMTUT_CACHE"
        ) from error
    return path


def one_line(error: Exception) -> str:
    """What a decoder's error says, for the message about a damaged file."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Say what a damaged file must be: its decoder may fail anywhere, by any error."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} must {what}: {one_line(error)}") from error


def _download(file: RemoteFile, path: Path) -> None:
    """Fetch from the first place that answers, into a temporary file first."""
    reasons = []
    for url in file.urls:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        partial = Path(name)
        try:
            with os.fdopen(handle, "wb") as target, _open(url) as source:
                while block := _read(source):
                    target.write(block)
            _require_hash(partial, file)
            partial.chmod(0o644)
            partial.replace(path)
            return
        except (_Unreachable, InputError) as error:
            reasons.append(f"{url}: {error}")
        finally:
            partial.unlink(missing_ok=True)
    raise DataUnavailable(
        f"{file.name} could not be downloaded ({'; '.join(reasons)}): {_advice(file)}"
    )


class _Unreachable(Exception):
    """The network failed, as opposed to the disk."""


def _open(url: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": "ebmtut"})
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except (OSError, http.client.HTTPException) as error:
        raise _Unreachable(_reason(error)) from error


def _read(source: http.client.HTTPResponse) -> bytes:
    try:
        return source.read(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _Unreachable(_reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}"
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(error).__name__


def _require_hash(path: Path, file: RemoteFile) -> None:
    found = sha256_of(path)
    if found != file.sha256:
        raise InputError(
            f"{path} is damaged: its SHA-256 must be {file.sha256}, got {found}"
        )


def _advice(file: RemoteFile) -> str:
    return (
        f"put it at {cache_folder() / file.name}, or set EBMTUT_DATA to a folder "
        f"that holds {file.name}"
    )
