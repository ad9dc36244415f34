"""Energies in files: what their constructors were given, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from ebmtut import energies
from ebmtut.checks import InputError, checked
from ebmtut.energies import Energy
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint

__all__ = ["load_energy", "save_energy"]

#: What `load_energy` can make: a file names a class, it never brings one.
_KINDS: dict[str, type[nn.Module]] = {
    name: kind
    for name, kind in vars(energies).items()
    if isinstance(kind, type)
    and issubclass(kind, nn.Module)
    and kind not in (Energy, energies.GraphEnergy)
    and hasattr(kind, "constructor_arguments")
}


@checked
def save_energy(
    path: str | Path, energy: nn.Module, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write an energy so that `load_energy` makes it again, bit for bit.

    One safetensors file with the class's name, its constructor's arguments, the weights
    and a checksum: nothing in it is executed when it is loaded.

    Parameters
    ----------
    energy
        Of this package, or with `ebmtut.energies.Energy.constructor_arguments`.
    notes
        JSON-able facts to keep beside it, such as the data and the loss.
    """
    if not (isinstance(energy, nn.Module) and hasattr(energy, "constructor_arguments")):
        raise InputError(
            "energy must be a module that has constructor_arguments(), "
            f"got {type(energy).__name__}"
        )
    arguments = cast(Energy, energy).constructor_arguments()
    state = energy.state_dict()
    names = {
        id(tensor): name
        for named in (energy.named_parameters(), energy.named_buffers())
        for name, tensor in named
    }
    tensors = {f"state.{name}": tensor for name, tensor in state.items()}
    plain: dict[str, Any] = {}
    held: dict[str, str] = {}
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor):
            plain[name] = value
            continue
        # A weight is stored once, and only named here.
        held[name] = f"state.{names[id(value)]}" if id(value) in names else name
        tensors.setdefault(held[name], value)
    about = {
        "energy": type(energy).__name__,
        "arguments": plain,
        "tensor_arguments": held,
        "notes": dict(notes or {}),
    }
    save_checkpoint(path, tensors, about)


@checked
def load_energy(
    path: str | Path, kind: type[nn.Module] | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """Make the energy that `save_energy` wrote.

    Parameters
    ----------
    kind
        Class of the energy, where it is none of this package.

    Raises
    ------
    InputError
        If the file is missing, damaged or no energy's, or its class is another or
        unknown.
    """
    tensors, about = load_checkpoint(path)
    name = about.get("energy")
    if not isinstance(name, str):
        raise InputError(f"path must be a file of save_energy, got {path}")
    maker = _KINDS.get(name) if kind is None else kind
    if maker is None or maker.__name__ != name:
        known = ", ".join(sorted(_KINDS)) if kind is None else kind.__name__
        raise InputError(
            f"{path} must hold one of {known}, got {name}: give its class as kind"
        )
    try:
        arguments = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in about["arguments"].items()
        } | {
            argument: tensors[held]
            for argument, held in about["tensor_arguments"].items()
        }
        energy: nn.Module = getattr(maker, "from_arguments", maker)(**arguments)
        state = {
            held.removeprefix("state."): tensor
            for held, tensor in tensors.items()
            if held.startswith("state.")
        }
        # Assigned, not copied: a copy would have the constructor's dtype.
        energy.load_state_dict(state, assign=True)
        return energy, dict(about["notes"])
    except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{path} must fit {name} of this version of ebmtut: "
            f"{str(error).splitlines()[0]}"
        ) from error
