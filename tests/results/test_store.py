"""Results are stored whole or not at all, and read back as they were."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebmtut import results
from ebmtut._digests import json_digest
from ebmtut.checks import InputError
from ebmtut.ledger.listing import rows
from ebmtut.random import make_generator
from ebmtut.results import provenance as module
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint


def loaded(root, **options):
    return results.load_result("ed/ising-heatmaps", "quick", root, **options)


def make(value=1.5, **changes):
    fields: dict[str, object] = {
        "id": "ed/ising-heatmaps",
        "scale": "quick",
        "config": {"n_steps": 3, "sigmas": [0.1, 0.2]},
        "scalars": {"rmse": value},
        "arrays": {"coupling": np.arange(6.0).reshape(2, 3)},
        "provenance": results.Provenance(command="ebmtut run", seed=3),
    }
    return results.Result(**{**fields, **changes})


def test_comes_back_as_it_was(tmp_path):
    folder = results.save_result(make(), tmp_path)
    assert folder == tmp_path / "ed" / "ising-heatmaps" / "quick"
    assert sorted(p.name for p in folder.iterdir()) == ["arrays.npz", "result.json"]
    back = loaded(tmp_path)
    assert (back.id, back.scale, back.config) == (make().id, "quick", make().config)
    assert back.scalars == {"rmse": 1.5}
    assert back.provenance == results.Provenance(command="ebmtut run", seed=3)
    assert (back.arrays["coupling"] == make().arrays["coupling"]).all()


def test_non_finite_numbers_become_null(tmp_path):
    folder = results.save_result(make(float("nan")), tmp_path)
    text = (folder / "result.json").read_text("utf-8")
    assert "NaN" not in text
    assert json.loads(text)["scalars"] == {"rmse": None}


def test_json_of_what_code_has_at_hand():
    @dataclass
    class Config:
        side: int
        path: Path

    values = {
        "config": Config(3, Path("a/b")),
        "numpy": np.float32(0.5),
        "array": np.arange(2),
        "tensor": torch.tensor(2.0),
        "tuple": (1, None, True, -np.inf),
        7: "key",
    }
    assert results.to_json(values) == {
        "config": {"side": 3, "path": "a/b"},
        "numpy": 0.5,
        "array": [0, 1],
        "tensor": 2.0,
        "tuple": [1, None, True, None],
        "7": "key",
    }
    for bad, told in (
        ([1, {2}], r"scalars\.a\[1\] must be JSON-able, got \{2\}"),
        ({1.5: "a", "1.5": "b"}, r"scalars\.a must have keys that differ as te"),
    ):
        with pytest.raises(InputError, match=told):
            results.to_json({"a": bad}, "scalars")


@pytest.mark.parametrize("which", [1, 2])
def test_a_failing_rename_leaves_the_old_result(tmp_path, monkeypatch, which):
    results.save_result(make(1.0), tmp_path)
    rename, calls = Path.replace, 0

    def fails(self, target):
        nonlocal calls
        calls += 1
        if calls == which:
            raise OSError("disk gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk gone"):
        results.save_result(make(2.0), tmp_path)
    monkeypatch.undo()
    assert calls >= which
    assert loaded(tmp_path).scalars["rmse"] == 1.0
    # Hidden folders are listed, too.
    folder = tmp_path / "ed" / "ising-heatmaps"
    assert [p.name for p in folder.iterdir()] == ["quick"]


@pytest.mark.parametrize("older", [False, True])
def test_a_killed_save_leaves_no_half_written_result(tmp_path, older):
    """The process dies by SIGKILL between writing the two files."""
    if older:
        results.save_result(make(1.0), tmp_path)
    script = """
        import os, signal, sys
        from pathlib import Path
        from ebmtut.results import Result, save_result

        def die(self, *args, **kwargs):
            os.kill(os.getpid(), signal.SIGKILL)

        Path.write_text = die
        print("saving", flush=True)
        result = Result("ed/ising-heatmaps", "quick", {}, {"rmse": 2.0}, {"a": [1]})
        save_result(result, sys.argv[1])
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "saving\n", done.stderr
    assert done.returncode == -signal.SIGKILL
    # The kill did strike in the middle: a hidden folder with one file is left.
    hidden = (tmp_path / "ed" / "ising-heatmaps").glob(".tmp-*")
    assert [f.name for p in hidden for f in p.iterdir()] == ["arrays.npz"]
    if older:
        assert loaded(tmp_path).scalars == {"rmse": 1.0}
    else:
        with pytest.raises(results.ResultNotFound):
            loaded(tmp_path)
    results.save_result(make(3.0), tmp_path)
    assert loaded(tmp_path).scalars["rmse"] == 3.0


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "results").write_text("a file, not a folder")
    for act in (results.check_writable, lambda root: results.save_result(make(), root)):
        with pytest.raises(InputError, match="cannot be written to") as caught:
            act(tmp_path / "results")
        assert "\n" not in str(caught.value)
        assert str(tmp_path / "results") in str(caught.value)
        assert "give another" in str(caught.value)
    assert results.check_writable(tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("with_arrays", [True, False])
@pytest.mark.parametrize("name", ["result.json", "arrays.npz"])
def test_every_flipped_byte_is_told_in_one_line(tmp_path, name, with_arrays):
    path = results.save_result(make(), tmp_path) / name
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        for flip in (1, 32):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            with pytest.raises(InputError) as caught:
                loaded(tmp_path, with_arrays=with_arrays)
            told = str(caught.value)
            assert "\n" not in told and str(tmp_path) in told
    path.write_bytes(whole)
    loaded(tmp_path, with_arrays=with_arrays)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab") | st.text(max_size=2), inner)
    ),
    max_leaves=6,
)
ENTRIES = ("format", "id", "scale", "config", "scalars", "provenance", "arrays_sha256")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return results.save_result(make(), tmp_path_factory.mktemp("fuzz"))


