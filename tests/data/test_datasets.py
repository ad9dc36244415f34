"""Fetching: at hand, cached, damaged, unreachable; MNIST's format; Ising data."""

import functools
import gzip
import hashlib
import http.server
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import (
    DataUnavailable,
    RemoteFile,
    fetch,
    ising_samples,
    load_celeba,
    load_cifar10,
    load_lsun,
    load_mnist,
    load_olivetti,
    load_omniglot,
    read_idx,
    sha256_of,
)
from ebmtut.data import mnist as mnist_module
from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index

CONTENT = b"seven bits make no byte" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Host(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EBMTUT_DATA", raising=False)
    monkeypatch.delenv("EBMTUT_OFFLINE", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "good.bin").write_bytes(CONTENT)
    (folder / "bad.bin").write_bytes(b"moved for ever")
    return folder


@pytest.fixture
def host(served: Path) -> Iterator[str]:
    handler = functools.partial(Host, directory=str(served))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def remote(*urls: str) -> RemoteFile:
    return RemoteFile("set/file.bin", urls, SHA256)


def leftovers(tmp_path: Path) -> list[str]:
    return [p.name for p in (tmp_path / "cache").rglob(".tmp-*")]


def test_downloads_once(host: str, served: Path, tmp_path: Path) -> None:
    path = fetch(remote(f"{host}good.bin"))
    assert path == tmp_path / "cache" / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    (served / "good.bin").unlink()
    assert fetch(remote(f"{host}good.bin")) == path
    assert leftovers(tmp_path) == []


def test_takes_the_first_place_that_has_the_right_content(host, tmp_path):
    urls = (f"{host}missing.bin", f"{host}bad.bin", f"{host}good.bin")
    assert sha256_of(fetch(remote(*urls))) == SHA256
    assert leftovers(tmp_path) == []


def test_a_damaged_cached_file_is_fetched_again(host: str, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "set" / "file.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT[:-1])
    assert fetch(remote(f"{host}good.bin")).read_bytes() == CONTENT


def test_wrong_content_is_never_kept(host: str, tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable, match="SHA-256 must be"):
        fetch(remote(f"{host}bad.bin"))
    assert not (tmp_path / "cache" / "set" / "file.bin").exists()
    assert leftovers(tmp_path) == []


def test_an_unreachable_place_says_where_to_put_the_file(host, tmp_path):
    # Port 9 of this machine answers nobody.
    with pytest.raises(DataUnavailable) as caught:
        fetch(remote(f"{host}missing.bin", "http://127.0.0.1:9/file.bin"))
    where = str(tmp_path / "cache" / "set" / "file.bin")
    assert_one_line(caught.value, where, "status 404", "refused", "EBMTUT_DATA")


def test_offline_leaves_the_network_alone(host, tmp_path, monkeypatch):
    monkeypatch.setenv("EBMTUT_OFFLINE", "1")
    with pytest.raises(DataUnavailable, match="downloads are off"):
        fetch(remote(f"{host}good.bin"))
    # Nor does it leave anything on the disk.
    assert not (tmp_path / "cache").exists()
    assert fetch(remote(f"{host}good.bin"), offline=False).is_file()


def test_a_file_at_hand_comes_first(tmp_path, monkeypatch):
    at_hand = tmp_path / "at-hand" / "set" / "file.bin"
    at_hand.parent.mkdir(parents=True)
    at_hand.write_bytes(CONTENT)
    monkeypatch.setenv("EBMTUT_DATA", str(tmp_path / "at-hand"))
    assert fetch(remote(), offline=True) == at_hand
    monkeypatch.delenv("EBMTUT_DATA")
    assert fetch(remote(), data_dir=tmp_path / "at-hand", offline=True) == at_hand


def test_a_damaged_file_at_hand_is_refused_and_kept(host: str, tmp_path: Path) -> None:
    at_hand = tmp_path / "at-hand" / "set" / "file.bin"
    at_hand.parent.mkdir(parents=True)
    at_hand.write_bytes(b"edited")
    with pytest.raises(InputError, match=r"file\.bin is damaged") as caught:
        fetch(remote(f"{host}good.bin"), data_dir=tmp_path / "at-hand")
    assert_one_line(caught.value, str(at_hand))
    assert at_hand.read_bytes() == b"edited"


def test_an_unusable_cache_folder_is_named(tmp_path, monkeypatch):
    (tmp_path / "plain").write_text("a file, not a folder")
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path / "plain" / "cache"))
    # What can be drawn instead is drawn: see who catches DataUnavailable.
    with pytest.raises(DataUnavailable, match="EBMTUT_CACHE") as caught:
        fetch(remote("http://127.0.0.1:9/"))
    assert_one_line(caught.value, str(tmp_path / "plain" / "cache"))


