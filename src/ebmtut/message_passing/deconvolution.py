"""Binary deconvolution by max-product.

The plain version here and the compiled one send the same messages.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import fold, pad, unfold

from ebmtut._compiled import sweep_in_threads
from ebmtut.checks import BelowOne, Natural, Positive, checked
from ebmtut.kernels import deconvolution_messages as kernels
from ebmtut.message_passing.binary_convolution import (
    EVIDENCE,
    Deconvolution,
    check_images,
)
from ebmtut.message_passing.factors import and_to_child, and_to_parents, or_to_parents
from ebmtut.tensor_checks import check_floats

__all__ = ["deconvolve", "deconvolve_reference"]


@checked
def deconvolve(
    images: Float[Tensor, "n_images height width"],
    location_unaries: Float[Tensor, "n_images n_features rows columns"],
    feature_unaries: Float[Tensor, "n_features feature_rows feature_columns"],
    n_sweeps: Natural,
    *,
    damping: BelowOne = 0.5,
    evidence: Positive = EVIDENCE,
    start: Float[Tensor, "n_features feature_rows feature_columns"] | None = None,
) -> Deconvolution:
    """Find probable locations and features by parallel, damped max-product.

    Every pixel is an OR over all pairs of a location and a feature's pixel that could
    make it black, and every pair an AND.

    Parameters
    ----------
    location_unaries, feature_unaries
        Log-odds of locations and features' pixels; rows is height - feature_rows + 1.
    damping, evidence
        Part of the old message that is kept; log-odds of an observed pixel.
    start
        Added to the features' beliefs in the first sweep only: another initialisation.

    Notes
    -----
    See the chapter :doc:`/book/pmp/deconvolution`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import deconvolve
    >>> image = torch.tensor([[[1.0, 1.0, 0.0, 0.0]]])
    >>> log_odds = torch.full((1, 1, 1, 3), -2.0)
    >>> found = deconvolve(image, log_odds, torch.full((1, 1, 2), 1.0), 50)
    >>> found.images
    tensor([[[1., 1., 0., 0.]]])
    """
    _check(images, location_unaries, feature_unaries, start)
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
    pixels = (evidence * (2 * images - 1)).permute(1, 2, 0).contiguous()
    unaries = location_unaries.to(pixels).permute(1, 2, 3, 0).contiguous()
    w_unaries = feature_unaries.to(pixels).contiguous()
    first = torch.zeros_like(w_unaries) if start is None else start.to(w_unaries)
    given = [x.numpy(force=True) for x in (pixels, unaries, w_unaries)]
    s_beliefs = given[1].copy()
    w_beliefs = given[2] + first.numpy(force=True)
    shape = (*unaries.shape[:3], *w_unaries.shape[1:], unaries.shape[3])
    messages = np.zeros((2, *shape), w_beliefs.dtype)
    changes = np.empty(n_sweeps, w_beliefs.dtype)
    left = changes

    def work(n: int, _: slice) -> None:
        nonlocal left
        kernels.deconvolution_sweeps(
            *given, *messages, s_beliefs, w_beliefs, damping, left[:n]
        )
        left = left[n:]

    sweep_in_threads(work, 1, n_sweeps, messages.size)
    beliefs = torch.from_numpy(s_beliefs).permute(3, 0, 1, 2).contiguous()
    return _decode(beliefs, torch.from_numpy(w_beliefs), torch.from_numpy(changes))


@torch.no_grad()
@checked
def deconvolve_reference(
    images: Float[Tensor, "n_images height width"],
    location_unaries: Float[Tensor, "n_images n_features rows columns"],
    feature_unaries: Float[Tensor, "n_features feature_rows feature_columns"],
    n_sweeps: Natural,
    *,
    damping: BelowOne = 0.5,
    evidence: Positive = EVIDENCE,
    start: Float[Tensor, "n_features feature_rows feature_columns"] | None = None,
) -> Deconvolution:
    """Do what :func:`deconvolve` does in plain torch, on any device."""
    _check(images, location_unaries, feature_unaries, start)
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

    pixels = (evidence * (2 * images - 1)).flatten(1)
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
        pairs = and_to_child(from_s, from_w)
        new_s, new_w = and_to_parents(from_s, from_w, or_to_parents(pairs, pixels))
        to_s = damping * to_s + (1 - damping) * new_s
        to_w = damping * to_w + (1 - damping) * new_w
        s_beliefs = s_unaries + location_sum(to_s)
        before, w_beliefs = w_beliefs, w_unaries + to_w.sum((0, 1))
        changes.append((w_beliefs - before).abs().max())
    w = w_beliefs.reshape(feature_unaries.shape).flip(1, 2)
    return _decode(s_beliefs, w, torch.stack([images.new_zeros(()), *changes])[1:])


def _decode(s_beliefs: Tensor, w_beliefs: Tensor, changes: Tensor) -> Deconvolution:
    return Deconvolution(
        (s_beliefs > 0).to(s_beliefs),
        (w_beliefs > 0).to(w_beliefs),
        s_beliefs,
        w_beliefs,
        changes,
    )


def _check(
    images: Float[Tensor, "n_images height width"],
    location_unaries: Float[Tensor, "n_images n_features rows columns"],
    feature_unaries: Float[Tensor, "n_features feature_rows feature_columns"],
    start: Float[Tensor, "n_features feature_rows feature_columns"] | None,
) -> None:
    check_floats("feature_unaries", feature_unaries, (None, None, None))
    n_features, rows, columns = feature_unaries.shape
    check_images(images, (rows, columns))
    n_images, height, width = images.shape
    want = (n_images, n_features, height - rows + 1, width - columns + 1)
    check_floats("location_unaries", location_unaries, want)
    if start is not None:
        check_floats("start", start, feature_unaries.shape)
