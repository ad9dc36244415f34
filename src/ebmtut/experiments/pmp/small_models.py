"""Max-product on a few spins: what the chapter's first page measures and draws."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.experiments.pmp.log_partition import dense_model
from ebmtut.experiments.pmp.wrong_model import four_spins
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.plotting import COLORS
from ebmtut.random import logistic, make_generator
from ebmtut.results import Table
from ebmtut.states import enumerate_states

#: Messages or beliefs that differ by less are the same, up to rounding.
NEAR = 1e-6
N_SWEEPS = 200
#: Inches, so that labels can be read on a telephone.
WIDTH = 4.6
#: Initialisations of the messages: colour, marker and label.
INITS = {
    "zero": ("PMP", "s", "$N = 0$"),
    "symmetric": ("PMP symmetric", "o", "$N = W/2$"),
}
_ONES = enumerate_states(4).sum(1).long()


def noise_for(model: BoltzmannMachine, n: int, seed: int) -> Tensor:
    """Draw logistic noise for n perturbations of a model in double precision."""
    size = (n, model.n_sites)
    return logistic(size, generator=make_generator(seed), dtype=torch.float64)


def small_graph(name: str) -> BoltzmannMachine:
    """Return one of the widget's graphs as a model of bits."""
    from ebmtut.widgets import SMALL_GRAPHS  # needs anywidget

    graph = next(graph for graph in SMALL_GRAPHS if graph.name == name)
    return BoltzmannMachine(*graph.to_bits())


def convergence(model: BoltzmannMachine, damping: float, noise: Tensor) -> Tensor:
    """Say of each perturbation whether it converged, was decided, and gave the MAP."""
    unaries = model.bias.detach() + noise
    options: dict[str, Any] = {"damping": damping, "return_messages": True}
    now = max_product(model, unaries, N_SWEEPS, init="symmetric", **options)
    then = max_product(model, unaries, 1, messages=now.messages, **options)
    assert now.messages is not None and then.messages is not None
    converged = (then.messages - now.messages).abs().amax((1, 2)) < NEAR
    decided = converged & (now.beliefs.abs().amin(1) > NEAR)
    right = (now.x == exact_perturb_and_map(model, model.n_sites, noise)).all(1)
    return torch.stack([converged, decided, right])


def convergence_table(seed: int, n: int = 4000, n_models: int = 30) -> Table:
    """Tabulate `convergence` on a chain, a frustrated ring and models of ten spins."""
    chain, ring = small_graph("chain of six"), small_graph("frustrated ring")
    rows = {
        "chain of 6, no damping": convergence(chain, 0.0, noise_for(chain, n, seed)),
        "ring of 4, no damping": convergence(ring, 0.0, noise_for(ring, n, seed)),
        "ring of 4, damping ½": convergence(ring, 0.5, noise_for(ring, n, seed)),
    }
    generator = make_generator(seed)
    dense = [dense_model(10, generator=generator)[0] for _ in range(n_models)]
    rows["10 spins, damping ½"] = torch.cat(
        [convergence(m, 0.5, noise_for(m, 100, seed + k)) for k, m in enumerate(dense)],
        1,
    )
    columns: dict[str, Any] = {"graph": list(rows)}
    for k, head in enumerate(("converged", "decided", "MAP state")):
        columns[head] = [float(found[k].double().mean()) for found in rows.values()]
    both = [right[decided].double().mean() for _, decided, right in rows.values()]
    columns["MAP state if decided"] = [float(fraction) for fraction in both]
    return Table(columns, digits=2)


def magnetisation(x: Tensor) -> float:
    """Mean of all spins."""
    return float(2 * x.mean() - 1)


def draw_initialisations(theta: float, n: int, seed: int) -> Figure:
    """Draw MAP states found and magnetisation over the sweeps, for four spins."""
    model, counts = four_spins(theta), (1, 2, 4, 8, 16, 32, 100)
    noise = noise_for(model, n, seed)
    best = exact_perturb_and_map(model, 4, noise)
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.0))
    # Where each curve is named, in the left and in the right panel.
    names_at = [((3.1, 0.77), (2.3, -0.45)), ((0.2, 1.0), (2.5, 0.07))]
    for (init, (color, marker, label)), at in zip(INITS.items(), names_at, strict=True):
        unaries = model.bias.detach() + noise
        runs = [max_product(model, unaries, t, init=init).x for t in counts]
        found = [float((x == best).all(1).double().mean()) for x in runs]
        style = {"color": COLORS[color], "marker": marker, "ms": 6}
        left.plot(found, **style)
        right.plot([magnetisation(x) for x in runs], **style)
        for ax, (x, y) in zip((left, right), at, strict=True):
            ax.text(x, y, label, color=COLORS[color], size=13, va="center")
    right.axhline(0, color="black", lw=1, ls="--", zorder=0)
    left.set(ylim=(None, 1.04))
    right.set(ylim=(None, 0.12))
    shown = (0, 2, 4, 6)
    for ax, title in ((left, "fraction of MAP states"), (right, "magnetisation")):
        ax.set_title(title, size=12)
        ax.set_xticks(shown, [counts[k] for k in shown])
        ax.set_xlabel("sweeps", size=12)
        ax.locator_params(axis="y", nbins=4)
        ax.tick_params(labelsize=11)
    return figure


