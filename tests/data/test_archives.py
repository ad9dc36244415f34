"""Archives of pictures, whole and damaged; whatever bytes a file holds."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from ebmtut.checks import InputError
from ebmtut.data import OMNIGLOT_FILES, drawn_faces, load_faces, load_omniglot, read_idx
from ebmtut.data.color_images import _read_celeba, _read_cifar10
from ebmtut.data.faces import _read_mat, _read_tar
from ebmtut.data.omniglot import _read_zip
from ebmtut.random import make_generator
from tests.data.wrong_files import damaged

NAMES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]


def encoded(picture: Image.Image, kind: str = "PNG", **options: int) -> bytes:
    content = io.BytesIO()
    picture.save(content, kind, **options)
    return content.getvalue()


def tar_of(parts: dict[str, bytes], mode: str = "w") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as tar:
        for name, data in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def cifar_bytes(parts: dict[str, bytes]) -> bytes:
    named = {f"cifar-10-batches-bin/{name}": data for name, data in parts.items()}
    return tar_of(named, "w:gz")


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
    want = torch.tensor(raw[1 + 1024 + 5 * 32 + 7] / 255, dtype=torch.float32)
    assert train.images[9, 1, 5, 7] == want


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
            data = encoded(picture, "JPEG", quality=100, subsampling=0)
            archive.writestr(f"img_align_celeba/{number:06d}.jpg", data)
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


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (400, 64, 64), dtype=np.uint8)


def write_tar(path: Path, pictures: np.ndarray) -> Path:
    # Not in the order of their numbers, as in the real file.
    images = reversed([*enumerate(map(Image.fromarray, pictures))])
    path.write_bytes(tar_of({f"images/image-{k}.png": encoded(x) for k, x in images}))
    return path


def test_both_forms_give_the_same_images(tmp_path, pictures):
    tar = _read_tar(write_tar(tmp_path / "faces.tar", pictures))
    by_columns = pictures.transpose(0, 2, 1).reshape(400, -1).T.astype(float)
    savemat(tmp_path / "faces.mat", {"faces": by_columns})
    assert np.array_equal(tar, pictures)
    assert np.array_equal(_read_mat(tmp_path / "faces.mat"), pictures)


def test_damaged_files_are_refused(tmp_path, pictures):
    write_tar(tmp_path / "short.tar", pictures[:3])
    (tmp_path / "no.tar").write_bytes(b"no archive")
    for name in ("short.tar", "no.tar"):
        with pytest.raises(InputError, match="400 faces"):
            _read_tar(tmp_path / name)
    savemat(tmp_path / "other.mat", {"x": np.zeros(3)})
    with pytest.raises(InputError, match="400 faces"):
        _read_mat(tmp_path / "other.mat")


def test_offline_the_drawn_faces_step_in(tmp_path, monkeypatch):
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EBMTUT_DATA", raising=False)
    faces = load_faces(generator=make_generator(0), offline=True)
    assert faces.source == "drawn faces"
    assert faces.images.shape == (400, 64, 64)


def test_drawn_faces_are_people(tmp_path):
    faces = drawn_faces(80, generator=make_generator(0), side=16)
    again = drawn_faces(80, generator=make_generator(0), side=16)
    assert torch.equal(faces.images, again.images)
    assert 0 <= faces.images.min() < faces.images.max() <= 1
    assert torch.equal(faces.labels.bincount(), torch.full((40,), 2))
    # Two pictures of a person are more alike than pictures of two people.
    flat = faces.images.flatten(1)
    distance = torch.cdist(flat, flat)
    same = faces.labels[:, None] == faces.labels
    assert (
        distance[same & ~torch.eye(80, dtype=torch.bool)].mean()
        < distance[~same].mean()
    )


def archive_of(path: Path, drawings: dict[str, np.ndarray]) -> Path:
    """As the authors pack them: folders of alphabets and characters, a bit a pixel."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/", "")
        for name, ink in drawings.items():
            picture = Image.fromarray(~ink).convert("1")
            archive.writestr(f"{path.stem}/{name}.png", encoded(picture))
    return path


