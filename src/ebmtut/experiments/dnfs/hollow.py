"""What wrong rates and leaky networks do to a flow's weights, exactly."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut.exact import exact_log_partition
from ebmtut.flows import Flow
from ebmtut.paths import AnnealingPath
from ebmtut.states import enumerate_states, states_to_index


class ExactWeights(NamedTuple):
    """Numbers of the path weights in continuous time, without sampling error.

    The Stein mean is that of outflow minus inflow at t = 1; it is zero for every
    locally equivariant network.
    """

    stein_mean: float
    ess: float
    log_z_error: float


@torch.no_grad()
def exact_weights(flow: Flow, n_steps: int = 32) -> ExactWeights:
    """Integrate the expected weight and squared weight of all states, by Runge-Kutta.

    Both follow the master equation with a growth of xi, or 2 xi for the squares.
    """
    path = flow.path
    x = enumerate_states(path.n_sites).float()
    site = torch.arange(path.n_sites)
    flips = torch.arange(len(x))[:, None] ^ states_to_index(torch.eye(path.n_sites))
    growth = torch.tensor([1.0, 2.0], dtype=torch.float64)[:, None]

    def slope(t: float, mass: Tensor) -> Tensor:
        terms = flow.terms(x, t)
        rates = terms.outward.double()
        moving = mass[:, :, None] * rates
        arriving = moving[:, flips, site].sum(2)
        return arriving - moving.sum(2) + growth * terms.xi.double() * mass

    mass = torch.full((2, len(x)), 1 / len(x), dtype=torch.float64)
    dt = 1 / n_steps
    for k in range(n_steps):
        t = k * dt
        first = slope(t, mass)
        second = slope(t + dt / 2, mass + dt / 2 * first)
        third = slope(t + dt / 2, mass + dt / 2 * second)
        last = slope(min(t + dt, 1.0), mass + dt * third)
        mass = mass + dt / 6 * (first + 2 * second + 2 * third + last)
    mean, square = mass.sum(1)
    terms = flow.terms(x, 1.0)
    target = (-path.target(x).double()).softmax(0)
    exact = float(exact_log_partition(path.target, path.n_sites))
    return ExactWeights(
        float(target @ (terms.outward - terms.inward).sum(1).double()),
        float(mean**2 / square),
        math.log(float(mean)) + path.log_partition_start - exact,
    )


@torch.no_grad()
def influences(network: nn.Module, x: Tensor, t: Tensor) -> Tensor:
    """Mean change of each site's feature, by the site that is flipped."""
    hidden = (2 * x - 1) * network(x, t)
    columns = []
    for site in range(x.shape[1]):
        y = x.clone()
        y[:, site] = 1 - y[:, site]
        columns.append(((2 * y - 1) * network(y, t) - hidden).abs().mean(0))
    return torch.stack(columns, 1)


def draw_influences(networks: Mapping[str, nn.Module], x: Tensor, t: Tensor) -> Figure:
    """Draw which site's feature depends on which site, a panel for each network."""
    n_rows = -(-len(networks) // 2)
    figure, axes = plt.subplots(n_rows, 2, figsize=(4.8, 2.5 * n_rows + 0.6))
    for (name, network), ax in zip(networks.items(), axes.flat, strict=True):
        change = influences(network, x, t)
        shade = (change / change.max()).sqrt()  # faint influences stay visible
        drawn = ax.imshow(shade.numpy(), cmap="Blues", vmin=0, vmax=1)
        ax.set_title(name, fontsize=10)
        ax.set(xticks=[0, x.shape[1] - 1], yticks=[0, x.shape[1] - 1])
        ax.set(xlabel="flipped site", ylabel="feature of site")
    marks = [0, 0.01, 0.1, 0.25, 0.5, 1]
    bar = figure.colorbar(drawn, ax=axes, location="bottom")
    bar.set_ticks([mark**0.5 for mark in marks], labels=[f"{m:g}" for m in marks])
    bar.set_label("mean change, relative to the largest of its panel")
    return figure


def draw_xi(path: AnnealingPath, network: nn.Module) -> Figure:
    """Draw xi of two spins over time, at a network's rates and at half of them."""
    two = torch.tensor([[1.0, 1.0], [0.0, 1.0]])  # the spins agree, disagree
    times = torch.linspace(0, 1, 51)
    figure, ax = plt.subplots(figsize=(4.8, 2.6))
    for share, color in ((0.5, "C1"), (1.0, "C0")):
        xi = []
        for t in times:
            gibbs = path.log_ratios(two, float(t)).sigmoid()
            growth = (gibbs * network(two, t.expand(2))).sum(1)
            xi.append(share * growth - path.target(two))
        for values, style in zip(torch.stack(xi).T, ("-", "--"), strict=True):
            ax.plot(times, values, style, color=color)
    names = "half rates, agree", "half rates, disagree", "right rates"
    ax.legend(ax.lines[:3], names, fontsize=9, loc="center right")
    ax.set(xlabel="time t", ylabel="\N{GREEK SMALL LETTER XI}")
    return figure
