"""Posterior samples of binary deconvolution: perturb, then max-product."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Fraction, checked
from ebmtut.message_passing.binary_convolution import (
    EVIDENCE,
    Deconvolution,
    check_images,
)
from ebmtut.message_passing.deconvolution import deconvolve
from ebmtut.random import logistic

__all__ = ["sample_deconvolution"]


@checked
def sample_deconvolution(
    images: Float[Tensor, "n_images height width"],
    n_features: Count,
    feature_shape: tuple[int, int],
    n_sweeps: int,
    *,
    generator: torch.Generator,
    location_prior: Fraction = 0.01,
    feature_prior: Fraction = 0.25,
    location_copies: Count = 1,
    n_starts: Count = 1,
    damping: float = 0.5,
    evidence: float = EVIDENCE,
) -> Deconvolution:
    """Sample locations and features from their posterior by PMP.

    Logistic noise on every log-odds of S and W; then max-product. Of several
    initialisations the one with the highest score is kept.

    Parameters
    ----------
    location_prior, feature_prior
        Probabilities of a 1 in S and in W.
    location_copies
        How often the perturbed log-odds of a location count; 1 is the model.
    n_starts
        Initialisations: one from the prior, the others with logistic noise as
        ``start``.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import sample_deconvolution
    >>> from ebmtut.random import make_generator
    >>> images = torch.zeros(3, 5, 5)
    >>> found = sample_deconvolution(images, 2, (2, 2), 10, generator=make_generator(0))
    >>> found.locations.shape, found.features.shape
    (torch.Size([3, 2, 4, 4]), torch.Size([2, 2, 2]))
    """
    check_images(images, feature_shape)
    rows, columns = feature_shape
    n_images, height, width = images.shape
    grid = (height - rows + 1, width - columns + 1)

    def noise(*shape: int) -> Tensor:
        return logistic(
            shape, generator=generator, dtype=images.dtype, device=images.device
        )

    s_prior, w_prior = (math.log(p / (1 - p)) for p in (location_prior, feature_prior))
    s_unaries = location_copies * (noise(n_images, n_features, *grid) + s_prior)
    w_unaries = noise(n_features, rows, columns) + w_prior
    runs = [
        deconvolve(
            images,
            s_unaries,
            w_unaries,
            n_sweeps,
            damping=damping,
            evidence=evidence,
            start=noise(n_features, rows, columns) if k else None,
        )
        for k in range(n_starts)
    ]

    def score(run: Deconvolution) -> float:
        prior = (run.locations * s_unaries).double().sum()
        prior += (run.features * w_unaries).double().sum()
        pixels = ((2 * images - 1) * run.images).double().sum()
        return float(prior + evidence * pixels)

    return max(runs, key=score)
