"""Values as JSON and arrays as npz, strictly: nothing pickled, nothing non-standard."""

import io
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from ebmtut.checks import InputError, check_type, shown

__all__ = ["to_json", "to_npz"]


def is_array(value: Any) -> bool:
    """Whether a value is a numpy array or a tensor.

    A tensor is known by its method `detach`: reading results imports no torch.
    """
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def to_json(value: Any, where: str = "value") -> Any:
    """Reduce a value to what JSON holds; non-finite numbers become None."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.generic) or is_array(value):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        entries = {str(k): to_json(v, f"{where}.{k}") for k, v in value.items()}
        if len(entries) < len(value):
            raise InputError(
                f"{where} must have keys that differ as text, got {list(value)}"
            )
        return entries
    if isinstance(value, (list, tuple)):
        return [to_json(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    raise InputError(f"{where} must be JSON-able, got {shown(value)}")


def to_npz(arrays: Mapping[str, Any]) -> bytes:
    """Pack arrays and tensors into a compressed npz archive.

    Equal arrays give equal bytes. A bfloat16 tensor is stored as float32, exactly.
    """
    check_type("arrays", arrays, Mapping)
    buffer = io.BytesIO()
    # Not np.savez, whose own argument names an array could collide with.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in arrays.items():
            if hasattr(value, "detach"):
                is_brain = str(value.dtype) == "torch.bfloat16"
                value = (value.float() if is_brain else value).numpy(force=True)
            array = np.asarray(value)
            if array.dtype.hasobject:
                raise InputError(
                    f"arrays[{name!r}] must hold numbers, got Python objects"
                )
            # A fixed date, so that equal results are equal files.
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()
