"""Binary deconvolution: which shapes, placed where, make these images?

An image is the OR of binary features placed at some locations,
X[n, p] = OR over f, i of S[n, f, p - i] AND W[f, i], with S and W both unknown
(Lazaro-Gredilla, Dedieu and George, 2021, Section 5.6). All images share W.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv_transpose2d

from ebmtut.checks import InputError, check_range
from ebmtut.tensor_checks import check_floats, check_only_bits, check_shape

__all__ = ["EVIDENCE", "Deconvolution", "binary_convolution"]

#: Log-odds of an observed pixel, those of the probability 1e-100.
EVIDENCE = 100 * math.log(10)


@dataclass(frozen=True)
class Deconvolution:
    """Locations and features, and how sure max-product is of them.

    Attributes
    ----------
    locations
        S, bits.
    features
        W, bits.
    location_beliefs, feature_beliefs
        Log-odds; an entry is 1 where they are positive.
    changes
        Largest change of a feature's belief in each sweep.
    """

    locations: Float[Tensor, "n_images n_features rows columns"]
    features: Float[Tensor, "n_features feature_rows feature_columns"]
    location_beliefs: Float[Tensor, "n_images n_features rows columns"]
    feature_beliefs: Float[Tensor, "n_features feature_rows feature_columns"]
    changes: Float[Tensor, " n_sweeps"]

    @property
    def images(self) -> Float[Tensor, "n_images height width"]:
        """What the locations and features make."""
        return binary_convolution(self.locations, self.features)


def binary_convolution(
    locations: Float[Tensor, "n_images n_features rows columns"],
    features: Float[Tensor, "n_features feature_rows feature_columns"],
) -> Float[Tensor, "n_images height width"]:
    """Place features at locations; an image is black where any of them is.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import binary_convolution
    >>> place = torch.tensor([[[[1.0, 0.0, 0.0]]]])  # one feature, at the left
    >>> binary_convolution(place, torch.tensor([[[1.0, 1.0]]]))
    tensor([[[1., 1., 0., 0.]]])
    """
    locations = check_floats("locations", locations, (None,) * 4)
    features = check_floats("features", features, (locations.shape[1], None, None))
    counts = conv_transpose2d(locations, features[:, None].to(locations))
    return (counts[:, 0] > 0.5).to(locations)


def check_images(
    images: Float[Tensor, "n_images height width"], feature_shape: tuple[int, int]
) -> None:
    """Raise InputError unless images are bits, and no smaller than a feature."""
    check_shape("images", images, (None, None, None))
    if images.dtype not in (torch.float32, torch.float64):
        raise InputError(f"images must be float32 or float64, got {images.dtype}")
    check_only_bits("images", images)
    for side, size in zip(feature_shape, images.shape[1:], strict=True):
        check_range("side of a feature", side, low=1, high=size, integer=True)