def test_ink_is_one_and_averaged(tmp_path: Path) -> None:
    ink = np.zeros((105, 105), bool)
    ink[:15, :30] = True
    found = _read_zip(archive_of(tmp_path / "a.zip", {"Greek/character01/1": ink}), 7)
    (image,) = found.values()
    want = np.zeros((7, 7), np.float32)
    want[0, :2] = 1
    assert list(found) == ["Greek/character01/1.png"]
    assert np.array_equal(image, want)
    half = _read_zip(tmp_path / "a.zip", 5)["Greek/character01/1.png"]
    # 15 of 21 rows; of the second square's columns 9 of 21. Bytes round to 1/510.
    assert half[0, :2] == pytest.approx([15 / 21, 15 * 9 / 21**2], abs=1 / 500)


def test_a_drawing_in_both_files_counts_once(tmp_path, monkeypatch):
    blank, dot = np.zeros((105, 105), bool), np.zeros((105, 105), bool)
    dot[50:55, 50:55] = True
    parts = [
        {"Latin/character02/3": dot, "Greek/character01/1": blank},
        {"Greek/character01/1": blank, "Greek/character01/2": dot},
    ]
    for name, part in zip(OMNIGLOT_FILES, parts, strict=True):
        archive_of(tmp_path / f"{name}.zip", part)
    monkeypatch.setattr(
        "ebmtut.data.omniglot.fetch",
        lambda file, **options: tmp_path / Path(file.name).name,
    )
    data = load_omniglot(side=21)
    assert data.images.shape == (3, 21, 21)
    assert data.labels.tolist() == [0, 0, 1]
    assert data.images.flatten(1).sum(1).tolist() == [0, 1, 1]


WHOLE = b"\0\0\x08\x02\0\0\0\x03\0\0\0\x05" + bytes(range(15))
PACKED = gzip.compress(WHOLE, mtime=0)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "images.gz"


@settings(deadline=None)
@given(st.binary(max_size=60) | damaged(WHOLE, PACKED))
@example(b"\0\0\x08\x01\0\0")  # a size of two bytes
@example(PACKED[:12] + b"\xff" * 20)  # zlib's own error
def test_any_bytes_are_an_array_or_one_line(path, content):
    path.write_bytes(content)
    try:
        found = read_idx(path)
    except InputError as error:
        assert "\n" not in str(error) and "images.gz" in str(error)
    else:
        assert found.dtype == np.uint8


# Large enough to break inside a block.
NOISE = np.random.default_rng(0).integers(0, 9, 3073, dtype=np.uint8).tobytes()
CIFAR = cifar_bytes({"test_batch.bin": NOISE})
FACES = tar_of({"images/image-0.png": NOISE}, "w:gz")


def zipped(name):
    pixels = np.random.default_rng(0).integers(0, 255, (218, 178, 3), dtype=np.uint8)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as whole:
        whole.writestr(name, encoded(Image.fromarray(pixels), "JPEG"))
    return content.getvalue()


CELEBA = zipped("img_align_celeba/000001.jpg")


@settings(deadline=None)
@given(st.data())
def test_any_archive_is_images_or_one_line(path, data):
    """The checksum keeps damaged downloads out; this is for files put there by hand."""
    whole, read = data.draw(
        st.sampled_from(
            [
                (CIFAR, lambda file: _read_cifar10(file, "test")),
                (CELEBA, lambda file: _read_celeba(file, range(1, 2), 8, "celeba")),
                (FACES, _read_tar),
                (b"MATLAB 5.0 MAT-file" + bytes(200), _read_mat),
            ]
        )
    )
    path.write_bytes(data.draw(damaged(whole)))
    try:
        read(path)
    except InputError as error:
        assert "\n" not in str(error) and "images.gz" in str(error)
