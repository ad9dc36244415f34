"""LSUN: photographs of scenes, a database of compressed pictures a category.

The sets are large (churches 2.4 GB, bedrooms 46 GB, validation 5 MB): nothing here
downloads before it is asked for images. The database, LMDB, is a file that is mapped
into memory: it is unpacked once, into the cache.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import torch
from filelock import FileLock

from ebmtut.checks import Count, InputError, OneOf, Range, check_range, checked
from ebmtut.data.datasets import (
    DataUnavailable,
    RemoteFile,
    cache_folder,
    fetch,
    one_line,
    reading,
)
from ebmtut.data.images import ImageData, central_square

__all__ = ["LSUN_FILES", "load_lsun"]

# The authors publish no hashes. These are TensorFlow Datasets' (its checksums of
# "lsun"), through which the paper's code reads the set.
_SHA256 = {
    "bedroom_train": "a15644c2e7153106867f0adb3491fc41224102d1f01b24494fb47d9f5d1f174e",
    "bedroom_val": "5d022e781b241c25ec2e1f1f769afcdb8091d7fd58362667aec03137b8114b12",
    "church_outdoor_train": (
        "91128ae026840ac0c5982b4445ab5fc4e092d6847cca76793b2b1a0815c2e74a"
    ),
    "church_outdoor_val": (
        "34635b7547a3e51a15f942a4a4082dd6bc9cca381a953515cb2275c0eed50584"
    ),
}

#: Yu et al. (2015): the two categories of the paper, by their names.
LSUN_FILES: dict[str, RemoteFile] = {
    name: RemoteFile(
        f"lsun/{name}_lmdb.zip",
        (f"http://dl.yf.io/lsun/scenes/{name}_lmdb.zip",),
        sha256,
    )
    for name, sha256 in _SHA256.items()
}

_CATEGORIES = ("church_outdoor", "bedroom")
_SPLITS = {"train": "train", "validation": "val"}


@checked
def load_lsun(
    category: Annotated[str, OneOf(_CATEGORIES)] = "church_outdoor",
    split: Annotated[str, OneOf(_SPLITS)] = "train",
    *,
    side: Annotated[int, Range(1, 256)] = 64,
    n: Count | None = None,
    data_dir: str | Path | None = None,
    offline: bool | None = None,
) -> ImageData:
    """Load photographs of LSUN: the central square, made smaller.

    Parameters
    ----------
    category
        ``"church_outdoor"`` or ``"bedroom"``.
    split, side
        ``"train"`` or ``"validation"`` (300); pixels a side, 1 to 256, by averaging.
    n
        How many, the first ones; all churches at 64 pixels take 6 GB, all bedrooms 150
        GB.

    Raises
    ------
    DataUnavailable
        If the file is not at hand and cannot be downloaded, or LMDB is not installed.
    """
    lmdb = _lmdb()
    name = f"{category}_{_SPLITS[split]}"
    path = fetch(LSUN_FILES[name], data_dir=data_dir, offline=offline)
    database = _unpacked(path, f"{name}_lmdb")
    return _read_lsun(lmdb, database, side, n, f"lsun/{category}/{split}")


def _lmdb() -> ModuleType:
    try:
        import lmdb
    except ImportError:
        raise DataUnavailable("LSUN needs LMDB: pip install 'ebmtut[lsun]'") from None
    module: ModuleType = lmdb
    return module


def _unpacked(archive: Path, name: str) -> Path:
    """Unpack a database into the cache, whole or not at all; return its file."""
    path = cache_folder() / "lsun" / name / "data.mdb"
    try:
        with zipfile.ZipFile(archive) as whole:
            entry = whole.getinfo(f"{name}/data.mdb")
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock"):
                if not path.is_file() or path.stat().st_size != entry.file_size:
                    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
                    try:
                        with os.fdopen(handle, "wb") as to, whole.open(entry) as come:
                            shutil.copyfileobj(come, to, 1 << 20)
                        Path(partial).replace(path)
                    finally:
                        Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{archive} cannot be unpacked to {path.parent}: {error.strerror}"
        ) from error
    # A damaged archive may fail anywhere in its decompressor.
    except Exception as error:
        raise InputError(
            f"{archive} must be LSUN's archive of {name}: {one_line(error)}"
        ) from error
    return path


def _read_lsun(
    lmdb: ModuleType, path: Path, side: int, n: int | None, source: str
) -> ImageData:
    """Read the first pictures of a database."""
    # Not locked: nothing writes, and the folder may be read-only.
    how = {"subdir": False, "readonly": True, "lock": False, "readahead": False}
    with (
        reading(path, "be an LMDB database of pictures"),
        lmdb.open(str(path), **how) as database,
    ):
        held = database.stat()["entries"]
        if n is None:
            n = held
        check_range("n", n, low=1, high=held, integer=True)
        pictures = np.empty((n, 3, side, side), np.float32)
        for k, content in enumerate(islice(_values(database), n)):
            pictures[k] = central_square(content, side)
    labels = torch.zeros(n, dtype=torch.int64, device="cpu")
    return ImageData(torch.from_numpy(pictures), labels, source)


def _values(database: Any) -> Iterator[bytes]:
    with database.begin() as transaction:
        yield from transaction.cursor().iternext(keys=False, values=True)
