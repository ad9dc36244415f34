r"""Do samples have the data's pair correlations?  Means alone do not help here.

.. math:: \frac{\lVert C(y) - C(x) \rVert}{\lVert C(x) \rVert}

with the covariances C of all pairs of different sites.  It is 0 where all pairs agree,
and 1 for independent sites, whatever their means; a finite sample adds its noise.
"""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from ebmtut.checks import Count, InputError, checked
from ebmtut.tensor_checks import check_bits, check_shape

__all__ = ["covariance_error", "covariance_error_of_fresh_sample", "pair_covariances"]


@torch.no_grad()
def pair_covariances(
    x: Float[Tensor, "n_x n_sites"],
) -> Float64[Tensor, "n_sites n_sites"]:
    """Covariances of all pairs of different sites; zero on the diagonal.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import pair_covariances
    >>> pair_covariances(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    tensor([[0.0000, 0.2500],
            [0.2500, 0.0000]], dtype=torch.float64)
    """
    check_bits("x", x, least=2)
    return torch.cov(x.double().T, correction=0).fill_diagonal_(0.0)


@torch.no_grad()
def covariance_error(
    x: Float[Tensor, "n_x n_sites"], truth: Float64[Tensor, "n_sites n_sites"]
) -> float:
    """How far the pairs of a sample are from the truth, in units of its size.

    Parameters
    ----------
    truth
        `pair_covariances` of the data.
    """
    found = pair_covariances(x)
    check_shape("truth", truth, found.shape)
    return float((found - truth).norm()) / _size(truth)


@torch.no_grad()
@checked
def covariance_error_of_fresh_sample(
    x: Float[Tensor, "n_data n_sites"], n: Count
) -> float:
    """Return the expected `covariance_error` of ``n`` exact samples.

    The root of the expected square to leading order in 1/n: a covariance over n samples
    has the variance (E (x_i - m_i)² (x_j - m_j)² - C_ij²) / n.
    """
    truth = pair_covariances(x)
    mean = x.double().mean(0)
    spread, slope = mean * (1.0 - mean), 1.0 - 2.0 * mean
    square = spread.outer(spread) + slope.outer(slope) * truth - truth.square()
    return math.sqrt(float(square.fill_diagonal_(0.0).sum()) / n) / _size(truth)


def _size(truth: Float64[Tensor, "n_sites n_sites"]) -> float:
    size = float(truth.norm())
    if size == 0.0:
        raise InputError("truth must have a covariance that is not zero, got none")
    return size
