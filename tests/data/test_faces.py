import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from ebmtut.checks import InputError
from ebmtut.data import drawn_faces, load_faces
from ebmtut.data.faces import _read_mat, _read_tar
from ebmtut.random import make_generator


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (400, 64, 64), dtype=np.uint8)


def write_tar(path: Path, pictures: np.ndarray) -> Path:
    with tarfile.open(path, "w") as tar:
        # Not in the order of their numbers, as in the real file.
        for k in reversed(range(len(pictures))):
            content = io.BytesIO()
            Image.fromarray(pictures[k]).save(content, "PNG")
            entry = tarfile.TarInfo(f"images/image-{k}.png")
            entry.size = len(content.getvalue())
            tar.addfile(entry, io.BytesIO(content.getvalue()))
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
