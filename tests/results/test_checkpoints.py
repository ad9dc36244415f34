"""Checkpoints come back bit for bit, and a failed save keeps the old one."""

from pathlib import Path

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint


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
