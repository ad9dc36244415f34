"""Records: what a notebook leaves for a sweep to collect."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebmtut.checks import InputError, checked
from ebmtut.results.atomic import replace_file
from ebmtut.results.serialize import is_array, to_json, to_npz

__all__ = ["record"]


@checked
def record(name: str, values: Mapping[str, Any], results_dir: str | Path) -> None:
    """Keep what a notebook found, for a sweep to collect.

    Parameters
    ----------
    values
        Arrays and tensors go to ``name.npz``, everything else to ``name.json``.
    results_dir
        Empty for nowhere, which is what a notebook's default is.
    """
    if not str(results_dir) or results_dir == Path():
        return
    if not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
        raise InputError(f"name must be letters, digits, - and _, got {name!r}")
    arrays = {k: v for k, v in values.items() if is_array(v) and v.ndim > 0}
    rest = {key: value for key, value in values.items() if key not in arrays}
    plain = to_json(rest, name)
    text = json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)
    if arrays:
        replace_file(Path(results_dir) / f"{name}.npz", to_npz(arrays))
    replace_file(Path(results_dir) / f"{name}.json", f"{text}\n".encode())
