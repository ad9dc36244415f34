"""A still picture in place of the widget of transport, for pages without scripts."""

from __future__ import annotations

import math
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.transport import (
    chain_value,
    cost_matrix,
    dual_value,
    exact_ot,
    gibbs_ot_iteration,
)
from ebmtut.widgets.transport_explorer import TransportExplorer

__all__ = ["transport_picture"]

_Array = NDArray[np.float64]
_KINDS = {"squared": "squared_euclidean", "absolute": "euclidean", "coulomb": "coulomb"}


class _Run(NamedTuple):
    """What the page computes: the last iteration, the coupling, V and dual value."""

    g: _Array
    h: _Array
    U: _Array
    L: _Array
    coupling: _Array
    values: _Array


def transport_picture(widget: TransportExplorer) -> Figure:
    """Draw what the page shows for the widget's state.

    Parameters
    ----------
    widget
        Of :func:`~ebmtut.widgets.transport_explorer`; its own draws are used.

    Returns
    -------
    figure
        Laws, coupling, potentials, and V with the dual value.
    """
    n = len(widget.p)
    x = (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) / n
    p, q = (
        torch.tensor(side, dtype=torch.float64, device="cpu")
        for side in (widget.p, widget.q)
    )
    p, q = p / p.sum(), q / q.sum()
    cost = cost_matrix(x, x, _KINDS[widget.cost])
    temperatures = (
        10**widget.log_temperature
        / n
        * torch.ones(widget.n_iterations, dtype=torch.float32, device="cpu")
    )
    if widget.cooled:
        temperatures *= 1000 ** (-torch.arange(widget.n_iterations, device="cpu") / 100)
    draws = torch.from_numpy(np.frombuffer(widget.noise, np.float32).copy())
    run = _run(p, q, cost, temperatures.double(), draws.double().view(-1, 2, n))
    exact = exact_ot(p, q, cost)
    plan, best_g, best_h = (z.numpy() for z in exact[1:])
    at, masses = x.numpy(), (p.numpy(), q.numpy())
    figure, axes = plt.subplots(2, 2, figsize=(TEXT_WIDTH, 5.2))
    (laws, coupling), (potentials, trace) = axes
    _draw_laws(laws, at, *masses)
    _draw_coupling(coupling, at, run.coupling, plan)
    reach = -math.log(0.05) * float(temperatures[-1])
    _draw_potentials(potentials, at, masses, run, (best_g, best_h), reach)
    _draw_values(trace, run.values / exact.value if exact.value else run.values)
    return figure


def _run(
    p: Tensor, q: Tensor, cost: Tensor, temperatures: Tensor, draws: Tensor
) -> _Run:
    """Algorithm 1 as the page does it.

    The coupling says how often each constraint was active in the second half
    of the iterations: Eq. 22 with the draws in place of U and L.
    """
    at = torch.arange(len(p), device="cpu")
    g, coupling, values = torch.zeros_like(p), torch.zeros_like(cost), []
    first = len(temperatures) // 2
    for t, (temperature, theta) in enumerate(zip(temperatures, draws, strict=False)):
        origin = (g[:, None] - cost).argmax(0)
        both = temperature.repeat(2)
        g, h, U, L = gibbs_ot_iteration(g, p, q, cost, both, *theta)
        values.append([chain_value(p, q, U, L), dual_value(p, q, cost, g=U)])
        if t >= first:
            share = 0.5 / (len(temperatures) - first)
            coupling[at, (cost + h).argmin(1)] += share * p
            coupling[origin, at] += share * q
    parts = (
        g,
        h,
        U,
        L,
        coupling,
        torch.tensor(values, dtype=torch.float32, device="cpu"),
    )
    return _Run(*(part.numpy() for part in parts))


def _draw_laws(ax: Axes, x: _Array, p: _Array, q: _Array) -> None:
    width = 0.9 / len(x)
    ax.bar(x, p, width, color=COLORS["Gibbs-OT"], alpha=0.6, label="p")
    ax.bar(x, -q, width, color=COLORS["Sinkhorn"], alpha=0.6, label="q")
    ax.axhline(0, color=COLORS["exact"], lw=1)
    ax.set(title="the laws", yticks=[])
    ax.legend()


def _draw_coupling(ax: Axes, x: _Array, coupling: _Array, exact: _Array) -> None:
    ax.imshow(
        np.sqrt(coupling.T),
        cmap="Blues",
        origin="lower",
        extent=(0, 1, 0, 1),
        aspect="auto",
    )
    i, j = np.nonzero(exact > 1e-6)
    ax.scatter(x[i], x[j], s=9, facecolors="none", edgecolors=COLORS["exact"], lw=0.7)
    ax.set(title="coupling, circles: exact", xlabel="from", ylabel="to")


def _draw_potentials(
    ax: Axes,
    x: _Array,
    masses: tuple[_Array, _Array],
    run: _Run,
    exact: tuple[_Array, _Array],
    reach: float,
) -> None:
    shift = masses[0] @ (run.U - exact[0])  # a constant changes nothing
    solid = np.concatenate([run.U, run.L, *(best + shift for best in exact)])
    margin = 0.25 * np.ptp(solid)
    for sign, limit, draws, mass, best, method in (
        (-1, run.U, run.g, masses[0], exact[0], "Gibbs-OT"),
        (1, run.L, run.h, masses[1], exact[1], "Sinkhorn"),
    ):
        ax.fill_between(x, limit, limit + sign * reach / mass, color="#CCCCCC", lw=0)
        ax.plot(x, limit, color=COLORS[method], lw=1.5)
        ax.plot(x, draws, ".", ms=4, color=COLORS[method])
        ax.plot(x, best + shift, "--", color=COLORS["exact"], lw=1)
    ax.set(title="g below U, h above L, dashed: exact")
    ax.set(ylim=(solid.min() - margin, solid.max() + margin))


def _draw_values(ax: Axes, values: _Array) -> None:
    iterations = range(1, len(values) + 1)
    for name, value, method in zip(
        ("V", "dual value"), values.T, ("Sinkhorn", "Gibbs-OT"), strict=True
    ):
        ax.plot(iterations, value, color=COLORS[method], label=name)
    ax.axhline(1, color=COLORS["exact"], lw=1, label="exact")
    reach = (min(0.0, values.min()), max(2.0, values.max()))
    ax.set(title="over the exact cost", xlabel="iteration", ylim=reach)
    ax.legend()
