"""Wasserstein NMF: images as mixtures of learned images, nearest in transport cost.

In an epoch the Gibbs-OT oracle continues its chains and gives every image's potentials
U. These are the gradients by which mirror descent moves the dictionary and the
memberships. Then the temperature falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import trange

from ebmtut.checks import DivergenceError, check_type, checked
from ebmtut.transport.grid import gibbs_pass
from ebmtut.transport.grid_cost import GridCost, check_images, check_measures, grid_cost
from ebmtut.transport.mixing import stops_rising
from ebmtut.transport.wnmf.mirror_descent import (
    AcceleratedDescent,
    accelerated_start,
    accelerated_step,
    mirror_step,
)
from ebmtut.transport.wnmf.state import (
    WNMFConfig,
    WNMFState,
    as_measures,
    mixtures,
    wnmf_start,
)

__all__ = ["wasserstein_nmf", "wnmf_epoch", "wnmf_temperature"]

# Multiplicative steps never leave zero; this is small enough to carry no mass.
_FLOOR = 1e-12


def wnmf_temperature(
    data: Float[Tensor, "n_images height width"], config: WNMFConfig, epoch: int
) -> float:
    """T of an epoch: held, then times 1 - sqrt(1 / (m + mbar)) per epoch."""
    m = data[0].numel()
    mbar = float((data > 0).sum((1, 2)).double().mean())
    factor = 1 - math.sqrt(1 / (m + mbar))
    n_cooled = max(0, epoch - config.n_hold) / config.slowness
    return float(config.temperature * factor**n_cooled)


def until_mixed(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperature: float,
    window: int,
    max_passes: int,
    generator: torch.Generator,
) -> tuple[Tensor, float, int]:
    """Do what `rununtil_mixed` does."""
    before = -math.inf
    for n_passes in range(1, max_passes + 1):
        duals = gibbs_pass(U, p, q, cost, temperature, generator)
        U = duals.U
        if n_passes % window == 0 or n_passes == max_passes:
            value = float(duals.value(p, q).mean())
            if stops_rising(value, before, temperature, window):
                break
            before = value
    return U, value, n_passes


@checked
def wnmf_epoch(
    state: WNMFState,
    data: Float[Tensor, "n_images height width"],
    cost: GridCost,
    config: WNMFConfig,
    *,
    generator: torch.Generator,
) -> None:
    """Update potentials, dictionary and memberships in place, once for every image.

    Parameters
    ----------
    generator
        Source of the oracle's randomness.

    Raises
    ------
    DivergenceError
        If V is not finite or below zero by more than 2 T m, so that no potentials fit.
    """
    check_type("generator", generator, torch.Generator)
    check_measures("data", data, cost)
    n = len(data)
    size = config.batch_size or n
    temperature = wnmf_temperature(data, config, state.epoch)
    shrink = temperature / config.temperature if config.shrink_steps else 1.0
    step_size = config.step_size * shrink
    values = []
    state.n_passes = 0
    for start in range(0, n, size):
        batch = slice(start, start + size)
        beta = AcceleratedDescent(*(part[batch] for part in state.memberships))
        U, value, n_passes = until_mixed(
            state.U[batch],
            mixtures(state.dictionary, beta.x),
            data[batch],
            cost,
            temperature,
            config.mixing_window,
            config.max_passes,
            generator,
        )
        state.U[batch] = U
        state.n_passes += n_passes
        values.append(value * len(U))

        potentials = U.permute(1, 2, 0).flatten(0, 1)  # (m, batch), no copy
        flat = state.dictionary.flatten(1)
        slopes = (flat @ potentials).T  # <Psi_k, U_i>
        flat = mirror_step(flat, (potentials @ beta.x).T, step_size)
        state.dictionary = _floored(flat).view_as(state.dictionary)
        if config.accelerate:
            beta = accelerated_step(beta, slopes, step_size)
        else:
            x = mirror_step(beta.x, slopes, config.membership_step_size * shrink)
            beta = AcceleratedDescent(x, x, beta.count)
        for whole, part in zip(
            state.memberships,
            (_floored(beta.x), _floored(beta.z), beta.count),
            strict=True,
        ):
            whole[batch] = part
    state.value = sum(values) / n
    state.epoch += 1
    if (n_averaged := state.epoch - config.n_epochs + config.n_average) > 0:
        _average(state, n_averaged - 1, config.average_every)
    if not state.value > -2 * temperature * data[0].numel():
        raise DivergenceError(
            f"Wasserstein NMF diverged in epoch {state.epoch}: V is {state.value}; "
            f"try a smaller step_size ({config.step_size}) or a higher temperature "
            f"({config.temperature})",
            step=state.epoch,
        )


@checked
def wasserstein_nmf(
    images: Float[Tensor, "n_images height width"],
    config: WNMFConfig | None = None,
    *,
    cost: GridCost | None = None,
    state: WNMFState | None = None,
    on_epoch: Callable[[WNMFState], None] | None = None,
    progress: bool = False,
    generator: torch.Generator,
) -> WNMFState:
    """Learn images whose mixtures are near the given ones in transport cost.

    Parameters
    ----------
    state
        Where to continue, bit for bit with the generator's state of then.
    generator
        Source of randomness, where the images lie.

    Raises
    ------
    DivergenceError
        If the learning diverges; names the epoch.

    References
    ----------
    Ye, Wang and Li, A simulated annealing based inexact oracle for
    Wasserstein loss minimization, 2017, Section 6.2.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.transport import WNMFConfig, wasserstein_nmf
    >>> g = make_generator(0)
    >>> images = torch.rand(6, 4, 4, generator=g).double().add(0.1)
    >>> images /= images.sum((1, 2), keepdim=True)
    >>> config = WNMFConfig(n_components=2, n_epochs=2)
    >>> wasserstein_nmf(images, config, generator=g).dictionary.shape
    torch.Size([2, 4, 4])
    """
    config = config or WNMFConfig()
    data = as_measures(images)
    cost = cost or grid_cost(
        *images.shape[1:], dtype=images.dtype, device=images.device
    )
    check_images("images", data, cost)
    if state is None:
        state = wnmf_start(data, config, generator=generator)
    state.check_fits(data, config)
    bar = trange(
        state.epoch, config.n_epochs, desc="Wasserstein NMF", disable=not progress
    )
    for _ in bar:
        wnmf_epoch(state, data, cost, config, generator=generator)
        bar.set_postfix(V=f"{state.value:.5f}", passes=state.n_passes, refresh=False)
        if on_epoch is not None:
            on_epoch(state)
    return state


def _average(state: WNMFState, k: int, every: int) -> None:
    """Let the k-th model to be averaged join its mean; replace it by a full one."""
    place = k % every
    model = (state.dictionary, state.memberships.x)
    if place == 0 or state.mean is None:
        state.mean = (model[0].clone(), model[1].clone())
    else:
        for mean, now in zip(state.mean, model, strict=True):
            mean += (now - mean) / (place + 1)
    if place == every - 1:
        state.dictionary = state.mean[0].clone()
        state.memberships = accelerated_start(state.mean[1])


def _floored(x: Tensor) -> Tensor:
    """Rows of mass 1 with no entry at zero."""
    x = x.clamp(min=_FLOOR)
    return x / x.sum(-1, keepdim=True)
