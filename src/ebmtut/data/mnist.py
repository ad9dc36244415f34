"""MNIST: 70,000 handwritten digits (LeCun, Cortes and Burges; CC BY-SA 3.0)."""

import gzip
import math
import zlib
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from ebmtut.checks import InputError, OneOf, check_type, checked
from ebmtut.data.datasets import DataUnavailable, RemoteFile, fetch
from ebmtut.data.images import ImageData, glyph_digits

__all__ = ["MNIST_FILES", "load_digits", "load_mnist", "read_idx"]

# The original host often refuses; the first two are long-standing mirrors.
_HOSTS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_PREFIX = {"train": "train", "test": "t10k"}
_SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}

#: The four files of the set, by name.
MNIST_FILES: dict[str, RemoteFile] = {
    name: RemoteFile(f"mnist/{name}", tuple(host + name for host in _HOSTS), sha256)
    for name, sha256 in _SHA256.items()
}


@checked
def load_mnist(
    split: Annotated[str, OneOf(_PREFIX)] = "train",
    *,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load the training or the test images.

    Parameters
    ----------
    split
        ``"train"`` (60,000 images) or ``"test"`` (10,000).

    Raises
    ------
    DataUnavailable
        If the files are not at hand and cannot be downloaded.
    """

    def read(kind: str) -> torch.Tensor:
        file = MNIST_FILES[f"{_PREFIX[split]}-{kind}-ubyte.gz"]
        path = fetch(file, data_dir=data_dir, offline=offline)
        return torch.from_numpy(read_idx(path))

    images, labels = read("images-idx3"), read("labels-idx1")
    return ImageData(images.float() / 255.0, labels.long(), f"mnist/{split}")


@checked
def load_digits(
    split: str = "train",
    *,
    generator: torch.Generator,
    n_glyphs: int = 10_000,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load MNIST, or draw :func:`ebmtut.data.glyph_digits` where it is out of reach.

    Returns
    -------
    digits
        Its ``source`` says which of the two it is.
    """
    check_type("generator", generator, torch.Generator)
    try:
        return load_mnist(split, data_dir=data_dir, offline=offline)
    except DataUnavailable:
        return glyph_digits(n_glyphs, generator=generator)


@checked
def read_idx(path: str | Path) -> np.ndarray:
    """Read an array of bytes in the IDX format, gzipped or not.

    Two zero bytes, the type (8), the number of axes, their sizes as big-endian 32-bit
    integers, and the values.
    """
    check_type("path", path, str, Path)
    content = Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} must be a whole gzip file: {error}") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise InputError(
            f"{path} must be an IDX file of bytes, got the head {content[:4].hex()}"
        )
    start = 4 + 4 * content[3]
    head = content[4:start]
    whole = len(head) == 4 * content[3]
    shape = np.frombuffer(head, ">u4").astype(int).tolist() if whole else []
    if not whole or len(content) != start + math.prod(shape):
        raise InputError(
            f"{path} must hold {tuple(shape)} bytes of values, "
            f"got {max(len(content) - start, 0)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
