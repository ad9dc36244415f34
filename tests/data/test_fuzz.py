"""Whatever bytes a file holds: an array, or our error in one line."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from ebmtut.checks import InputError
from ebmtut.data import read_idx
from ebmtut.data.color_images import _read_celeba, _read_cifar10
from ebmtut.data.faces import _read_mat, _read_tar

WHOLE = b"\0\0\x08\x02\0\0\0\x03\0\0\0\x05" + bytes(range(15))
PACKED = gzip.compress(WHOLE, mtime=0)


@st.composite
def damaged(draw):
    """Either form with some bytes changed, and cut anywhere."""
    content = bytearray(draw(st.sampled_from([WHOLE, PACKED])))
    for _ in range(draw(st.integers(0, 4))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "images.gz"


@settings(deadline=None)
@given(st.binary(max_size=60) | damaged())
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


def archive(names):
    """Files of noise in a gzipped tar, large enough to break inside a block."""
    noise = np.random.default_rng(0).integers(0, 9, 3073, dtype=np.uint8).tobytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in names:
            about = tarfile.TarInfo(name)
            about.size = len(noise)
            tar.addfile(about, io.BytesIO(noise))
    return buffer.getvalue()


CIFAR = archive(["cifar-10-batches-bin/test_batch.bin"])
FACES = archive(["images/image-0.png"])


def zipped(name):
    """A picture of noise in an archive."""
    pixels = np.random.default_rng(0).integers(0, 255, (218, 178, 3), dtype=np.uint8)
    picture, content = io.BytesIO(), io.BytesIO()
    Image.fromarray(pixels).save(picture, "JPEG")
    with zipfile.ZipFile(content, "w") as whole:
        whole.writestr(name, picture.getvalue())
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
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        read(path)
    except InputError as error:
        assert "\n" not in str(error) and "images.gz" in str(error)
