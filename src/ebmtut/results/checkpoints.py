"""Checkpoints: tensors and a few facts in one safetensors file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from ebmtut.checks import InputError
from ebmtut.results.atomic import replace_file
from ebmtut.results.serialize import to_json

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    path: str | Path, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]
) -> None:
    """Write tensors and facts in one step; a killed run leaves the old file.

    Parameters
    ----------
    path
        The file; its folder is made if need be.
    tensors
        Any dtypes and devices; copies on the CPU are stored.
    meta
        JSON-able facts, such as the step and the configuration.

    Raises
    ------
    InputError
        If the folder cannot be written to or ``meta`` is not JSON-able.
    """
    # Clones: safetensors refuses tensors that share memory or have gaps.
    plain = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in tensors.items()
    }
    text = json.dumps(to_json(meta, "meta"), allow_nan=False)
    replace_file(path, safetensors.torch.save(plain, metadata={"meta": text}))


def load_checkpoint(path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    tensors
        On the CPU.
    meta
        The facts.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"checkpoint {path} does not exist")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {})["meta"])
            return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} is damaged: remove it to start afresh"
        ) from error
