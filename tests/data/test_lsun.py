"""LSUN on a miniature database of the same format, whole and damaged."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ebmtut.checks import InputError
from ebmtut.data import LSUN_FILES, DataUnavailable, load_lsun
from ebmtut.data.datasets import RemoteFile, sha256_of

lmdb = pytest.importorskip("lmdb")

NAME = "church_outdoor_val"


def picture(color, size=(60, 40), form="WEBP") -> bytes:
    """A picture whose central square has one colour, and whose rim is blue."""
    width = min(size)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[..., 2] = 255
    left, top = (size[0] - width) // 2, (size[1] - width) // 2
    pixels[top : top + width, left : left + width] = color
    file = io.BytesIO()
    lossless = {"lossless": True} if form == "WEBP" else {"quality": 100}
    Image.fromarray(pixels).save(file, form, **lossless)
    return file.getvalue()


def archive_of(folder: Path, entries: dict[bytes, bytes], name: str = NAME) -> Path:
    """A database as the authors pack it: data.mdb and lock.mdb in a folder."""
    database = folder / f"{name}_lmdb"
    with (
        lmdb.open(str(database), map_size=1 << 24) as whole,
        whole.begin(write=True) as t,
    ):
        for key, value in entries.items():
            t.put(key, value)
    path = folder / "lsun" / f"{name}_lmdb.zip"
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in ("data.mdb", "lock.mdb"):
            archive.write(database / part, f"{name}_lmdb/{part}")
    return path


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publish an archive: what LSUN's hash is for the real one."""
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EBMTUT_OFFLINE", "1")

    def publish(entries: dict[bytes, bytes]) -> Path:
        path = archive_of(tmp_path, entries)
        trust(path)
        return path

    def trust(path: Path) -> None:
        file = RemoteFile(f"lsun/{NAME}_lmdb.zip", (), sha256_of(path))
        monkeypatch.setitem(LSUN_FILES, NAME, file)

    publish.trust = trust
    return publish


RED, GREEN = (255, 0, 0), (0, 255, 0)


def test_pictures_come_in_the_order_of_their_keys(tmp_path, published) -> None:
    published(
        {
            b"b1": picture(GREEN, (40, 60)),
            b"a0": picture(RED),
            b"c2": picture(GREEN, form="JPEG"),
        }
    )
    options = {"split": "validation", "data_dir": tmp_path}
    found = load_lsun("church_outdoor", side=8, **options)
    assert found.images.shape == (3, 3, 8, 8)
    assert found.source == "lsun/church_outdoor/validation"
    assert found.labels.tolist() == [0, 0, 0]
    # Nothing of the blue rim is in the square, whichever side is the longer one.
    for image, color in zip(found.images[:2], (RED, GREEN), strict=True):
        assert torch.equal(
            image, torch.tensor(color)[:, None, None].expand(3, 8, 8) / 255
        )
    inner = found.images[2, :, 1:-1, 1:-1]
    # JPEG may move some levels.
    assert (inner - torch.tensor([0.0, 1, 0])[:, None, None]).abs().max() < 0.02
    first = load_lsun("church_outdoor", side=8, n=2, **options)
    assert torch.equal(first.images, found.images[:2])
    with pytest.raises(InputError, match="n must be"):
        load_lsun("church_outdoor", n=4, **options)


def test_it_is_unpacked_once_and_anew_where_it_was_cut(tmp_path, published) -> None:
    published({b"a": picture(RED)})
    options = {"split": "validation", "data_dir": tmp_path, "side": 4}
    load_lsun("church_outdoor", **options)
    (database,) = (tmp_path / "cache").rglob("data.mdb")
    made = database.stat()
    load_lsun("church_outdoor", **options)
    assert database.stat().st_mtime_ns == made.st_mtime_ns
    database.write_bytes(b"cut")
    assert load_lsun("church_outdoor", **options).images.shape == (1, 3, 4, 4)
    assert database.stat().st_size == made.st_size
    assert not list(database.parent.glob(".tmp-*"))


def test_what_is_no_such_archive_is_refused_in_one_line(tmp_path, published) -> None:
    path = published({b"a": b"no picture"})
    options = {"split": "validation", "data_dir": tmp_path}
    with pytest.raises(InputError, match="database of pictures") as refused:
        load_lsun("church_outdoor", **options)
    assert "\n" not in str(refused.value)
    whole = path.read_bytes()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("another_lmdb/data.mdb", b"")
    other = (tmp_path / "other.zip").read_bytes()
    for content in (b"", whole[: len(whole) // 2], other):
        path.write_bytes(content)
        published.trust(path)
        with pytest.raises(InputError, match="LSUN's archive") as refused:
            load_lsun("church_outdoor", **options)
        assert "\n" not in str(refused.value)
    # Another content than the published one is not even opened.
    path.write_bytes(whole)
    with pytest.raises(InputError, match="SHA-256"):
        load_lsun("church_outdoor", **options)


def test_without_lmdb_the_message_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(DataUnavailable, match=r"pip install 'ebmtut\[lsun\]'"):
        load_lsun("bedroom", offline=True)
