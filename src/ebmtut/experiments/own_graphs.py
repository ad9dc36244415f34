"""Pictures and errors of the page on a graph of one's own."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Float
from torch import Tensor

from ebmtut.data import pairwise_graph
from ebmtut.energies import PairwiseGraph
from ebmtut.exact import exact_mean
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.plotting import COLORS, DIVERGING_CMAP, plain_log
from ebmtut.random import make_generator
from ebmtut.samplers import draw_samples


def chances(x: Float[Tensor, "n_samples n_sites"]) -> list[tuple[float, float]]:
    """How often each bit is one, with the standard error of a count."""
    p = x.double().mean(0)
    error = (p * (1 - p) / len(x)).sqrt()
    return list(zip(p.tolist(), error.tolist(), strict=True))


def show_leanings(
    graph: Any, lean: Mapping[Any, float], clamped: Sequence[Any]
) -> None:
    """Draw a graph, its vertices coloured by their chance of a yes."""
    import networkx as nx

    fig, ax = plt.subplots(figsize=(4.6, 4.4))
    # By the number of edges: weights are couplings, of either sign, and no distances.
    place = nx.kamada_kawai_layout(graph, weight=None)
    above = {name: (x, y + 0.13) for name, (x, y) in place.items()}
    nx.draw_networkx_edges(graph, place, ax=ax, edge_color=COLORS["null"])
    look: Any = {"cmap": DIVERGING_CMAP, "vmin": 0, "vmax": 1, "edgecolors": "black"}
    look["node_color"] = [lean[name] for name in graph.nodes]
    sizes = [380 if name in clamped else 180 for name in graph.nodes]
    dots = nx.draw_networkx_nodes(graph, place, ax=ax, node_size=sizes, **look)
    # Names stand above their vertices, on a ground that hides the edges there.
    box = {"color": "white", "pad": 0.5, "alpha": 0.8}
    nx.draw_networkx_labels(graph, above, ax=ax, font_size=9, bbox=box)
    bar = fig.colorbar(dots, location="bottom", shrink=0.7, aspect=30, pad=0.02)
    bar.set_ticks([0, 0.5, 1], labels=["0", "½", "1"])
    bar.set_label("P(yes)")
    ax.set_axis_off()
    ax.margins(0.1)
    plt.show()


def coupling_errors(
    graph: Any,
    clamp: Float[Tensor, " n_sites"],
    couplings: Sequence[float],
    *,
    n_samples: int,
    n_sweeps: int,
    seed: int,
) -> dict[str, list[float]]:
    """Errors of the probabilities of a yes over the coupling."""
    names = ("Gibbs, 5 sweeps", f"Gibbs, {n_sweeps} sweeps", "PMP", "sampling error")
    curves: dict[str, list[float]] = {name: [] for name in names}
    unit = pairwise_graph(graph, weight="weight", variables="spins")
    edges, weight, bias = unit.edges, unit.weight.detach(), unit.bias.detach()
    for coupling in couplings:
        model = PairwiseGraph(edges, coupling * weight, coupling * bias)
        part, generator = model.given(clamp), make_generator(seed)
        truth = exact_mean(part, lambda x: x).detach()
        found = [
            draw_samples(part, n_samples, n_sweeps=k, generator=generator).mean(0)
            for k in (5, n_sweeps)
        ]
        of: Any = {"clamp": clamp, "init": "symmetric", "generator": generator}
        by_pmp = perturb_and_max_product(model, n_samples, n_sweeps, **of)
        found.append(by_pmp[:, clamp.isnan()].mean(0))
        squares = [(estimate - truth).square() for estimate in found]
        squares.append(truth * (1 - truth) / n_samples)
        for curve, square in zip(curves.values(), squares, strict=True):
            curve.append(float(square.mean().sqrt()))
    return curves


def show_coupling_errors(
    couplings: Sequence[float], curves: Mapping[str, Sequence[float]]
) -> None:
    """Draw what :func:`coupling_errors` returns; say so where there is nothing."""
    if not couplings:
        print("no curves: there are too many free vertices for exact probabilities")
        return
    looks = ("Gibbs", "o--"), ("Gibbs", "o-"), ("PMP", "s-"), ("exact", ":")
    _, ax = plt.subplots(figsize=(4.6, 3.3))
    for curve, (method, style) in zip(curves.values(), looks, strict=True):
        ax.semilogy(couplings, curve, style, color=COLORS[method])
    ax.set(xlabel="coupling $J$", ylabel="error of P(yes)")
    plain_log(ax.yaxis)
    # Names stand at the right ends of the curves, apart from each other.
    low, high = ax.get_ylim()
    height = -1.0
    ends = [(curve[-1], name) for name, curve in curves.items()]
    for (end, name), (method, _) in sorted(zip(ends, looks, strict=True)):
        height = max(math.log(end / low) / math.log(high / low), height + 0.13)
        text = name.replace(", ", "\n").replace(" error", "\nerror")
        place: dict[str, Any] = {"transform": ax.transAxes, "va": "center"}
        ax.text(1.02, height, text, color=COLORS[method], **place)
    plt.show()
