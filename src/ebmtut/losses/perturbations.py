"""Perturbations q(y|x) of energy discrepancy and their negative samples.

A perturbation destroys information: it maps a data point ``x`` to ``y``.
Energy discrepancy only needs the reverse step, *negative samples* ``x'`` from
the distribution in which the contrastive potential is an expectation,

    U_q(y) = -log E[ weight(x', y) * exp(-U(x')) ]          (Eq. 5)

so each class here offers one method, `negatives`, which does both steps.
Neighbourhoods of enumerated spaces are in `directed_neighborhood`.

Source: Schröder, Ou, Li and Duncan (2023), "Training Discrete Energy-Based
Models with Energy Discrepancy", Section 2.1 and Appendix C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import Count, Fraction, InputError, check_counts, checked
from ebmtut.random import bernoulli, bernoulli_indices, check_generator
from ebmtut.tensor_checks import check_states

__all__ = ["Bernoulli", "Grid", "Negatives", "Perturbation", "Pool"]


class Negatives(NamedTuple):
    """Negative samples of a batch.

    Attributes
    ----------
    log_weight
        Logarithms of the weights inside the expectation of Eq. 5; None where all are 1.
    """

    x: Float[Tensor, "batch n_negatives n_sites"]
    log_weight: Float[Tensor, "batch n_negatives"] | None = None


@runtime_checkable
class Perturbation(Protocol):
    """Anything that turns data into negative samples."""

    def negatives(
        self,
        x: Float[Tensor, "batch n_sites"],
        n_negatives: int,
        *,
        generator: torch.Generator,
    ) -> Negatives:
        """Perturb ``x`` and sample the reverse step."""
        ...


def check_draw(
    x: Float[Tensor, "batch n_sites"], n_negatives: int, generator: torch.Generator
) -> None:
    """Require floating states, a number of negatives and a generator beside them.

    Whether the states are bits is checked by the loss, once a batch.
    """
    check_states("x", x)
    check_counts(n_negatives=n_negatives)
    check_generator(generator, x.device)


def _flip_one(
    x: Float[Tensor, "*shape n_sites"], site: Int[Tensor, "*shape"]
) -> Float[Tensor, "*shape n_sites"]:
    """Flip bit ``site`` of the last dimension of ``x``."""
    value = x.gather(-1, site.unsqueeze(-1))
    return x.scatter(-1, site.unsqueeze(-1), 1 - value)


def _flip_each(
    x: Float[Tensor, "*shape"], eps: float, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Flip every bit of ``x`` with probability ``eps``: a random number for each."""
    flips = bernoulli(x.new_full((), eps).expand(x.shape), generator=generator)
    return (x - flips).abs_()


