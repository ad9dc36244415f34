"""Digests equal those of hashlib, and see names, order and content."""

import hashlib

from ebmtut._digests import files_digest, json_digest, sha256_of, text_digest


def test_of_texts_values_and_files(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    known = hashlib.sha256(b"abc").hexdigest()
    assert text_digest("abc") == sha256_of(tmp_path / "a") == known
    assert json_digest({"b": 1, "a": 2}) == json_digest({"a": 2, "b": 1})
    assert json_digest({"a": 1}) != json_digest({"a": 2})


def test_of_folders(tmp_path):
    for name, content in (("a", b"x"), ("b", b"y")):
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / "a", tmp_path / "b"]
    digest = files_digest(tmp_path, files)
    assert digest == files_digest(tmp_path, files)
    assert digest != files_digest(tmp_path, files, lambda path: b"")
    (tmp_path / "b").rename(tmp_path / "c")
    assert digest != files_digest(tmp_path, [tmp_path / "a", tmp_path / "c"])
