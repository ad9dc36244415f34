"""Omniglot: handwritten characters of many alphabets (Lake et al., 2015; MIT)."""

import io
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from ebmtut.checks import InputError, Range, checked
from ebmtut.data.datasets import RemoteFile, fetch, reading
from ebmtut.data.images import ImageData

__all__ = ["OMNIGLOT_FILES", "load_omniglot"]

_SHA256 = {
    "images_background_small1": (
        "f38eb80f801274ac2b4dff5b24289016bfaba4a7d5bb50deebf27104ad6cb8a4"
    ),
    "images_background_small2": (
        "3ccaa407515a8778e5d0861875af38b17e418f301ad5bb3b5a6b65d901a41c7f"
    ),
}

#: The two small sets of five alphabets each, of which two are in both.
OMNIGLOT_FILES: dict[str, RemoteFile] = {
    name: RemoteFile(
        f"omniglot/{name}.zip",
        (f"https://github.com/brendenlake/omniglot/raw/master/python/{name}.zip",),
        sha256,
    )
    for name, sha256 in _SHA256.items()
}


@checked
def load_omniglot(
    *,
    side: Annotated[int, Range(1, 105)] = 28,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load the characters of the two small sets, each drawing once.

    Parameters
    ----------
    side
        Pixels a side, 1 to 105; by averaging (Pillow's box filter).

    Returns
    -------
    image_data
        4840 images (n, side, side) in [0, 1], float32, ink 1; the label is the
        character.

    Raises
    ------
    DataUnavailable
        If the files are not at hand and cannot be downloaded.
    """
    drawings: dict[str, np.ndarray] = {}
    for file in OMNIGLOT_FILES.values():
        drawings |= _read_zip(fetch(file, data_dir=data_dir, offline=offline), side)
    names = sorted(drawings)
    characters = [name.rpartition("/")[0] for name in names]
    number = {name: k for k, name in enumerate(dict.fromkeys(characters))}
    return ImageData(
        torch.from_numpy(np.stack([drawings[name] for name in names])),
        torch.tensor([number[name] for name in characters], device="cpu"),
        "omniglot/small",
    )


def _read_zip(path: Path, side: int) -> dict[str, np.ndarray]:
    """Read all drawings of a file, by alphabet, character and name."""
    from PIL import Image

    drawings = {}
    with reading(path, "hold Omniglot's PNG files"), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".png"):
                with Image.open(io.BytesIO(archive.read(name))) as picture:
                    grey = picture.convert("L")
                    small = grey.resize((side, side), Image.Resampling.BOX)
                ink = 1 - np.asarray(small, np.float32) / 255
                drawings[name.partition("/")[2]] = ink
    if not drawings:
        raise InputError(f"{path} must hold Omniglot's PNG files, got none")
    return drawings
