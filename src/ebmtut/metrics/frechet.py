r"""Distance between samples and data, in the features of a network that is named.

.. math:: d^2 = \lVert \mu_1 - \mu_2 \rVert^2
   + \operatorname{tr}\bigl(C_1 + C_2 - 2 (C_1^{1/2} C_2 C_1^{1/2})^{1/2}\bigr)

is the squared Wasserstein distance between two Gaussians (Dowson and Landau, 1982), in
Inception's features the FID. Numbers of different networks cannot be compared.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, InputError, check_range, check_type, checked
from ebmtut.tensor_checks import check_floats, check_shape

__all__ = [
    "Neighbors",
    "PrecisionRecall",
    "class_score",
    "frechet_distance",
    "gaussian_frechet_distance",
    "nearest_neighbors",
    "precision_recall",
]


def gaussian_frechet_distance(
    mean1: Float[Tensor, " n"],
    covariance1: Float[Tensor, "n n"],
    mean2: Float[Tensor, " n"],
    covariance2: Float[Tensor, "n n"],
) -> float:
    """Squared Wasserstein-2 distance between two Gaussians."""
    n = len(check_floats("mean1", mean1, (None,)))
    check_floats("mean2", mean2, (n,))
    roots = []
    for name, value in (("covariance1", covariance1), ("covariance2", covariance2)):
        matrix = check_floats(name, value, (n, n)).double()
        asymmetry = float((matrix - matrix.T).abs().max()) if n else 0.0
        if asymmetry > 1e-4 * float(matrix.abs().max() if n else 0.0):
            raise InputError(f"{name} must be symmetric, got a gap of {asymmetry:g}")
        values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
        roots.append((vectors * values.clamp(min=0).sqrt()) @ vectors.T)
    # The trace of the last root is the sum of singular values of the two roots.
    overlap = torch.linalg.svdvals(roots[0] @ roots[1]).sum()
    spread = sum(root.square().sum() for root in roots) - 2 * overlap
    shift = (mean1.double() - mean2.double()).square().sum()
    return max(float(shift + spread), 0.0)


def frechet_distance(
    features1: Float[Tensor, "n_x n_features"],
    features2: Float[Tensor, "n_y n_features"],
) -> float:
    """Frechet distance of two samples' features, squared as everywhere.

    Biased upwards by an amount that falls like 1/n: compare samples of equal size.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import frechet_distance
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> round(frechet_distance(x, x + 1), 6)
    2.0
    """
    check_floats("features1", features1, (None, None))
    check_floats("features2", features2, (None, features1.shape[1]))
    moments: list[Tensor] = []
    for name, features in (("features1", features1), ("features2", features2)):
        check_range(f"len({name})", len(features), low=2, integer=True)
        # Only differences count, and far from the origin they lose digits.
        wide = features.double() - features1.double().mean(0)
        moments += [wide.mean(0), torch.cov(wide.T).reshape(2 * wide.shape[1:])]
    return gaussian_frechet_distance(*moments)


def class_score(probabilities: Float[Tensor, "n n_classes"]) -> float:
    r"""Exponential of the mutual information between a sample and its class.

    :math:`\exp E\, KL(p(y | x) \,\|\, p(y))`, from 1 to the number of classes. With
    Inception's 1000 classes this is the inception score (Salimans et al., 2016).
    """
    p = _distributions(probabilities)
    mean = p.mean(0, keepdim=True)
    return float(torch.xlogy(p, p / mean).nan_to_num(0.0).sum(1).mean().exp())


class PrecisionRecall(NamedTuple):
    """Fractions of samples in the data's region, and of data in the samples' region."""

    precision: float
    recall: float


@checked
def precision_recall(
    data: Float[Tensor, "n n_features"],
    samples: Float[Tensor, "n_samples n_features"],
    n_neighbors: int = 3,
) -> PrecisionRecall:
    """Improved precision and recall (Kynkaanniemi et al., 2019, Equation 1).

    A set's region is the union of balls around its points, each reaching to the k-th
    nearest neighbour. Precision is the fraction of samples in the data's region, recall
    the converse.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import precision_recall
    >>> x = torch.arange(10.0)[:, None]
    >>> precision_recall(x, x)
    PrecisionRecall(precision=1.0, recall=1.0)
    """
    check_floats("data", data, (None, None))
    check_floats("samples", samples, (None, data.shape[1]))
    fewest = min(len(data), len(samples))
    check_range("n_neighbors", n_neighbors, low=1, high=fewest - 1, integer=True)
    data, samples = data.double(), samples.double()
    between = pairwise_distances(data, samples)

    def reach(points: Tensor) -> Tensor:
        within = pairwise_distances(points, points).fill_diagonal_(0.0)
        # The nearest of all is the point itself.
        return within.kthvalue(n_neighbors + 1, dim=1).values

    precision = (between <= reach(data)[:, None]).any(0).double().mean()
    recall = (between <= reach(samples)[None, :]).any(1).double().mean()
    return PrecisionRecall(float(precision), float(recall))


class Neighbors(NamedTuple):
    """For each sample, the nearest of the data and how far it is."""

    place: Tensor
    distance: Tensor


@checked
def nearest_neighbors(
    samples: Float[Tensor, "n_samples ..."],
    data: Float[Tensor, "n ..."],
    *,
    block: Count = 1024,
) -> Neighbors:
    """Find the nearest data point of each sample: a copy has distance 0."""
    check_type("data", data, Tensor)
    check_range("len(data)", len(data), low=1, integer=True)
    check_shape("samples", samples, (None, *data.shape[1:]))
    flat = data.flatten(1).double()
    parts = [
        pairwise_distances(part.flatten(1).double(), flat).min(1)
        for part in samples.split(block)
    ]
    distances, places = (torch.cat(column) for column in zip(*parts, strict=True))
    return Neighbors(places, distances)


def pairwise_distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances, from differences.

    A matrix product would lose the digits of points that are close to each other.
    """
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def _distributions(probabilities: Tensor) -> Tensor:
    p = check_floats("probabilities", probabilities, (None, None)).double()
    check_range("len(probabilities)", len(p), low=1, integer=True)
    worst = float((p.sum(1) - 1).abs().max())
    if bool((p < 0).any()) or worst > 1e-3:
        raise InputError(
            "probabilities must be at least 0 with rows of sum 1, got a smallest of "
            f"{float(p.min()):g} and a sum off by {worst:g}"
        )
    return p
