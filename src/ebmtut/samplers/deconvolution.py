"""Gibbs sampling of binary deconvolution, a baseline of max-product."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv_transpose2d

from ebmtut.checks import Fraction, Natural, Number, checked
from ebmtut.kernels import deconvolution_gibbs as kernels
from ebmtut.random import check_generator
from ebmtut.tensor_checks import check_floats, check_only_bits

__all__ = ["deconvolution_gibbs"]


@checked
def deconvolution_gibbs(
    images: Float[Tensor, "n_images height width"],
    locations: Float[Tensor, "n_images n_features rows columns"],
    features: Float[Tensor, "n_features feature_rows feature_columns"],
    n_sweeps: Natural,
    *,
    generator: torch.Generator,
    location_prior: Fraction = 0.01,
    feature_prior: Fraction = 0.25,
    evidence: Number = 5.0,
) -> tuple[
    Float[Tensor, "n_images n_features rows columns"],
    Float[Tensor, "n_features feature_rows feature_columns"],
]:
    """Run Gibbs sweeps on locations and features, given images.

    p(S, W | X) is proportional to the Bernoulli priors times exp(evidence * (2 X - 1) .
    Xhat) with Xhat the binary convolution of S and W (Lazaro-Gredilla, Dedieu and
    George, 2021, Section 5.6). A sweep samples all of S, then all of W.

    Parameters
    ----------
    locations, features
        Initial bits, of shapes with ``rows = height - feature_rows + 1``.
    n_sweeps
        Updates of every bit.
    location_prior, feature_prior, evidence
        Probabilities of a 1 in S and in W; log-odds of an observed pixel.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import deconvolution_gibbs
    >>> locations, features = deconvolution_gibbs(
    ...     torch.ones(4, 6, 6),  # black images
    ...     torch.zeros(4, 1, 5, 5),
    ...     torch.ones(1, 2, 2),
    ...     10,
    ...     generator=make_generator(0),
    ... )
    >>> locations.shape, features.shape
    (torch.Size([4, 1, 5, 5]), torch.Size([1, 2, 2]))
    """
    check_generator(generator)
    features = check_floats("features", features, (None, None, None))
    images = check_floats("images", images, (None, None, None))
    n_features, rows, columns = features.shape
    n_images, height, width = images.shape
    grid = (height - rows + 1, width - columns + 1)
    locations = check_floats("locations", locations, (n_images, n_features, *grid))
    for name, x in (("images", images), ("S", locations), ("W", features)):
        check_only_bits(name, x)
    logits = [math.log(p / (1 - p)) for p in (location_prior, feature_prior)]
    counts = conv_transpose2d(locations, features[:, None].to(locations))[:, 0]
    s = locations.numpy(force=True).astype(np.uint8)
    w = features.numpy(force=True).astype(np.uint8)
    tally = counts.round().numpy(force=True).astype(np.int64)
    score = (evidence * (2 * images.double() - 1)).numpy(force=True)
    for _ in range(n_sweeps):
        draws = [
            torch.rand(
                x.shape,
                generator=generator,
                dtype=torch.float64,
                device=generator.device,
            ).numpy()
            for x in (s, w)
        ]
        kernels.deconvolution_sweep(s, w, tally, score, *logits, *draws)
    return torch.from_numpy(s).to(locations), torch.from_numpy(w).to(features)
