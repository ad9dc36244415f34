"""Colour images of the literature: CIFAR-10 and CelebA.

CIFAR-10's binary version is read, not the pickled one. Neither set is small (170 MB,
1.4 GB): nothing here downloads before it is asked for images.
"""

import tarfile
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from ebmtut.checks import InputError, OneOf, Range, check_range, checked
from ebmtut.data.datasets import RemoteFile, fetch, reading
from ebmtut.data.images import ImageData, central_square

__all__ = ["CELEBA_FILE", "CIFAR10_FILE", "load_celeba", "load_cifar10"]

_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE

#: Krizhevsky (2009), the binary version.
CIFAR10_FILE = RemoteFile(
    "cifar10/cifar-10-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

_CIFAR10_PARTS = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
}

#: Liu et al. (2015), aligned and cropped, as PyTorch's tutorials mirror it; the
#: authors' own copy, of the same hash, lies behind a form.
CELEBA_FILE = RemoteFile(
    "celeba/img_align_celeba.zip",
    ("https://s3.amazonaws.com/pytorch-tutorial-assets/img_align_celeba.zip",),
    "46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
)

# First and last number of the files of each split, as the authors divide them.
_CELEBA_PARTS = {
    "train": (1, 162_770),
    "validation": (162_771, 182_637),
    "test": (182_638, 202_599),
}


@checked
def load_cifar10(
    split: Annotated[str, OneOf(_CIFAR10_PARTS)] = "train",
    *,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load the training or the test images of CIFAR-10.

    Parameters
    ----------
    split, data_dir, offline
        ``"train"`` (50,000 images) or ``"test"`` (10,000); see
        :func:`ebmtut.data.fetch`.

    Returns
    -------
    image_data
        Images (n, 3, 32, 32) in [0, 1], float32; labels (n,), int64.

    Raises
    ------
    DataUnavailable
        If the file is not at hand and cannot be downloaded.
    """
    return _read_cifar10(fetch(CIFAR10_FILE, data_dir=data_dir, offline=offline), split)


@checked
def load_celeba(
    split: Annotated[str, OneOf(_CELEBA_PARTS)] = "train",
    *,
    side: Annotated[int, Range(1, 140)] = 64,
    n: int | None = None,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load faces of CelebA: the central square of 140 pixels, made smaller.

    Parameters
    ----------
    split
        ``"train"`` (162,770 images), ``"validation"`` or ``"test"``.
    side, n
        Pixels a side, 1 to 140, by averaging; how many images, the first ones.

    Returns
    -------
    image_data
        Images (n, 3, side, side) in [0, 1], float32; labels are zero.

    Raises
    ------
    DataUnavailable
        If the file is not at hand and cannot be downloaded.
    """
    first, last = _CELEBA_PARTS[split]
    if n is not None:
        check_range("n", n, low=1, high=last - first + 1, integer=True)
        last = first + n - 1
    path = fetch(CELEBA_FILE, data_dir=data_dir, offline=offline)
    return _read_celeba(path, range(first, last + 1), side, f"celeba/{split}")


def _read_cifar10(path: Path, split: str) -> ImageData:
    """Read records of a label and three planes of 32 x 32 bytes."""
    parts = []
    with reading(path, "be CIFAR-10's binary version"), tarfile.open(path) as tar:
        for name in _CIFAR10_PARTS[split]:
            file = tar.extractfile(f"cifar-10-batches-bin/{name}")
            if file is None:
                raise KeyError(name)
            parts.append(np.frombuffer(file.read(), np.uint8))
    for name, part in zip(_CIFAR10_PARTS[split], parts, strict=True):
        if not len(part) or len(part) % _RECORD:
            raise InputError(
                f"{name} in {path} must hold records of {_RECORD} bytes, "
                f"got {len(part)} bytes"
            )
    records = np.concatenate(parts).reshape(-1, _RECORD)
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    if int(labels.max()) > 9:
        raise InputError(f"labels in {path} must be 0 to 9, got {int(labels.max())}")
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, _SIDE, _SIDE).copy())
    return ImageData(images.float() / 255.0, labels, f"cifar10/{split}")


def _read_celeba(path: Path, numbers: range, side: int, source: str) -> ImageData:
    """Read img_align_celeba/000001.jpg and so on, 178 pixels wide and 218 high."""
    pictures = np.empty((len(numbers), 3, side, side), np.float32)
    with (
        reading(path, "hold CelebA's aligned JPEG files"),
        zipfile.ZipFile(path) as archive,
    ):
        for k, number in enumerate(numbers):
            content = archive.read(f"img_align_celeba/{number:06d}.jpg")
            pictures[k] = central_square(content, side, 140)
    labels = torch.zeros(len(numbers), dtype=torch.int64, device="cpu")
    return ImageData(torch.from_numpy(pictures), labels, source)
