"""FID and inception score: the bridge to the library's network, and the numbers."""

import hashlib
import sys

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import nn

from ebmtut.checks import InputError
from ebmtut.metrics import InceptionFeatures, fid, inception, inception_features
from ebmtut.random import make_generator


class Stub(nn.Module):
    """In place of the library's network: features that can be told by hand."""

    def __init__(self, name, features, *, feature_extractor_weights_path):
        super().__init__()
        assert (name, features) == ("inception-v3-compat", ["2048", "logits_unbiased"])
        state = torch.load(feature_extractor_weights_path, weights_only=True)
        self.register_buffer("scale", state["scale"])
        self.sizes: list[int] = []

    def forward(self, pixels):
        assert pixels.dtype == torch.uint8 and pixels.shape[1] == 3
        means = pixels.float().mean((2, 3))
        return self.scale * means, torch.log(1 + means)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """Publish weights for the stub: a file that carries its hash in its name."""
    path = tmp_path / "weights.pth"
    torch.save({"scale": torch.tensor(2.0)}, path)
    digits = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    published = f"https://somewhere/weights-2015-12-05-{digits}.pth"
    monkeypatch.setattr(inception, "INCEPTION_WEIGHTS", published)
    monkeypatch.setattr(inception, "_library", lambda: Stub)
    return path


def test_images_reach_the_network_as_bytes_in_order(weights) -> None:
    images = torch.rand(7, 3, 4, 5, generator=make_generator(0))
    found = inception_features(images, weights, batch_size=3)
    means = (images * 255).round().mean((2, 3)).double()
    assert found.pooled.dtype == found.probabilities.dtype == torch.float64
    assert torch.allclose(found.pooled, 2 * means)
    want = (1 + means) / (1 + means).sum(1, keepdim=True)
    assert torch.allclose(found.probabilities, want, atol=1e-6)


def some_features(n: int, shift: float, seed: int) -> InceptionFeatures:
    generator = make_generator(seed)
    mix = torch.randn(5, 5, dtype=torch.float64, generator=make_generator(9))
    pooled = torch.randn(n, 5, dtype=torch.float64, generator=generator) @ mix + shift
    logits = 2 * torch.randn(n, 6, dtype=torch.float64, generator=generator)
    return InceptionFeatures(pooled, logits.softmax(1))


def test_the_distance_is_the_literatures() -> None:
    """The literature takes the root of the covariances' product, of the same trace."""
    data, samples = some_features(300, 0.0, 1), some_features(200, 0.4, 2)
    moments = [
        (f.pooled.numpy().mean(0), np.cov(f.pooled.numpy(), rowvar=False))
        for f in (data, samples)
    ]
    (mean1, cov1), (mean2, cov2) = moments
    root = linalg.sqrtm(cov1 @ cov2).real
    want = ((mean1 - mean2) ** 2).sum() + np.trace(cov1 + cov2 - 2 * root)
    assert fid(data, samples) == pytest.approx(want, rel=1e-9)
    assert fid(data, data) == pytest.approx(0, abs=1e-9)


def test_the_distance_is_the_librarys() -> None:
    try:
        from torch_fidelity.metric_fid import (
            fid_features_to_statistics,
            fid_statistics_to_metric,
        )
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torch-fidelity is not at hand: {error}")
    data, samples = some_features(300, 0.0, 4), some_features(200, 0.4, 5)
    moments = [fid_features_to_statistics(f.pooled) for f in (data, samples)]
    (theirs,) = fid_statistics_to_metric(*moments, verbose=False).values()
    assert fid(data, samples) == pytest.approx(theirs, rel=1e-9)


def test_other_weights_are_refused_in_one_line(weights, tmp_path) -> None:
    images = torch.zeros(2, 3, 8, 8)
    with pytest.raises(InputError, match=r"got no file at .* published at") as refused:
        inception_features(images, tmp_path / "nowhere.pth")
    assert "\n" not in str(refused.value)
    weights.write_bytes(b"another content")
    with pytest.raises(InputError, match="SHA-256 must start with") as refused:
        inception_features(images, weights)
    assert "\n" not in str(refused.value)


def test_without_the_library_the_message_names_the_extra(monkeypatch) -> None:
    name = "torch_fidelity.feature_extractor_inceptionv3"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'ebmtut\[fid\]'") as refused:
        inception_features(torch.zeros(2, 3, 8, 8), "weights.pth")
    assert "\n" not in str(refused.value)