@settings(deadline=None)
@given(entry=st.sampled_from(ENTRIES), value=JSON, is_signed=st.booleans())
@example(entry="scalars", value={"verdicts": {"a": 1}}, is_signed=True)
@example(entry="scalars", value=[1], is_signed=True)
@example(entry="provenance", value={"a": 1}, is_signed=True)
@example(entry="scale", value="two\nlines", is_signed=True)
def test_any_json_is_a_result_or_one_line(stored, entry, value, is_signed):
    """Also where the digest fits, so that only the types can tell."""
    path = stored / "result.json"
    whole = path.read_text("utf-8")
    content = json.loads(whole) | {entry: value}
    if is_signed:
        content.pop("sha256")
        try:
            content["sha256"] = json_digest(content)
        except ValueError:  # not a number
            content["sha256"] = ""
    path.write_text(json.dumps(content), "utf-8")
    try:
        loaded(stored.parents[2])
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert is_signed or content == json.loads(whole)
    # What can be loaded can also be listed, if only as damaged.
    listed = rows(stored.parents[2], paper="ed", scales=("quick",))
    (row,) = (row for row in listed if row.fact.id == "ed/ising-heatmaps")
    assert row.scales["quick"].state in ("stored", "damaged")
    path.write_text(whole, "utf-8")