def _flip_few(
    x: Float[Tensor, "*shape"], eps: float, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Do the same, with random numbers only for the rarer outcome."""
    if eps > 0.5:
        x, eps = 1 - x, 1 - eps
    flipped = x.clone(memory_format=torch.contiguous_format)
    bits = flipped.view(-1)
    places = bernoulli_indices(bits.numel(), eps, generator=generator)
    bits[places] = 1 - bits[places]
    return flipped


@checked
@dataclass(frozen=True)
class Bernoulli:
    """Flip every bit independently with probability ``eps`` (ED-Bern).

    The channel is symmetric, so the reverse step is the same noise once more.

    Parameters
    ----------
    eps
        Flip probability, inside (0, 1): at its ends the loss does not depend on the
        energy.
    sparse
        Whether to sample the places of the flips rather than a number for every bit:
        another random stream, faster on the CPU where flips are rare.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import Bernoulli
    >>> from ebmtut.random import make_generator
    >>> x = torch.zeros(2, 8)
    >>> Bernoulli(0.1).negatives(x, 4, generator=make_generator(0)).x.shape
    torch.Size([2, 4, 8])
    """

    eps: Fraction = 0.1
    sparse: bool = False

    def negatives(
        self,
        x: Float[Tensor, "batch n_sites"],
        n_negatives: int,
        *,
        generator: torch.Generator,
    ) -> Negatives:
        """Draw y = x + noise and x' = y + noise (mod 2); see `Perturbation`."""
        check_draw(x, n_negatives, generator)
        flip = _flip_few if self.sparse and x.device.type == "cpu" else _flip_each
        y = flip(x, self.eps, generator)
        back = y.unsqueeze(1).expand(-1, n_negatives, -1)
        return Negatives(flip(back, self.eps, generator))


@dataclass(frozen=True)
class Grid:
    """Move to a uniform neighbour at Hamming distance one (ED-Grid).

    Parameters
    ----------
    exact
        Whether to sum over all ``n_sites`` neighbours of ``y`` instead of sampling.
        None: for ``n_negatives >= n_sites``.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import Grid
    >>> from ebmtut.random import make_generator
    >>> x = torch.zeros(2, 8)
    >>> Grid(exact=False).negatives(x, 4, generator=make_generator(0)).x.shape
    torch.Size([2, 4, 8])
    """

    exact: bool | None = None

    def negatives(
        self,
        x: Float[Tensor, "batch n_sites"],
        n_negatives: int,
        *,
        generator: torch.Generator,
    ) -> Negatives:
        """Draw y from N(x), then all or some of N(y); see `Perturbation`."""
        check_draw(x, n_negatives, generator)
        batch, n_sites = x.shape

        def sites(*shape: int) -> Int[Tensor, ...]:
            return torch.randint(n_sites, shape, generator=generator, device=x.device)

        y = _flip_one(x, sites(batch)).unsqueeze(1)
        if self.exact or (self.exact is None and n_negatives >= n_sites):
            eye = torch.eye(n_sites, dtype=x.dtype, device=x.device)
            return Negatives((y - eye).abs())
        y = y.expand(batch, n_negatives, n_sites)
        return Negatives(_flip_one(y, sites(batch, n_negatives)))


@checked
@dataclass(frozen=True)
class Pool:
    """Replace each window by its mean (ED-Pool, Appendix C.2).

    Given a window's mean, every arrangement of its bits is equally likely: negative
    samples are block-wise permutations of the data point.

    Parameters
    ----------
    window
        Sites in a window, or (height, width) of a block; more than one site.
    image_shape
        (height, width) of the image for two-dimensional blocks, else None.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import Pool
    >>> from ebmtut.random import make_generator
    >>> x = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    >>> other = Pool(2).negatives(x, 5, generator=make_generator(0)).x
    >>> other.view(5, 2, 2).sum(2)[0]  # each window keeps its number of ones
    tensor([1., 0.])
    """

    window: Count | tuple[Count, Count]
    image_shape: tuple[Count, Count] | None = None

    def __post_init__(self) -> None:
        pair = isinstance(self.window, tuple)
        window = self.window if isinstance(self.window, tuple) else (self.window,)
        shape = self.image_shape if self.image_shape is not None else ()
        if len(shape) != (2 if pair else 0) or len(window) != (2 if pair else 1):
            raise InputError(
                f"window={self.window} with image_shape={self.image_shape}: give a "
                "(height, width) window together with a (height, width) image_shape, "
                "or a whole number and no image_shape"
            )
        if math.prod(window) < 2:
            raise InputError(f"window must hold two sites or more, got {self.window}")

    def blocks(
        self, n_sites: int, device: str | torch.device = "cpu"
    ) -> Int[Tensor, "n_windows window_size"]:
        """Site indices of each window, on a device."""
        index = torch.arange(n_sites, device=device)
        if isinstance(self.window, tuple) and self.image_shape is not None:
            (h, w), (height, width) = self.window, self.image_shape
            if height * width != n_sites:
                raise InputError(
                    f"image_shape={self.image_shape} has {height * width} sites, "
                    f"but the data has {n_sites}"
                )
            if height % h or width % w:
                raise InputError(
                    f"window={self.window} does not divide image_shape="
                    f"{self.image_shape}: use sides that divide its sides"
                )
            index = index.view(height // h, h, width // w, w)
            return index.transpose(1, 2).reshape(-1, h * w)
        assert isinstance(self.window, int)
        if n_sites % self.window:
            raise InputError(
                f"window={self.window} does not divide the {n_sites} sites: "
                f"use a divisor of {n_sites}"
            )
        return index.view(-1, self.window)

    def negatives(
        self,
        x: Float[Tensor, "batch n_sites"],
        n_negatives: int,
        *,
        generator: torch.Generator,
    ) -> Negatives:
        """Permute the bits within each window; see `Perturbation`."""
        check_draw(x, n_negatives, generator)
        batch, n_sites = x.shape
        blocks = self.blocks(n_sites, x.device)
        shape = (batch, n_negatives, *blocks.shape)
        windows = x[:, blocks].unsqueeze(1).expand(shape)
        shuffled = _shuffle_bits(windows, generator=generator)
        negatives = x.new_empty(batch, n_negatives, n_sites)
        negatives[..., blocks.flatten()] = shuffled.flatten(2)
        return Negatives(negatives)


def _shuffle_bits(
    bits: Float[Tensor, "*shape"], *, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Permute the last dimension uniformly, each row on its own.

    Random keys are sorted that carry the bits as their lowest digit; numpy sorts rows
    faster than torch.
    """
    keys = torch.randint(2**62, bits.shape, generator=generator, device=bits.device)
    keys = 2 * keys + bits.long()
    if keys.device.type == "cpu":
        keys = torch.from_numpy(np.sort(keys.numpy(), axis=-1))
    else:
        keys = keys.sort(dim=-1).values
    return (keys & 1).to(bits.dtype)
