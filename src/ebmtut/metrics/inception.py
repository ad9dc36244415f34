"""FID and the inception score: the literature's numbers, in Inception's features.

Torch-fidelity (Obukhov et al., 2020; ``pip install 'ebmtut[fid]'``) gives the features
of the original TensorFlow network to machine precision. The weights (91 MB) are not
downloaded; the caller names their file.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut._digests import sha256_of
from ebmtut.checks import Count, InputError, check_type, checked
from ebmtut.metrics.frechet import frechet_distance
from ebmtut.tensor_checks import check_device, check_floats, check_within

__all__ = ["INCEPTION_WEIGHTS", "InceptionFeatures", "fid", "inception_features"]

#: Where torch-fidelity publishes the weights that it has converted.
INCEPTION_WEIGHTS = (
    "https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/"
    "weights-inception-2015-12-05-6726825d.pth"
)


class InceptionFeatures(NamedTuple):
    """What Inception says of images.

    Attributes
    ----------
    pooled
        2048 features, (n, 2048): those of the FID.
    probabilities
        Of its 1008 classes, (n, 1008): those of the inception score.
    """

    pooled: Tensor
    probabilities: Tensor


@checked
def inception_features(
    images: Float[Tensor, "n 3 height width"],
    weights: str | Path,
    *,
    batch_size: Count = 64,
    device: str | torch.device = "cpu",
) -> InceptionFeatures:
    """Give images to Inception, as TensorFlow's original got them.

    Parameters
    ----------
    images
        In [0, 1], with three colours; rounded to bytes, as files of pictures are.
    weights
        The file that `INCEPTION_WEIGHTS` publishes.
    """
    check_floats("images", images, (None, 3, None, None))
    check_within("images", images, 0, 1)
    check_device(device)
    network = _network(Path(weights)).to(device)
    parts = []
    with torch.no_grad():
        for part in images.split(batch_size):
            pixels = (part * 255).round().to(torch.uint8)
            pooled, logits = network(pixels.to(device))
            parts.append((pooled.double().cpu(), logits.double().softmax(1).cpu()))
    pooled, probabilities = (torch.cat(column) for column in zip(*parts, strict=True))
    return InceptionFeatures(pooled, probabilities)


@checked
def fid(data: InceptionFeatures, samples: InceptionFeatures) -> float:
    """Frechet inception distance of features (Heusel et al., 2017: 50,000 of each)."""
    for name, value in (("data", data), ("samples", samples)):
        check_type(name, value, InceptionFeatures)
    return frechet_distance(data.pooled, samples.pooled)


def _network(weights: Path) -> nn.Module:
    """Build the library's network, whose weights are the published ones."""
    made = _library()
    name = INCEPTION_WEIGHTS.rpartition("/")[2]
    if not weights.is_file():
        raise InputError(
            f"weights must be the file {name}, got no file at {weights}: it is "
            f"published at {INCEPTION_WEIGHTS}"
        )
    # As torch's hub has it, the name ends in the first digits of the content's hash.
    digits = name.removesuffix(".pth").rpartition("-")[2]
    found = sha256_of(weights)
    if not found.startswith(digits):
        raise InputError(
            f"{weights} is not {name}: its SHA-256 must start with {digits}, "
            f"got {found}"
        )
    # Nothing but tensors is read: the library itself would unpickle anything.
    state = torch.load(weights, map_location="cpu", weights_only=True)
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder) / name
        torch.save(state, clean)
        network: nn.Module = made(
            "inception-v3-compat",
            ["2048", "logits_unbiased"],
            feature_extractor_weights_path=str(clean),
        )
    return network


def _library() -> Any:
    try:
        from torch_fidelity.feature_extractor_inceptionv3 import (
            FeatureExtractorInceptionV3,
        )
    # A torchvision of another torch fails with a RuntimeError.
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise InputError(
            f"FID needs torch-fidelity: pip install 'ebmtut[fid]' ({why})"
        ) from error
    return FeatureExtractorInceptionV3
