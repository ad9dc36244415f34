"""The ORL faces: 400 photographs of 40 people (AT&T Laboratories Cambridge)."""

import io
import tarfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import Count, Range, checked
from ebmtut.data.datasets import DataUnavailable, RemoteFile, fetch, reading
from ebmtut.data.images import ImageData
from ebmtut.random import check_generator

__all__ = ["OLIVETTI_FILES", "drawn_faces", "load_faces", "load_olivetti"]

_N, _SIDE = 400, 64

#: The set as scikit-learn fetches it, and as pictures; either will do.
OLIVETTI_FILES: dict[str, RemoteFile] = {
    "olivetti-png.tar": RemoteFile(
        "olivetti/olivetti-png.tar",
        (),  # only where it is at hand
        "8b681eba1ff4970526fcb478ba7fe2b9e89a341dc46684bf4ae65b76afdff322",
    ),
    "olivettifaces.mat": RemoteFile(
        "olivetti/olivettifaces.mat",
        (
            "https://ndownloader.figshare.com/files/5976027",
            "https://cs.nyu.edu/~roweis/data/olivettifaces.mat",
        ),
        "b612fb967f2dc77c9c62d3e1266e0c73d5fca46a4b8906c18e454d41af987794",
    ),
}


@checked
def load_olivetti(
    *, data_dir: str | Path | None = None, offline: bool | None = None
) -> ImageData:
    """Load the 400 faces.

    Returns
    -------
    faces
        400 images of 64 by 64 pixels in [0, 1], float32; the label is the person.

    Raises
    ------
    DataUnavailable
        If neither form of the set is at hand or can be downloaded.
    """
    try:
        tar = OLIVETTI_FILES["olivetti-png.tar"]
        images = _read_tar(fetch(tar, data_dir=data_dir, offline=True))
    except DataUnavailable:
        mat = OLIVETTI_FILES["olivettifaces.mat"]
        images = _read_mat(fetch(mat, data_dir=data_dir, offline=offline))
    # Ten pictures a person, one person after the other.
    labels = torch.arange(_N, device="cpu") // 10
    return ImageData(torch.from_numpy(images).float() / 255.0, labels, "olivetti")


@checked
def load_faces(
    *,
    generator: torch.Generator,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load the faces, or draw :func:`drawn_faces` where the faces are out of reach.

    Returns
    -------
    faces
        Its ``source`` says which of the two it is.
    """
    check_generator(generator)
    try:
        return load_olivetti(data_dir=data_dir, offline=offline)
    except DataUnavailable:
        return drawn_faces(_N, generator=generator)


@checked
def drawn_faces(
    n: Count, *, generator: torch.Generator, side: Annotated[int, Range(low=8)] = _SIDE
) -> ImageData:
    """Draw ovals with eyes and a mouth, lit from one side.

    A stand-in where no photograph is at hand, with 40 "people".

    Returns
    -------
    faces
        Images of ``side`` by ``side`` pixels in [0, 1], float32, and labels.
    """
    check_generator(generator)
    labels = torch.arange(n, device="cpu") * 40 // n
    axis = torch.linspace(-1, 1, side, dtype=torch.float32, device="cpu")
    of: Any = {"generator": generator, "device": generator.device}
    people = torch.rand(40, 5, dtype=torch.float32, **of)[labels]
    poses = torch.randn(n, 3, dtype=torch.float32, **of)

    def blob(x: Tensor, y: Tensor, width: Tensor, height: Tensor) -> Tensor:
        along = ((axis[None, None, :] - x[:, None, None]) / width[:, None, None]) ** 2
        down = ((axis[None, :, None] - y[:, None, None]) / height[:, None, None]) ** 2
        return torch.sigmoid(8 * (1 - along - down))

    x, y = 0.08 * poses[:, 0], 0.05 * poses[:, 1]
    wide, tall = 0.5 + 0.2 * people[:, 0], 0.7 + 0.2 * people[:, 1]
    eye, apart = 0.06 + 0.06 * people[:, 2], wide * (0.35 + 0.15 * people[:, 3])
    images = 0.2 + 0.6 * blob(x, y, wide, tall)
    for shift in (-apart, apart):
        images = images - 0.4 * blob(x + shift, y - 0.2, eye, eye)
    mouth = 0.15 + 0.15 * people[:, 4]
    images = images - 0.3 * blob(x, y + 0.4 * tall, mouth, 0.3 * mouth)
    light = 1 + 0.2 * poses[:, 2, None, None] * axis
    return ImageData((images * light).clamp(0.0, 1.0), labels, "drawn faces")


def _read_tar(path: Path) -> np.ndarray:
    """Read images/image-0.png, ..., image-399.png as (400, 64, 64) bytes."""
    from PIL import Image

    pictures = []
    with reading(path, f"hold {_N} faces as PNG"), tarfile.open(path) as tar:
        for k in range(_N):
            file = tar.extractfile(f"images/image-{k}.png")
            if file is None:
                raise KeyError(f"images/image-{k}.png")
            with Image.open(io.BytesIO(file.read())) as picture:
                pictures.append(np.asarray(picture.convert("L")))
        return np.stack(pictures).reshape(_N, _SIDE, _SIDE)


def _read_mat(path: Path) -> np.ndarray:
    """Read ``faces``, (4096, 400), whose images are stored by columns."""
    from scipy.io import loadmat

    with reading(path, f"hold {_N} faces of a MAT file"):
        faces = np.asarray(loadmat(path)["faces"])
        return faces.T.reshape(_N, _SIDE, _SIDE).transpose(0, 2, 1).copy()
