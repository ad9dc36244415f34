"""Read the numbers of stored results, without their arrays and without torch.

`ebmtut.results` owns the format; a test holds the two together. This reader is
here because ``ebmtut list`` must answer at once, and importing torch takes
longer than all of the ledger.
"""

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["default_root", "read_stored"]


def default_root() -> Path:
    """Return the folder of the stored results, as `ebmtut.results` has it."""
    if chosen := os.environ.get("EBMTUT_RESULTS"):
        return Path(chosen)
    checkout = Path(__file__).resolve().parents[3]
    home = checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()
    return home / "results"


def read_stored(id: str, scale: str, root: Path | None = None) -> dict[str, Any] | None:
    """Return the JSON part of a stored result, None where there is none.

    Parameters
    ----------
    id, scale : str
        Which one.
    root : Path, optional
        Folder of all results.

    Raises
    ------
    InputError
        If the file is damaged, or is another row's.
    """
    path = (root or default_root()) / id / scale / "result.json"
    try:
        content = json.loads(path.read_text("utf-8"))
        if (content["id"], content["scale"]) != (id, scale):
            raise ValueError(f"it is {content['id']} at scale {content['scale']}")
        return {key: content[key] for key in ("scalars", "provenance")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        from ebmtut.checks import InputError

        raise InputError(f"{path} holds no readable result: {error}") from error
