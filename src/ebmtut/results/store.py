"""Stored results: one folder each, written whole or not at all."""

import hashlib
import io
import json
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ebmtut._digests import json_digest
from ebmtut.checks import InputError, check_choice, checked
from ebmtut.results.atomic import replace_folder
from ebmtut.results.provenance import Provenance
from ebmtut.results.serialize import to_json, to_npz

__all__ = [
    "SCALES",
    "Result",
    "ResultNotFound",
    "benchmarks_root",
    "default_root",
    "load_result",
    "result_folder",
    "save_result",
]

SCALES = ("quick", "full", "paper")

_FORMAT = 1
_ID = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*")


class ResultNotFound(InputError):
    """No result is stored under this id and scale."""


@dataclass(frozen=True)
class Result:
    """What one experiment gave; figures and verdicts are functions of it.

    Attributes
    ----------
    id
        Row of the ledger, such as ``"ed/ising-heatmaps"``.
    scale
        ``"quick"``, ``"full"`` or ``"paper"``.
    config
        The configuration, JSON-able.
    scalars
        Numbers and small tables, JSON-able.
    arrays
        Whatever is larger.
    """

    id: str
    scale: str
    config: dict[str, Any]
    scalars: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        _check_key(self.id, self.scale)


# What result.json holds.
_ENTRIES = {"format", "id", "scale", "config", "scalars", "provenance"}
_ENTRIES |= {"arrays_sha256", "sha256"}


def default_root() -> Path:
    """Folder of the stored results.

    ``EBMTUT_RESULTS``; else ``results/`` of the checkout, or below the working folder.
    """
    chosen = os.environ.get("EBMTUT_RESULTS")
    if chosen:
        return Path(chosen)
    checkout = Path(__file__).resolve().parents[3]
    home = checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()
    return home / "results"


def benchmarks_root() -> Path:
    """Folder of what the programs in ``benchmarks/`` have stored."""
    return Path(__file__).resolve().parents[3] / "benchmarks" / "results"


@checked
def result_folder(id: str, scale: str, root: str | Path | None = None) -> Path:
    """Folder of one result: ``root/<paper>/<name>/<scale>``."""
    _check_key(id, scale)
    return Path(root if root is not None else default_root()) / id / scale


@checked
def save_result(result: Result, root: str | Path | None = None) -> Path:
    """Store a result, in place of an older one; non-finite numbers become null."""
    target = result_folder(result.id, result.scale, root)
    arrays = to_npz(result.arrays)
    content = {
        "format": _FORMAT,
        "id": result.id,
        "scale": result.scale,
        "config": to_json(result.config, "config"),
        "scalars": to_json(result.scalars, "scalars"),
        "provenance": to_json(result.provenance, "provenance"),
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
    }
    content["sha256"] = json_digest(content)
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    with replace_folder(target) as fresh:
        (fresh / "arrays.npz").write_bytes(arrays)
        (fresh / "result.json").write_text(text + "\n", encoding="utf-8")
    return target


@checked
def load_result(
    id: str, scale: str, root: str | Path | None = None, *, with_arrays: bool = True
) -> Result:
    """Load a stored result.

    Parameters
    ----------
    with_arrays
        Whether to unpack the arrays, which are checked either way.

    Raises
    ------
    ResultNotFound
        If there is none; the message says how to make it.
    """
    folder = result_folder(id, scale, root)
    path = folder / "result.json"
    if not path.is_file():
        raise ResultNotFound(
            f"no result of {id} at scale {scale} in {folder.parents[2]}: "
            f"`ebmtut run {id} --scale {scale}` makes it"
        )
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != _FORMAT:
            raise InputError(
                f"{path} must have format {_FORMAT}, got {content['format']!r}"
            )
        if (content["id"], content["scale"]) != (id, scale):
            raise InputError(
                f"{path} must hold {id} at scale {scale}, "
                f"got {content['id']!r} at scale {content['scale']!r}"
            )
        if unknown := content.keys() - _ENTRIES:
            raise InputError(f"{path} has an unknown entry {min(unknown)!r}")
        if content.pop("sha256") != json_digest(content):
            raise InputError(f"{path} was changed after it was written")
        for entry in ("config", "scalars", "provenance"):
            if not isinstance(content[entry], dict):
                kind = type(content[entry]).__name__
                raise InputError(f"{path} must hold an object as {entry}, got {kind}")
        npz = (folder / "arrays.npz").read_bytes()
        if hashlib.sha256(npz).hexdigest() != content["arrays_sha256"]:
            raise InputError(f"{folder / 'arrays.npz'} is not the file of result.json")
        return Result(
            id=content["id"],
            scale=content["scale"],
            config=content["config"],
            scalars=content["scalars"],
            arrays=_unpacked(npz) if with_arrays else {},
            provenance=Provenance(**content["provenance"]),
        )
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{folder} holds no readable result: {reason}") from error


def _unpacked(npz: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(npz), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _check_key(id: str, scale: str) -> None:
    if not _ID.fullmatch(str(id)):
        raise InputError(f"id must look like paper/name, got {id!r}")
    check_choice("scale", scale, SCALES)