def assert_one_line(error: Exception, *parts: str) -> None:
    assert "\n" not in str(error)
    for part in parts:
        assert part in str(error)


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def test_reads_what_the_format_says(tmp_path: Path) -> None:
    array = np.arange(2 * 3 * 300, dtype=np.uint32).astype(np.uint8).reshape(2, 3, 300)
    plain, packed = tmp_path / "plain", tmp_path / "packed.gz"
    plain.write_bytes(idx(array))
    packed.write_bytes(gzip.compress(idx(array)))
    for path in (plain, packed):
        read = read_idx(path)
        assert read.shape == array.shape
        assert read.dtype == np.uint8
        assert (read == array).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "IDX file of bytes"),
        (b"\0\0\x08\x01\0\0", "bytes of values"),
        (b"<html>not here</html>", "got the head 3c68746d"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], r"must hold \(2, 3\) bytes.* got 5"),
        (gzip.compress(idx(np.zeros(99, np.uint8)), mtime=0)[:-9], "whole gzip file"),
    ],
)
def test_refuses_what_is_not_the_format(tmp_path, content, message):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_idx(path)
    assert_one_line(caught.value, "images.gz")


def test_loads_a_small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8)
    labels = np.array([3, 1, 4, 1, 5], dtype=np.uint8)
    files = {}
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        path = tmp_path / "at-hand" / "mnist" / f"t10k-{kind}-ubyte.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(idx(array)))
        files[path.name] = RemoteFile(f"mnist/{path.name}", (), sha256_of(path))
    monkeypatch.setattr(mnist_module, "MNIST_FILES", files)
    data = load_mnist("test", data_dir=tmp_path / "at-hand")
    assert data.source == "mnist/test"
    assert data.images.dtype == torch.float32
    torch.testing.assert_close(data.images, torch.from_numpy(images).float() / 255)
    assert data.labels.tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (lambda **how: load_cifar10("test", **how), "cifar10/cifar-10-binary.tar.gz"),
        (lambda **how: load_celeba("train", **how), "celeba/img_align_celeba.zip"),
        (lambda **how: load_lsun("bedroom", **how), "lsun/bedroom_train_lmdb.zip"),
        (load_olivetti, "olivetti/olivetti-png.tar"),
        (load_omniglot, "omniglot/images_background_small1.zip"),
    ],
)
def test_sets_are_asked_for_by_name_and_held_to_their_hash(load, name, tmp_path):
    with pytest.raises(DataUnavailable, match=name.split("/")[0]) as caught:
        load(offline=True)
    assert_one_line(caught.value, "EBMTUT_DATA")
    path = tmp_path / name
    path.parent.mkdir()
    path.write_bytes(b"another content")
    with pytest.raises(InputError, match="SHA-256"):
        load(data_dir=tmp_path, offline=True)


@pytest.mark.parametrize("sigma", [0.2, -0.2])
def test_distribution_of_a_small_lattice(sigma: float) -> None:
    """Frequencies of energy levels on 3 x 3 against enumeration, chi-square."""
    energy = LatticeIsing(3, sigma)
    states = enumerate_states(9)
    probability = exact_probabilities(energy, 9).exp()
    levels, level = energy(states).mul(1e6).round().unique(return_inverse=True)
    expected = torch.zeros(len(levels), dtype=torch.float64)
    expected.index_add_(0, level, probability)
    n = 20_000
    x = ising_samples(3, sigma, n, generator=make_generator(0), n_sweeps=100)
    counts = torch.bincount(level[states_to_index(x)], minlength=len(levels))
    often = expected * n >= 5
    gap = (counts - n * expected)[often]
    statistic = float((gap**2 / (n * expected)[often]).sum())
    freedom = int(often.sum()) - 1
    # Mean k and variance 2k; five standard deviations, and room for the skew.
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 10


def test_both_magnetisations_have_half_the_mass_below_the_critical_point() -> None:
    """Each chain keeps the sign that it fell into, and its start was fair."""
    x = ising_samples(6, 0.5, 1000, generator=make_generator(1), n_sweeps=200)
    magnetisation = bits_to_spins(x).mean(dim=1)
    assert float((magnetisation.abs() > 0.8).float().mean()) > 0.9
    up = float((magnetisation > 0).float().mean())
    assert abs(up - 0.5) <= 5 * 0.5 / math.sqrt(1000)