def by_ones(x: Tensor) -> Tensor:
    """Return the fractions of states with 0 to 4 ones."""
    return x.sum(1).long().bincount(minlength=5).double() / len(x)


def exact_by_ones(theta: float) -> Tensor:
    """Return the Boltzmann probabilities of 0 to 4 ones of four spins."""
    probabilities = exact_probabilities(four_spins(theta), 4).exp().detach()
    return torch.zeros(5).double().index_add(0, _ONES, probabilities)


def divergence(p: Tensor, q: Tensor) -> float:
    """KL divergence from p to q, in nats."""
    return float((p * (p / q).log()).sum())


def draw_couplings(learned: Sequence[float], n: int, seed: int) -> Figure:
    """Draw the KL divergence from the data over theta, and what runs learned."""
    thetas = np.r_[0.2:0.32:0.03, 0.32:0.35:0.005, 0.36:0.61:0.04]
    half = noise_for(four_spins(0.5), n // 2, seed)
    noise, data = torch.cat([half, -half]), exact_by_ones(0.5)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.7))
    fine = np.linspace(0.2, 0.6, 401)
    boltzmann = [divergence(data, exact_by_ones(theta)) for theta in fine]
    ax.plot(fine, boltzmann, "--", color="black")
    ax.text(0.522, 5e-4, "Boltzmann")
    places = {"zero": (0.335, 0.028), "symmetric": (0.365, 8e-4)}
    for init, (color, marker, label) in INITS.items():
        values = []
        for theta in thetas:
            model = four_spins(theta)
            unaries = model.bias.detach() + noise
            x = max_product(model, unaries, 50, init=init).x
            values.append(divergence(data, by_ones(x)))
        style: dict[str, Any] = {"color": COLORS[color], "marker": marker, "ms": 3.5}
        ax.plot(thetas, values, **style)
        side, box = "center" if init == "zero" else "left", {"color": "white", "pad": 1}
        text: dict[str, Any] = {"color": COLORS[color], "ha": side, "bbox": box}
        ax.text(*places[init], f"PMP, {label}", **text)
    # Ticks above all curves, with a line down to the minimum.
    ax.plot(learned, np.full(len(learned), 1.5), "|", color="black", ms=12)
    ax.text(0.36, 1.5, f"θ of {len(learned)} learning runs", va="center")
    ax.axvline(float(np.mean(learned)), color=COLORS["null"], lw=1, zorder=0)
    ax.set(yscale="log", ylim=(1e-5, 3), xlim=(0.19, 0.61))
    ax.set_xlabel("coupling θ", size=11)
    ax.set_ylabel("KL divergence from the data (nats)", size=11)
    ax.tick_params(labelsize=10)
    ticks = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1)
    ax.set_yticks(ticks, ["0.00001", *(f"{tick:g}" for tick in ticks[1:])])
    ax.minorticks_off()
    return figure


def draw_factor_graph() -> Figure:
    """Draw a chain of three bits with the messages to the one in the middle."""
    weight, orange = 2.0, COLORS["PMP symmetric"]
    figure, ax = plt.subplots(figsize=(WIDTH, 2.2))
    ax.set(xlim=(-0.1, 8.1), ylim=(-1.1, 2.3), aspect="equal")
    ax.axis("off")
    ax.plot([1, 7], [0, 0], color="black", lw=1.4)
    square: dict[str, Any] = {"ms": 17, "mfc": "white", "mec": "black", "mew": 1.4}
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    for x in (2.5, 5.5):
        ax.plot(x, 0, "s", **square)
        ax.text(x, -0.7, f"$w =$ {weight:g}", **middle)
    for k, u in enumerate((1.5, -1.0, -1.5)):
        x, color = 3 * k + 1, "#F6C9A8" if k == 1 else "#DDDDDD"
        ax.plot([x, x], [0, 1.35], color="black", lw=1.4)
        ax.plot(x, 1.35, "s", **square)
        ax.text(x, 1.95, f"$u_{k + 1} =$ {u:g}".replace("-", "−"), **middle)
        ax.plot(x, 0, "o", **square | {"ms": 34, "mfc": color})
        ax.text(x, 0, f"$x_{k + 1}$", size=13, **middle)
        if k == 1:
            continue
        to_middle, n = 1 - k, max(0.0, u + weight) - max(0.0, u)
        for at, name, value, ink in ((0.9, "p", u, "black"), (2.1, "n", n, orange)):
            place = x + to_middle * at
            tip, tail = ((place + 0.4 * to_middle * side, 0.45) for side in (1, -1))
            arrow = {"arrowstyle": "-|>", "mutation_scale": 14, "color": ink, "lw": 2}
            ax.annotate("", tip, tail, arrowprops=arrow)
            text = f"${name} =$ {value:g}".replace("-", "−")
            ax.text(place, 0.8, text, color=ink, **middle)
    return figure
