"""Omniglot on miniature archives of the same form."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ebmtut.data import OMNIGLOT_FILES, load_omniglot
from ebmtut.data.omniglot import _read_zip


def archive_of(path: Path, drawings: dict[str, np.ndarray]) -> Path:
    """As the authors pack them: folders of alphabets and characters, a bit a pixel."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/", "")
        for name, ink in drawings.items():
            content = io.BytesIO()
            Image.fromarray(~ink).convert("1").save(content, "PNG")
            archive.writestr(f"{path.stem}/{name}.png", content.getvalue())
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
