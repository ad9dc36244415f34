"""Random numbers from an explicit generator, without torch's global one."""

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import (
    Fraction,
    InputError,
    Natural,
    Range,
    check_range,
    check_type,
    checked,
)
from ebmtut.tensor_checks import check_device, check_floating

__all__ = [
    "bernoulli",
    "bernoulli_indices",
    "categorical",
    "check_generator",
    "check_seed",
    "exponential",
    "generator_on",
    "gumbel",
    "logistic",
    "make_generator",
    "normal",
    "spawn_seed",
]

_HALF = (torch.float16, torch.bfloat16)


@checked
def make_generator(
    seed: Annotated[int, Range(0, 2**63 - 1)], device: str | torch.device = "cpu"
) -> torch.Generator:
    """Make a generator on a device from a seed.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import bernoulli, make_generator
    >>> bernoulli(torch.full((2, 3), 0.5), generator=make_generator(0)).shape
    torch.Size([2, 3])
    """
    check_device(device)
    return torch.Generator(device=device).manual_seed(int(seed))


def check_seed(seed: int) -> None:
    """Require a seed that leaves room for others counted from it.

    An experiment's k-th run has the seed ``seed + k``, its held-out data one a million
    away.
    """
    check_range("seed", seed, low=0, high=2**62, integer=True)


def check_generator(
    generator: torch.Generator, device: str | torch.device = "cpu"
) -> None:
    """Require a generator on a device: torch takes None for its global one."""
    check_type("generator", generator, torch.Generator)
    want = torch.device(device).type
    if generator.device.type != want:
        raise InputError(
            f"generator must live on {want}, got one on {generator.device.type}"
        )


def spawn_seed(generator: torch.Generator) -> int:
    """Draw a seed, 0 to 2**63 - 2, for another random stream, such as numba's."""
    check_type("generator", generator, torch.Generator)
    seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
    return int(seed)


def generator_on(
    generator: torch.Generator, device: str | torch.device
) -> torch.Generator:
    """Return the generator if it is on the device, else a new one seeded by it.

    A problem that is sampled on the CPU is thus the same on every device.
    """
    check_type("generator", generator, torch.Generator)
    if generator.device.type == torch.device(device).type:
        return generator
    return make_generator(spawn_seed(generator), device)


def bernoulli(
    probs: Float[Tensor, "*shape"], *, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Sample bits, each with its own probability of being 1.

    Parameters
    ----------
    probs
        In [0, 1]. Only their dtype, floating, is checked.
    """
    check_floating("probs", probs.dtype)
    u = _uniform(probs.shape, generator, probs.dtype, probs.device)
    return (u < probs).to(probs.dtype)


@checked
def bernoulli_indices(
    n: Natural, prob: Fraction, *, generator: torch.Generator
) -> Int[Tensor, " n_ones"]:
    """Indices of the ones among n bits, each of which is 1 with `prob`.

    It samples the geometric gaps between the ones: n * prob random numbers.
    """
    check_type("generator", generator, torch.Generator)
    rate = -math.log1p(-prob)
    found = torch.full((1,), -1.0, dtype=torch.float64, device=generator.device)
    while found[-1] < n:
        # Nearly always enough at once: ten standard deviations more than the mean.
        count = int(n * prob + 10 * math.sqrt(n * prob)) + 10
        gaps = exponential(
            (count,), generator=generator, dtype=torch.float64, device=found.device
        )
        # A rounded-down exponential is the number of zeros before the next one.
        gaps = gaps.div_(rate).floor_() + 1
        found = torch.cat([found, found[-1] + gaps.cumsum(0)])
    return found[(found >= 0) & (found < n)].long()


def categorical(
    logits: Float[Tensor, "*batch n_states"], *, generator: torch.Generator
) -> Int[Tensor, "*batch"]:
    """Sample indices from the categorical distributions of the last dimension.

    The index of the largest of independently Gumbel-perturbed logits.

    Parameters
    ----------
    logits
        Unnormalised log-probabilities; -inf excludes.
    """
    check_floating("logits", logits.dtype)
    noise = gumbel(
        logits.shape, generator=generator, dtype=logits.dtype, device=logits.device
    )
    return (logits + noise).argmax(dim=-1)


@checked
def exponential(
    shape: Sequence[int],
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> Float[Tensor, "..."]:
    """Sample the exponential distribution of mean 1; never exactly 0."""
    check_floating("dtype", dtype)
    check_generator(generator, device)
    e = torch.empty(tuple(shape), dtype=_wide(dtype), device=device)
    e.exponential_(generator=generator)
    return e.clamp_(min=torch.finfo(e.dtype).tiny).to(dtype)


@checked
def gumbel(
    shape: Sequence[int],
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> Float[Tensor, "..."]:
    """Sample the standard Gumbel distribution, exp(-exp(-g)); always finite."""
    e = exponential(shape, generator=generator, dtype=_wide(dtype), device=device)
    return e.log_().neg_().to(dtype)


@checked
def logistic(
    shape: Sequence[int],
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> Float[Tensor, "..."]:
    """Sample the difference of two standard Gumbels; always finite."""
    u = _uniform(shape, generator, dtype, device)
    # u may be exactly 0, where the quantile function is infinite.
    return torch.logit(u, eps=torch.finfo(u.dtype).eps / 2).to(dtype)


def normal(like: Tensor, *, generator: torch.Generator) -> Tensor:
    """Sample standard normals of the shape, dtype and device of ``like``."""
    check_generator(generator, like.device)
    wide = _wide(like.dtype)
    draw = torch.randn(like.shape, generator=generator, dtype=wide, device=like.device)
    return draw.to(like.dtype)


def _uniform(
    shape: Sequence[int],
    generator: torch.Generator,
    dtype: torch.dtype,
    device: str | torch.device,
) -> Float[Tensor, "..."]:
    check_floating("dtype", dtype)
    check_generator(generator, device)
    return torch.rand(
        tuple(shape), generator=generator, dtype=_wide(dtype), device=device
    )


def _wide(dtype: torch.dtype) -> torch.dtype:
    # Eight or eleven random bits would round probabilities visibly.
    return torch.float32 if dtype in _HALF else dtype
