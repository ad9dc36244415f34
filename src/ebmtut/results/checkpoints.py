"""Checkpoints: tensors and a few facts in one safetensors file, with a checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from ebmtut.checks import InputError, check_type
from ebmtut.results.atomic import replace_file
from ebmtut.results.serialize import to_json

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    path: str | Path, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]
) -> None:
    """Write tensors and facts in one step; a killed run leaves the old file.

    Parameters
    ----------
    tensors, meta
        Copies on the CPU are stored; JSON-able facts.
    """
    check_type("tensors", tensors, Mapping)
    # Clones: safetensors refuses tensors that share memory or have gaps.
    plain = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in tensors.items()
    }
    text = json.dumps(to_json(meta, "meta"), allow_nan=False)
    facts = {"meta": text, "sha256": _digest(plain, text)}
    replace_file(path, safetensors.torch.save(plain, metadata=facts))


def load_checkpoint(path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote.

    Raises
    ------
    InputError
        If the file is missing or damaged, by its checksum.
    """
    check_type("path", path, str, Path)
    path = Path(path)
    if not path.is_file():
        raise InputError(f"checkpoint {path} does not exist")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = facts.pop("meta")
        # Nothing at all is an old file; another word than sha256 is a damaged one.
        if facts and facts != {"sha256": _digest(tensors, text)}:
            raise ValueError("checksum")
        return tensors, json.loads(text)
    except (safetensors.SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"checkpoint {path} is damaged: remove it to start afresh"
        ) from error


def _digest(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    """SHA-256 of all that a checkpoint holds, names, dtypes and shapes too."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        about = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(about.encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
