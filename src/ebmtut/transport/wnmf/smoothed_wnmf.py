"""Smoothed Wasserstein NMF (Rolet, Cuturi and Peyré, 2016), a baseline.

The transport cost is regularised by an entropy, and so are memberships and components.
For either of the two given the other, the dual problem is smooth and has no
constraints, and is solved by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import trange

from ebmtut._gradients import with_gradients
from ebmtut.checks import Count, Positive, checked
from ebmtut.tensor_checks import check_shape
from ebmtut.transport.grid_cost import GridCost, check_measures, grid_cost

__all__ = ["SmoothedWNMF", "smoothed_conjugate", "smoothed_wnmf"]


class SmoothedWNMF(NamedTuple):
    """What was learned.

    Attributes
    ----------
    dictionary
        Components, each of mass 1.
    memberships
        beta, each row of mass 1.
    objectives
        The dual value of the memberships' problem after each round.
    duals
        Where the memberships' and the dictionary's dual problems stopped.
    """

    dictionary: Float[Tensor, "n_components height width"]
    memberships: Float[Tensor, "n_images n_components"]
    objectives: Float[Tensor, " n_rounds"]
    duals: Float[Tensor, "2 n_images height width"]


def smoothed_conjugate(
    g: Float[Tensor, "n_images height width"],
    data: Float[Tensor, "n_images height width"],
    cost: GridCost,
    smoothing: float,
) -> Float[Tensor, " n_images"]:
    """Conjugate of p -> min over Z of <Z, M> - eps E(Z), for each image.

    H*(g) = eps (E(q) + <q, log(K exp(g / eps))>) with K = exp(-M / eps) and
    E(q) = -<q, log q>; its gradient is the p of that plan.
    """
    top = g.amax((1, 2), keepdim=True)
    rows, columns = (torch.exp(-c / smoothing) for c in cost)
    blurred = rows @ torch.exp((g - top) / smoothing) @ columns
    # Terms that underflow are lost: above this they change no digit of a sum.
    limits = torch.finfo(g.dtype)
    safe = limits.tiny / limits.eps * g[0].numel()
    lost = ((blurred < safe) & (data > 0)).flatten(1).any(1)
    log = blurred.clamp(min=safe).log()
    if lost.any():
        log = log.index_put((lost,), _log_blurred((g - top)[lost], cost, smoothing))
    entropy = -torch.special.xlogy(data, data).sum((1, 2))
    return smoothing * (entropy + (data * log).sum((1, 2))) + top[:, 0, 0]


def _log_blurred(g: Tensor, cost: GridCost, smoothing: float) -> Tensor:
    """Log of K exp(g / eps) by sums of logarithms, image by image as memory wants."""
    rows, columns = (-c / smoothing for c in cost)
    images = []
    for image in g / smoothing:
        inner = (image[:, :, None] + columns).logsumexp(1)
        images.append((rows[:, :, None] + inner).logsumexp(1))
    return torch.stack(images)


@with_gradients
@checked
def smoothed_wnmf(
    data: Float[Tensor, "n_images height width"],
    dictionary: Float[Tensor, "n_components height width"],
    *,
    cost: GridCost | None = None,
    smoothing: Positive = 1 / 100,
    entropy_memberships: Positive = 1 / 200,
    entropy_dictionary: Positive = 1 / 200,
    n_rounds: Count = 10,
    n_steps: Count = 20,
    start: SmoothedWNMF | None = None,
    progress: bool = False,
) -> SmoothedWNMF:
    """Alternate between the memberships' and the dictionary's dual problems.

    Parameters
    ----------
    data, dictionary
        Measures, in float64, since the kernel reaches exp(-2 / eps); the
        initialisation.
    smoothing, entropy_memberships, entropy_dictionary
        eps, rho_1 and rho_2.
    n_rounds, n_steps
        Times that each of the two is solved for, and L-BFGS steps each time.
    start
        An earlier result to continue; rounds done in pieces are those done at once.

    References
    ----------
    Rolet, Cuturi and Peyré, Fast dictionary learning with a smoothed
    Wasserstein loss, 2016, Sections 3 and 4.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.transport import smoothed_wnmf
    >>> g = make_generator(0)
    >>> images = torch.rand(6, 4, 4, generator=g).double().add(0.1)
    >>> images /= images.sum((1, 2), keepdim=True)
    >>> found = smoothed_wnmf(images, images[:2], smoothing=0.05, n_rounds=2)
    >>> found.dictionary.sum((1, 2)).round(decimals=9)  # images again
    tensor([1., 1.], dtype=torch.float64)
    """
    check_shape("data", data, (None, None, None))
    n, height, width = data.shape
    cost = cost or grid_cost(height, width, dtype=data.dtype, device=data.device)
    check_measures("data", data, cost)
    check_measures("dictionary", dictionary, cost)
    if start is None:
        beta = data.new_full((n, len(dictionary)), 1 / len(dictionary))
        none = torch.zeros_like(data)
        start = SmoothedWNMF(
            dictionary,
            beta,
            torch.empty(0, dtype=torch.float32, device="cpu"),
            torch.stack([none] * 2),
        )
    check_shape("start.dictionary", start.dictionary, dictionary.shape)
    check_shape("start.duals", start.duals, (2, *data.shape))
    atoms, beta = start.dictionary.flatten(1), start.memberships
    for_beta, for_atoms = start.duals
    objectives = start.objectives.tolist()

    def logits_beta(g: Tensor) -> Tensor:
        return -(g.flatten(1) @ atoms.T) / entropy_memberships

    def logits_atoms(g: Tensor) -> Tensor:
        return -(beta.T @ g.flatten(1)) / entropy_dictionary

    def dual_beta(g: Tensor) -> Tensor:
        loss = smoothed_conjugate(g, data, cost, smoothing).sum()
        return loss + entropy_memberships * logits_beta(g).logsumexp(1).sum()

    def dual_atoms(g: Tensor) -> Tensor:
        loss = smoothed_conjugate(g, data, cost, smoothing).sum()
        return loss + entropy_dictionary * logits_atoms(g).logsumexp(1).sum()

    for _ in trange(n_rounds, desc="smoothed W-NMF", disable=not progress):
        for_beta, value = _minimize(dual_beta, for_beta, n_steps)
        beta = logits_beta(for_beta).softmax(1)
        objectives.append(-value)
        for_atoms, _ = _minimize(dual_atoms, for_atoms, n_steps)
        atoms = logits_atoms(for_atoms).softmax(1)
    return SmoothedWNMF(
        atoms.view_as(dictionary),
        beta,
        torch.tensor(objectives, dtype=data.dtype, device="cpu"),
        torch.stack([for_beta, for_atoms]),
    )


def _minimize(
    function: Callable[[Tensor], Tensor], start: Tensor, n_steps: int
) -> tuple[Tensor, float]:
    """Minimise a smooth convex function by L-BFGS."""
    x = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x], max_iter=n_steps, line_search_fn="strong_wolfe", tolerance_change=0.0
    )

    def closure() -> float:
        optimizer.zero_grad()
        value = function(x)
        value.backward()
        return value.item()

    optimizer.step(closure)
    with torch.no_grad():
        return x.detach(), function(x).item()
