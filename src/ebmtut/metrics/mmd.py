r"""Squared maximum mean discrepancy between samples of binary states.

.. math:: \mathrm{MMD}^2 = E\,k(x, x') + E\,k(y, y') - 2\,E\,k(x, y)

Energy discrepancy uses U-statistics of ``exp(-0.1 * Hamming distance)`` (code of Zhang
et al. 2022), perturb-and-max-product V-statistics of ``exp(-distance / n_sites)``.
"""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, OneOf, Positive, checked
from ebmtut.tensor_checks import check_bits

__all__ = ["hamming_distances", "hamming_kernel_mean", "mmd", "mmd_of_fresh_sample"]

KERNELS = ("exponential_hamming", "average_hamming")
STATISTICS = ("u", "v")


def hamming_distances(
    x: Float[Tensor, "n_x n_sites"], y: Float[Tensor, "n_y n_sites"]
) -> Float[Tensor, "n_x n_y"]:
    """Numbers of differing sites of all pairs of rows, by a matrix product."""
    check_bits("x", x)
    check_bits("y", y, x.shape[1])
    return _distances(x, y)


def _distances(
    x: Float[Tensor, "n_x n_sites"], y: Float[Tensor, "n_y n_sites"]
) -> Float[Tensor, "n_x n_y"]:
    # Half precision has too few digits for counts beyond some hundreds.
    dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    x, y = x.to(dtype), y.to(dtype)
    return torch.addmm(x.sum(1)[:, None] + y.sum(1), x, y.T, alpha=-2.0)


@torch.no_grad()
@checked
def hamming_kernel_mean(
    x: Float[Tensor, "n_x n_sites"],
    y: Float[Tensor, "n_y n_sites"],
    rate: float,
    *,
    block: Count = 2048,
) -> float:
    """Mean of ``exp(-rate * Hamming distance)`` over all pairs of rows, in float64."""
    check_bits("x", x, least=1)
    check_bits("y", y, x.shape[1], least=1)
    return _kernel_mean(x, y, rate, block)


def _kernel_mean(
    x: Float[Tensor, "n_x n_sites"],
    y: Float[Tensor, "n_y n_sites"],
    rate: float,
    block: int,
) -> float:
    total = 0.0
    for part in x.split(block):
        for other in y.split(block):
            kernel = _distances(part, other).mul_(-rate).exp_()
            total += float(kernel.sum(dtype=torch.float64))
    return total / (len(x) * len(y))


@checked
def mmd(
    x: Float[Tensor, "n_x n_sites"],
    y: Float[Tensor, "n_y n_sites"],
    kernel: Annotated[str, OneOf(KERNELS)] = "exponential_hamming",
    bandwidth: Positive = 0.1,
    statistic: Annotated[str, OneOf(STATISTICS)] = "u",
    *,
    block: Count = 2048,
) -> float:
    """Squared maximum mean discrepancy of two samples.

    Parameters
    ----------
    kernel
        ``"exponential_hamming"``: exp(-bandwidth * distance), or ``"average_hamming"``:
        exp(-distance / n_sites).
    statistic
        ``"u"`` leaves out the pairs of a row with itself and is unbiased. ``"v"`` keeps
        them: it is never negative, and biased upwards by about (1 - mean kernel) (1/n_x
        + 1/n_y).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import mmd
    >>> mmd(torch.zeros(5, 3), torch.zeros(5, 3))
    0.0
    """
    rate = _rate(x, kernel, bandwidth)
    check_bits("y", y, x.shape[1], least=2)
    y = y.to(x.dtype)

    def within(sample: Float[Tensor, "n n_sites"]) -> float:
        mean, n = _kernel_mean(sample, sample, rate, block), len(sample)
        # The diagonal's kernel values are exactly 1.
        return (mean * n - 1.0) / (n - 1.0) if statistic == "u" else mean

    between = _kernel_mean(x, y, rate, block)
    return within(x) + within(y) - 2.0 * between


@checked
def mmd_of_fresh_sample(
    x: Float[Tensor, "n_data n_sites"],
    n: Count,
    kernel: Annotated[str, OneOf(KERNELS)] = "exponential_hamming",
    bandwidth: Positive = 0.1,
) -> float:
    """Expected squared discrepancy, a V-statistic, of a perfect sampler.

    For ``n`` samples and ``m`` data points it is (1 - mean kernel) (1/n + 1/m),
    sampling error alone. A model trained on the same data may be below this value.
    """
    rate = _rate(x, kernel, bandwidth)
    m = len(x)
    # Without the pairs of a row with itself, whose kernel is exactly 1.
    mean = (_kernel_mean(x, x, rate, 2048) * m - 1.0) / (m - 1.0)
    return (1.0 - mean) * (1.0 / n + 1.0 / m)


def _rate(x: Float[Tensor, "n_x n_sites"], kernel: str, bandwidth: float) -> float:
    """Check bits, and return the decay of a kernel per differing site."""
    check_bits("x", x, least=2)
    return bandwidth if kernel == "exponential_hamming" else 1.0 / x.shape[1]
