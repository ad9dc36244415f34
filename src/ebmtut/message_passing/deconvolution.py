"""Binary deconvolution: which shapes, placed where, make these images?

An image is the OR of binary features placed at some locations,
X[n, p] = OR over f, i of S[n, f, p - i] AND W[f, i], with S and W both
unknown (Lazaro-Gredilla, Dedieu and George, 2021, Section 5.6). Every image
has its own S, all share W, and permuting the features changes nothing: the
posterior has many equal modes.

The plain version here and the compiled one send the same messages.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv_transpose2d, fold, pad, unfold

from ebmtut.checks import (
    InputError,
    check_choice,
    check_finite,
    check_range,
    check_shape,
)
from ebmtut.message_passing import _factor_kernels as kernels
from ebmtut.message_passing.factors import and_to_bottom, and_to_tops, or_to_tops
from ebmtut.random import logistic

__all__ = [
    "EVIDENCE",
    "Deconvolution",
    "binary_convolution",
    "deconvolve",
    "deconvolve_reference",
    "sample_deconvolution",
]

#: Log-odds of an observed pixel, those of the probability 1e-100.
EVIDENCE = 100 * math.log(10)


@dataclass(frozen=True)
class Deconvolution:
    """Locations and features, and how sure max-product is of them.

    Attributes
    ----------
    locations : Tensor
        S, bits of shape (n_images, n_features, rows, columns).
    features : Tensor
        W, bits of shape (n_features, feature_rows, feature_columns).
    location_beliefs, feature_beliefs : Tensor
        Log-odds of the same shapes; a bit is 1 where they are positive.
    changes : Tensor
        Largest change of a feature's belief in each sweep, shape (n_sweeps,).
    """

    locations: Tensor
    features: Tensor
    location_beliefs: Tensor
    feature_beliefs: Tensor
    changes: Tensor

    @property
    def images(self) -> Tensor:
        """What the locations and features make, (n_images, height, width)."""
        return binary_convolution(self.locations, self.features)


def binary_convolution(locations: Tensor, features: Tensor) -> Tensor:
    """Place features at locations; where any of them is black, the image is.

    Parameters
    ----------
    locations : Tensor
        Bits, shape (n_images, n_features, rows, columns), floating.
    features : Tensor
        Bits, shape (n_features, feature_rows, feature_columns).

    Returns
    -------
    Tensor
        Bits, shape (n_images, rows + feature_rows - 1,
        columns + feature_columns - 1).
    """
    counts = conv_transpose2d(locations, features[:, None].to(locations))
    return (counts[:, 0] > 0.5).to(locations)


def deconvolve(
    images: Tensor,
    location_unaries: Tensor,
    feature_unaries: Tensor,
    n_sweeps: int,
    *,
    damping: float = 0.5,
    evidence: float = EVIDENCE,
    start: Tensor | None = None,
) -> Deconvolution:
    """Find probable locations and features by parallel, damped max-product.

    Every pixel is an OR over all pairs of a location and a feature's pixel
    that could make it black, and every pair an AND.

    Parameters
    ----------
    images : Tensor
        Bits, shape (n_images, height, width), floating.
    location_unaries : Tensor
        Log-odds of the locations, shape (n_images, n_features,
        height - feature_rows + 1, width - feature_columns + 1).
    feature_unaries : Tensor
        Log-odds of the features' pixels, shape (n_features, feature_rows,
        feature_columns).
    n_sweeps : int
        Updates of all messages.
    damping : float
        Part of the old message that is kept, in [0, 1); the paper's alpha.
    evidence : float
        Log-odds of an observed pixel, positive and finite.
    start : Tensor, optional
        Added to the features' beliefs in the first sweep only, of the shape
        of ``feature_unaries``: another start of the same problem.

    Returns
    -------
    Deconvolution

    Raises
    ------
    InputError
        If shapes do not fit, an entry is not finite, or a number is out of
        range.

    See Also
    --------
    deconvolve_reference : the same in plain torch.

    Notes
    -----
    See the chapter :doc:`/book/perturb_and_max_product/deconvolution`.
    """
    _check(images, location_unaries, feature_unaries, n_sweeps, damping, evidence)
    if start is not None:
        check_shape("start", start, feature_unaries.shape)
        check_finite("start", start)
    if images.device.type != "cpu":
        return deconvolve_reference(
            images,
            location_unaries,
            feature_unaries,
            n_sweeps,
            damping=damping,
            evidence=evidence,
            start=start,
        )
    # Images go last: the kernel works on all of them at once.
    bottom = (evidence * (2 * images - 1)).permute(1, 2, 0).contiguous()
    unaries = location_unaries.to(bottom).permute(1, 2, 3, 0).contiguous()
    w_unaries = feature_unaries.to(bottom).contiguous()
    first = torch.zeros_like(w_unaries) if start is None else start.to(w_unaries)
    s_beliefs, w_beliefs, changes = kernels.deconvolution_sweeps(
        bottom.numpy(),
        unaries.numpy(),
        w_unaries.numpy(),
        first.contiguous().numpy(),
        n_sweeps,
        damping,
    )
    beliefs = torch.from_numpy(s_beliefs).permute(3, 0, 1, 2).contiguous()
    return _decode(beliefs, torch.from_numpy(w_beliefs), torch.from_numpy(changes))


def deconvolve_reference(
    images: Tensor,
    location_unaries: Tensor,
    feature_unaries: Tensor,
    n_sweeps: int,
    *,
    damping: float = 0.5,
    evidence: float = EVIDENCE,
    start: Tensor | None = None,
) -> Deconvolution:
    """Do what :func:`deconvolve` does in plain torch, on any device.

    Takes, returns and raises what :func:`deconvolve` does.
    """
    _check(images, location_unaries, feature_unaries, n_sweeps, damping, evidence)
    if start is not None:
        check_shape("start", start, feature_unaries.shape)
        check_finite("start", start)
    n_images, height, width = images.shape
    shape = feature_unaries.shape[1:]
    border = (shape[1] - 1, shape[1] - 1, shape[0] - 1, shape[0] - 1)
    framed = (height + shape[0] - 1, width + shape[1] - 1)

    def at_pixels(beliefs: Tensor) -> Tensor:
        # A location outside is surely off. The pixel reached by entry i of a
        # feature sees the location i before it, so features run backwards.
        windows = unfold(pad(beliefs, border, value=-torch.inf), tuple(shape))
        return windows.transpose(1, 2)

    def location_sum(messages: Tensor) -> Tensor:
        total = fold(messages.transpose(1, 2), framed, tuple(shape))
        return pad(total, [-side for side in border])

    bottom = (evidence * (2 * images - 1)).flatten(1)
    w_unaries = feature_unaries.to(images).flip(1, 2).flatten()
    s_unaries = location_unaries.to(images)
    # Messages to S and to W, (n_images, pixels, features x their pixels).
    to_s = images.new_zeros(n_images, height * width, w_unaries.numel())
    to_w = torch.zeros_like(to_s)
    changes = []
    s_beliefs, w_beliefs = s_unaries, w_unaries
    if start is not None:
        w_beliefs = w_unaries + start.to(images).flip(1, 2).flatten()
    for _ in range(n_sweeps):
        from_s = at_pixels(s_beliefs) - to_s
        from_w = w_beliefs - to_w
        pairs = and_to_bottom(from_s, from_w)
        new_s, new_w = and_to_tops(from_s, from_w, or_to_tops(pairs, bottom))
        to_s = damping * to_s + (1 - damping) * new_s
        to_w = damping * to_w + (1 - damping) * new_w
        s_beliefs = s_unaries + location_sum(to_s)
        before, w_beliefs = w_beliefs, w_unaries + to_w.sum((0, 1))
        changes.append((w_beliefs - before).abs().max())
    w = w_beliefs.reshape(feature_unaries.shape).flip(1, 2)
    return _decode(s_beliefs, w, torch.stack([images.new_zeros(()), *changes])[1:])


def sample_deconvolution(
    images: Tensor,
    n_features: int,
    feature_shape: tuple[int, int],
    n_sweeps: int,
    *,
    generator: torch.Generator,
    location_prior: float = 0.01,
    feature_prior: float = 0.25,
    location_copies: int = 1,
    n_starts: int = 1,
    damping: float = 0.5,
    evidence: float = EVIDENCE,
    kernel: str = "compiled",
) -> Deconvolution:
    """Draw one posterior sample of locations and features by PMP.

    Logistic noise, the difference of two Gumbels, on every log-odds of S and
    W; then max-product. Of several starts of the same perturbed problem the
    one with the highest score is kept.

    Parameters
    ----------
    images : Tensor
        Bits, shape (n_images, height, width), floating.
    n_features, feature_shape : int, (int, int)
        Size of W.
    n_sweeps : int
        Updates of all messages.
    generator : torch.Generator
        Source of the perturbations.
    location_prior, feature_prior : float
        Probabilities of a 1 in S and in W, in (0, 1).
    location_copies : int
        How often the perturbed log-odds of a location count. 1 is the model;
        the authors' program adds them once for every pixel of a feature.
    n_starts : int
        Runs of max-product: one from the prior, the others with logistic
        noise as ``start``.
    damping, evidence : float
        As in :func:`deconvolve`.
    kernel : {"compiled", "reference"}
        Which of the two versions sends the messages.

    Returns
    -------
    Deconvolution

    Raises
    ------
    InputError
        As :func:`deconvolve`, and if a prior or a size is out of range.
    """
    check_range("n_features", n_features, low=1, integer=True)
    for name, prior in (
        ("location_prior", location_prior),
        ("feature_prior", feature_prior),
    ):
        check_range(name, prior, low=0, high=1, include_low=False, include_high=False)
    check_range("location_copies", location_copies, low=1, integer=True)
    check_range("n_starts", n_starts, low=1, integer=True)
    check_choice("kernel", kernel, ("compiled", "reference"))
    _check_sizes(images, feature_shape)
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
    send = deconvolve if kernel == "compiled" else deconvolve_reference
    runs = [
        send(
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


def _decode(s_beliefs: Tensor, w_beliefs: Tensor, changes: Tensor) -> Deconvolution:
    return Deconvolution(
        (s_beliefs > 0).to(s_beliefs),
        (w_beliefs > 0).to(w_beliefs),
        s_beliefs,
        w_beliefs,
        changes,
    )


def _check_sizes(images: Tensor, feature_shape: tuple[int, int]) -> None:
    if images.dim() != 3 or not images.is_floating_point():
        raise InputError(
            "images must be floating, of shape (n_images, height, width), "
            f"got {tuple(images.shape)} of {images.dtype}"
        )
    if bool(((images != 0) & (images != 1)).any()):
        raise InputError("images must hold only 0 and 1")
    for side, size in zip(feature_shape, images.shape[1:], strict=True):
        check_range("side of a feature", side, low=1, high=size, integer=True)


def _check(
    images: Tensor,
    location_unaries: Tensor,
    feature_unaries: Tensor,
    n_sweeps: int,
    damping: float,
    evidence: float,
) -> None:
    if feature_unaries.dim() != 3:
        raise InputError(
            "feature_unaries must have shape (n_features, rows, columns), "
            f"got {tuple(feature_unaries.shape)}"
        )
    n_features, rows, columns = feature_unaries.shape
    _check_sizes(images, (rows, columns))
    n_images, height, width = images.shape
    want = (n_images, n_features, height - rows + 1, width - columns + 1)
    if location_unaries.shape != want:
        raise InputError(
            f"location_unaries must have shape {want}, "
            f"got {tuple(location_unaries.shape)}"
        )
    check_finite("location_unaries", location_unaries)
    check_finite("feature_unaries", feature_unaries)
    check_range("n_sweeps", n_sweeps, low=0, integer=True)
    check_range("damping", damping, low=0, high=1, include_high=False)
    check_range("evidence", evidence, low=0, include_low=False)
