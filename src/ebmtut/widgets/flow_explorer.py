"""Sixteen lattices that a trained flow moves from uniform bits to its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import anywidget
import matplotlib.pyplot as plt
import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure

from ebmtut.checks import Count, InputError, check_range, checked
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.flows import Flow, OddLatticeNetwork, simulate
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.random import make_generator
from ebmtut.widgets._sources import script, style

__all__ = ["FlowExplorer", "TrainedFlow", "flow_explorer", "flow_picture"]

_N_CHAINS = 16


class TrainedFlow(NamedTuple):
    """A lattice and the network of its reversible rates.

    Attributes
    ----------
    name
        Entry in the list of lattices.
    sigma
        Coupling of the lattice.
    network
        Its window must be the whole lattice.
    """

    name: str
    sigma: float
    network: OddLatticeNetwork


class FlowExplorer(anywidget.AnyWidget):
    """States, energies and weights of a flow, by a slider over time.

    Everything is computed in the page, from the weights in it. Make it by
    `flow_explorer`.

    Attributes
    ----------
    flow
        Which of the flows. All attributes down to ``step`` follow the reader.
    trained
        Whether the rates are the trained ones, or all zero.
    seed
        Of the page's random numbers.
    step
        Time steps that are shown.
    flows
        Name, coupling and sizes, with the exact log Z and mean energy of every step.
    weights
        All networks' numbers, float32.
    """

    _esm = script("flow_explorer.js")
    _css = style("flow_explorer.css")

    flow = traitlets.Int(0, min=0).tag(sync=True)
    trained = traitlets.Bool(True).tag(sync=True)
    seed = traitlets.Int(1, min=0).tag(sync=True)
    step = traitlets.Int(0, min=0).tag(sync=True)
    flows = traitlets.List(traitlets.Dict()).tag(sync=True)
    weights = traitlets.Bytes().tag(sync=True)


@checked
def flow_explorer(flows: Sequence[TrainedFlow], *, n_steps: Count = 64) -> FlowExplorer:
    """Make the widget, which opens at the last time with the trained rates.

    Parameters
    ----------
    flows
        Lattices that the page offers, the first at the start; all of one side, at most
        16.
    """
    check_range("number of flows", len(flows), low=1, integer=True)
    side = round(flows[0].network.n_sites ** 0.5)
    check_range("side", side, low=3, high=16, integer=True)
    listed, numbers = [], []
    for name, sigma, network in flows:
        if len(network.kernel) + 1 != network.n_sites or network.n_sites != side**2:
            raise InputError(
                f"network of {name!r} must see the {side**2} sites of the lattice of "
                f"side {side}, got {len(network.kernel) + 1} of {network.n_sites}"
            )
        packed = _packed(network)
        numbers.append(packed)
        exact = [_exact(side, sigma, k / n_steps) for k in range(n_steps + 1)]
        listed.append(
            {
                "name": name,
                "sigma": sigma,
                "side": side,
                "width": network.kernel.shape[1],
                "hidden": network.squares.out_features,
                "waves": len(network.time.waves),
                "size": len(packed),
                "log_partition": [round(a, 4) for a, _ in exact],
                "energy": [round(b, 4) for _, b in exact],
            }
        )
    return FlowExplorer(
        flows=listed,
        weights=np.concatenate(numbers).astype(np.float32).tobytes(),
        step=n_steps,
    )


def _packed(network: OddLatticeNetwork) -> np.ndarray:
    """All numbers of a network in the order that the page expects."""
    parts = network.state_dict().values()
    return np.concatenate([part.cpu().numpy().ravel() for part in parts])


def _exact(side: int, sigma: float, t: float) -> tuple[float, float]:
    """Exact log Z_t and mean of the target's energy under p_t."""
    step = 1e-4
    k = 2 * sigma
    if t == 0:
        return torus_log_partition(side, side, 0.0), 0.0  # no edge is favoured
    high, low = (torus_log_partition(side, side, k * (t + d)) for d in (step, -step))
    return torus_log_partition(side, side, k * t), -(high - low) / (2 * step)


def flow_picture(flow: Flow, times: Sequence[float] = (0, 0.5, 0.75, 1)) -> Figure:
    """Draw what the widget shows: states along the path, and their energies."""
    target = flow.path.target
    assert isinstance(target, LatticeIsing)
    n_steps = 64
    drawn = simulate(
        flow, _N_CHAINS, n_steps, keep_states=True, generator=make_generator(0)
    )
    assert drawn.states is not None
    figure = plt.figure(figsize=(TEXT_WIDTH, 3.2))
    grid = figure.add_gridspec(2, len(times), height_ratios=[1.2, 1])
    for column, t in enumerate(times):
        ax = figure.add_subplot(grid[0, column])
        x = drawn.states[round(t * n_steps)][:4]
        tiles = x.reshape(2, 2, target.side, target.side)
        tiles = torch.nn.functional.pad(tiles, (0, 1, 0, 1), value=0.5)
        ax.imshow(tiles.transpose(1, 2).flatten(2).flatten(0, 1), cmap="Blues")
        ax.set_title(f"t = {t:g}")
        ax.axis("off")
    ax = figure.add_subplot(grid[1, :])
    at = np.linspace(0, 1, n_steps + 1)
    energies = torch.stack([target(x) for x in drawn.states])
    ax.plot(at, energies, color="#56B4E9", lw=0.5)
    exact = [_exact(target.side, target.sigma, t)[1] for t in at]
    ax.plot(at, exact, color=COLORS["exact"], lw=2, label="exact mean")
    ax.plot(at, energies.mean(1), color="#D55E00", label="mean of the samples")
    ax.set(xlabel="time t", ylabel="energy")
    ax.legend()
    return figure