@settings(deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_result_or_one_line(stored, content):
    for name in ("result.json", "arrays.npz"):
        whole = (stored / name).read_bytes()
        (stored / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            loaded(stored.parents[2])
        assert "\n" not in str(caught.value)
        (stored / name).write_bytes(whole)


def test_pickles_are_refused_even_with_the_right_hash(tmp_path, monkeypatch):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    evil = tmp_path / "evil.npz"
    array = np.empty(1, dtype=object)
    array[0] = Trap()
    np.savez(evil, trap=array)
    with zipfile.ZipFile(evil) as archive:
        assert pickle.dumps(Trap())[:2] in archive.read("trap.npy")
    monkeypatch.setattr("ebmtut.results.store.to_npz", lambda arrays: evil.read_bytes())
    results.save_result(make(), tmp_path)
    with pytest.raises(InputError, match="allow_pickle"):
        loaded(tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("id", ["ising", "ed/../x", "/ed/x", "ed/x/y", "ED/x", ""])
def test_odd_ids_are_refused(tmp_path, id):
    with pytest.raises(InputError, match="id must look like paper/name"):
        make(id=id)
    with pytest.raises(InputError, match="id must look like paper/name"):
        results.result_folder(id, "quick", tmp_path)


def test_a_result_in_the_folder_of_another_is_refused(tmp_path):
    """Redrawing it would overwrite the row that it says it is."""
    folder = results.save_result(make(), tmp_path)
    for id, scale in (("ed/ising-heatmaps", "full"), ("ed/other", "quick")):
        shutil.copytree(folder, results.result_folder(id, scale, tmp_path))
        with pytest.raises(InputError, match=f"must hold {id} at scale {scale}, got"):
            results.load_result(id, scale, tmp_path)


def test_default_root(tmp_path, monkeypatch):
    monkeypatch.delenv("EBMTUT_RESULTS", raising=False)
    assert results.default_root().name == "results"
    monkeypatch.setenv("EBMTUT_RESULTS", str(tmp_path))
    results.save_result(make())
    assert results.load_result("ed/ising-heatmaps", "quick").scalars == {"rmse": 1.5}
    assert results.default_root() == tmp_path


def test_records_of_a_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results.record("landscape", {"nll": 20.0}, "")
    assert list(tmp_path.iterdir()) == []
    values = {"nll": np.float64(20.0), "grid": np.eye(2), "seed": 3}
    results.record("landscape", values, tmp_path / "out")
    results.record("plain", {"seed": 4}, tmp_path / "out")
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["landscape.json", "landscape.npz", "plain.json"]
    text = (tmp_path / "out" / "landscape.json").read_text("utf-8")
    assert json.loads(text) == {"nll": 20.0, "seed": 3}
    with np.load(tmp_path / "out" / "landscape.npz") as file:
        assert (file["grid"] == np.eye(2)).all()
    with pytest.raises(InputError, match="name must be letters"):
        results.record("../x", {}, tmp_path)


def test_comes_back_bit_for_bit(tmp_path):
    generator = make_generator(0)
    base = torch.randn(4, 6, generator=generator)
    tensors = {
        "weight": base,
        "shared.view": base[:, ::2],
        "half": base.bfloat16(),
        "double": base.double().requires_grad_(),
        "step": torch.tensor(7),
        "generator": generator.get_state(),
    }
    path = tmp_path / "runs" / "a.safetensors"
    save_checkpoint(path, tensors, {"step": 7, "config": {"lr": 2e-3, "name": "é"}})
    back, meta = load_checkpoint(path)
    assert meta == {"step": 7, "config": {"lr": 2e-3, "name": "é"}}
    assert set(back) == set(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)
    assert [p.name for p in path.parent.iterdir()] == ["a.safetensors"]


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"w": torch.zeros(2)}, {"step": 1})

    def fails(self, target):
        raise OSError("disk gone")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk gone"):
        save_checkpoint(path, {"w": torch.ones(2)}, {"step": 2})
    monkeypatch.undo()
    back, meta = load_checkpoint(path)
    assert meta == {"step": 1}
    assert torch.equal(back["w"], torch.zeros(2))
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_a_damaged_file_is_refused(tmp_path, keep):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"w": torch.zeros(50)}, {"step": 1})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"a\.safetensors is damaged") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_says_what_made_a_result(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/home/someone/bin/ebmtut", "run", "ed/epsilon"])
    found = results.collect_provenance(seed=4, started=time.time() - 2.0)
    assert found.command == "ebmtut run ed/epsilon"
    assert found.seed == 4
    assert 2.0 <= found.duration_s < 60.0
    assert datetime.fromisoformat(found.started).tzinfo is not None
    assert {"python", "ebmtut", "torch", "numpy"} <= set(found.versions)
    assert found.device.startswith("cpu (")
    assert json.loads(json.dumps(results.to_json(found))) == asdict(found)


def test_names_no_folder_of_the_machine():
    found = results.collect_provenance(
        seed=None,
        command="/opt/venv/bin/ebmtut run ed/epsilon --out /home/me/x --data=/srv/d y",
        parameters={"out": Path("/home/me/x"), "more": ["/srv/d", "a/b", 3]},
    )
    assert found.command == "ebmtut run ed/epsilon --out x --data=d y"
    assert found.parameters == {"out": "x", "more": ["d", "a/b", 3]}
    text = json.dumps(results.to_json(found))
    for folder in ("/home", "/srv", "/opt", str(Path.cwd()), str(Path.home())):
        assert f'"{folder}' not in text
        assert f"{folder}/" not in text


def git(root, *words):
    config = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(root), *config, *words], check=True)


def test_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    package = tmp_path / "src" / "ebmtut"
    file = package / "results" / "provenance.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    monkeypatch.setattr(module, "__file__", str(file))
    assert module.git_commit() == "unknown"

    git(tmp_path, "init", "-q")
    assert module.git_commit() == "unknown"  # no commit yet
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = module.git_commit()
    assert len(clean) == 40
    (tmp_path / "results.json").write_text("{}")
    assert module.git_commit() == clean
    file.write_text("x = 2\n")
    assert module.git_commit() == f"{clean}-dirty"


def test_an_installed_copy_inside_another_repository_is_unknown(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    file = tmp_path / "lib" / "ebmtut" / "results" / "provenance.py"
    monkeypatch.setattr(module, "__file__", str(file))
    assert module.git_commit() == "unknown"


def test_without_git_it_is_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert module.git_commit() == "unknown"
