"""CIFAR-10 and CelebA on miniature files of the same formats, whole and damaged."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from ebmtut.checks import InputError
from ebmtut.data.color_images import _read_celeba, _read_cifar10

NAMES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]


def cifar_bytes(parts: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in parts.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture(scope="module")
def records() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    parts = {}
    for name in NAMES:
        parts[name] = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
        parts[name][:, 0] %= 10
    return parts


def test_cifar10_keeps_labels_planes_and_rows(tmp_path, records) -> None:
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(cifar_bytes({n: p.tobytes() for n, p in records.items()}))
    train, test = _read_cifar10(path, "train"), _read_cifar10(path, "test")
    assert train.images.shape == (20, 3, 32, 32)
    assert test.images.shape == (4, 3, 32, 32)
    raw = records["data_batch_3.bin"][1]
    assert train.labels[9] == raw[0]
    # Plane by plane, row by row: the green of row 5, column 7.
    assert train.images[9, 1, 5, 7] == torch.tensor(
        raw[1 + 1024 + 5 * 32 + 7] / 255, dtype=torch.float32
    )


@pytest.mark.parametrize("split", ["train", "test"])
def test_damaged_cifar10_is_refused(tmp_path, records, split) -> None:
    whole = {n: p.tobytes() for n, p in records.items()}
    wrong = {n: p.copy() for n, p in records.items()}
    for part in wrong.values():
        part[0, 0] = 10
    cases = {
        "cut": cifar_bytes(whole)[:5000],
        "short": cifar_bytes({n: p[:-1] for n, p in whole.items()}),
        "label": cifar_bytes({n: p.tobytes() for n, p in wrong.items()}),
        "empty": cifar_bytes(dict.fromkeys(NAMES, b"")),
        "missing": cifar_bytes({}),
    }
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError) as refused:
            _read_cifar10(path, split)
        assert "\n" not in str(refused.value)


def celeba_bytes(pictures: list[Image.Image]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, picture in enumerate(pictures, 1):
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=100, subsampling=0)
            archive.writestr(f"img_align_celeba/{number:06d}.jpg", file.getvalue())
    return content.getvalue()


def test_celeba_keeps_the_central_square(tmp_path) -> None:
    # Red inside the central square, blue outside.
    pixels = np.zeros((218, 178, 3), np.uint8)
    pixels[..., 2] = 255
    pixels[39:179, 19:159] = (255, 0, 0)
    path = tmp_path / "faces.zip"
    path.write_bytes(celeba_bytes([Image.fromarray(pixels)] * 2))
    found = _read_celeba(path, range(1, 3), 20, "celeba/train")
    assert found.images.shape == (2, 3, 20, 20)
    inner = found.images[:, :, 1:-1, 1:-1]
    # JPEG may move a level or two.
    assert (inner - torch.tensor([1.0, 0, 0])[:, None, None]).abs().max() < 0.02
    with pytest.raises(InputError, match="CelebA"):
        _read_celeba(path, range(1, 4), 20, "celeba/train")
    path.write_bytes(celeba_bytes([Image.new("RGB", (100, 218))]))
    with pytest.raises(InputError, match="140"):
        _read_celeba(path, range(1, 2), 20, "celeba/train")
