"""Still pictures of widgets, drawn from their state, for pages without scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import max_product_reference
from ebmtut.plotting import OKABE_ITO
from ebmtut.random import logistic, make_generator
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.widgets.message_explorer import SMALL_GRAPHS, SmallGraph

__all__ = ["draw_still"]

_State = Mapping[str, Any]
_BLUE, _RED, _GREY = OKABE_ITO["blue"], OKABE_ITO["vermillion"], "#b0b0b0"


def draw_still(widget: str, state: _State) -> tuple[Figure, str] | None:
    """Draw what a widget shows at first.

    Parameters
    ----------
    widget, state
        Name of its class, and the values of its traits.

    Returns
    -------
    still
        The picture and its text; None for a widget whose notebook draws its own.
    """
    if widget not in _STILLS:
        return None
    figure, axes = plt.subplots(1, 1 + (widget in _TWO_PANELS), figsize=(5.0, 2.8))
    return figure, _STILLS[widget](axes, state)


def _recovery(ax: Any, state: _State) -> str:
    """Draw two modes, what a noisy copy leaves of them, and Langevin chains in that."""
    sigma, seen, start = state["sigma"], state["seen"], state["start"]
    weight, mean, width = np.array([[0.6, 0.4], [-2.0, 2.0], [0.35, 0.35]])[..., None]

    def parts(x: np.ndarray) -> np.ndarray:
        peaks = np.exp(-(((x - mean) / width) ** 2) / 2)
        found: np.ndarray = weight * peaks / (width * np.sqrt(2 * np.pi))
        return found

    a = np.sqrt(1 - sigma**2)
    rng = np.random.default_rng(1)
    chains = np.full(300, start)
    for _ in range(state["n_steps"]):
        p = parts(chains)
        slope = (p * (chains - mean) / width**2).sum(0) / p.sum(0)
        slope += a * (a * chains - seen) / sigma**2
        chains = chains - 0.02 * slope + 0.2 * rng.standard_normal(len(chains))
    x = np.linspace(-4, 4, 400)
    data = parts(x).sum(0)
    given = data * np.exp(-((a * x - seen) ** 2) / (2 * sigma**2))
    given /= given.sum() * (x[1] - x[0])
    ax.hist(
        chains, 50, range=(-4, 4), density=True, color=_BLUE, alpha=0.45, label="chains"
    )
    ax.plot(x, data, color=_GREY, label="data")
    ax.plot(x, given, color="black", label="given the noisy copy")
    ax.axvline(seen, color=_RED, linestyle="--", label="noisy copy")
    ax.plot(start, 0.03, "^", color=_BLUE, label="initial point")
    ax.set(ylim=(0, 2.1), xlabel="x", ylabel="density")
    ax.legend()
    return (
        "Two modes of the data, what is left of them given a noisy copy, and chains "
        f"that began at {start:.1f}. {(chains > 0).mean():.0%} of them are right of "
        f"zero, {given[x > 0].sum() / given.sum():.0%} should be."
    )


def _collapse(ax: Any, state: _State) -> str:
    """Draw a curvature that is learned from short chains over its updates."""
    rng = np.random.default_rng(1)
    path, delta = [state["theta"]], 0.7
    while len(path) <= 60 and path[-1] <= 1000:
        x, z = rng.standard_normal((2, 200))
        for _ in range(20):
            z = z - delta**2 * path[-1] * z / 2 + delta * rng.standard_normal(200)
        difference = path[-1] * (x**2 - z**2) / 2
        if state["loss"] == "clipped":
            difference = np.where(abs(difference) > 10, 10, difference)
        slope = (difference / path[-1]).mean()
        path.append(max(0.5, path[-1] - state["rate"] * slope))
    ax.plot(path, color=_RED if path[-1] > 1000 else _BLUE)
    ax.axhline(2 * (1 + np.sqrt(1 - delta**2)) / delta**2, color=_GREY, linestyle="--")
    ax.set(yscale="log", ylim=(0.5, 1000), xlim=(0, 60), xlabel="update")
    ax.set_ylabel("curvature θ")
    return (
        "The learned curvature over sixty updates, and a line above which chains "
        f"diverge. It begins at {path[0]:.1f} and ends "
        + ("beyond 1000." if path[-1] > 1000 else f"at {path[-1]:.1f}.")
    )


def _particles(ax: Any, state: _State) -> str:
    """Draw the density of the chosen level and samples of the data's level."""
    n, extent = state["n_cells"], state["extent"]
    energies = np.frombuffer(state["energies"], np.float32).reshape(-1, n, n)
    edges = (-extent, extent, -extent, extent)
    root = np.exp(-energies[state["level"]] / 2)  # shades as in the page
    ax.imshow(root, origin="lower", extent=edges, cmap="Blues")
    x, y = np.frombuffer(state["samples"], np.float32).reshape(-1, 2).T
    ax.plot(x, y, ".", color="black", markersize=2)
    ax.set_axis_off()
    return "A learned density of the plane, in blue, and samples of it as black points."


def _landscape(axes: Any, state: _State) -> str:
    """Draw the true density beside the one that the chosen setting learned."""
    n = state["n_pixels"]
    colors = np.frombuffer(state["colors"], np.uint8).reshape(256, 3)
    pictures = np.frombuffer(state["pixels"], np.uint8).reshape(-1, n, n)
    choices = state["choices"]
    sizes = [len(choice["values"]) for choice in choices]
    place = int(np.ravel_multi_index(state["selected"], sizes))
    note, shown = state["notes"][place], state["shown"][place]
    axes[0].imshow(colors[pictures[0]])
    axes[0].set_title("the data's density")
    if shown >= 0:
        axes[1].imshow(colors[pictures[shown]])
    setting = ", ".join(
        f"{choice['name']} = {choice['values'][k]}"
        for choice, k in zip(choices, state["selected"], strict=True)
    )
    axes[1].set_title("the learned density")
    axes[0].figure.suptitle(setting, fontsize="medium")
    for ax in axes:
        ax.set_axis_off()
    return f"The data's density, and the one learned with {setting}. KL: {note}."


def _discrepancy(axes: Any, state: _State) -> str:
    """Draw training by the loss for M and w, and data and model at the shown step."""
    data = np.array(state["data"])
    u, models, divergences = np.zeros(8), [], []
    while True:
        a = np.exp(u.min() - u)
        models.append(a / a.sum())
        divergences.append(float((data * np.log(data / models[-1])).sum()))
        if len(models) > 200 or divergences[-1] >= 10:
            break
        u = u - 2 * _discrepancy_slope(a, data, state)
    step = min(state["step"], len(models) - 1)
    axes[0].plot(divergences, color=_BLUE)
    axes[0].plot(step, divergences[step], "o", color=_BLUE)
    axes[0].set(yscale="log", xlim=(-5, 205), ylim=(1e-6, 12))
    axes[0].set_xlabel("training step")
    axes[0].set_title("KL to the data [nats]")
    place = np.arange(8)
    axes[1].bar(place - 0.2, data, 0.4, color=_GREY, label="data")
    axes[1].bar(place + 0.2, models[step], 0.4, color=_BLUE, label=f"step {step}")
    axes[1].set_xticks(place, [f"{k:03b}" for k in place], rotation=90)
    axes[1].set_title("distributions")
    axes[1].legend()
    m, w = state["n_negatives"], state["stabilizer"]
    negatives = f"{m or 'infinitely many'} negative" + "s" * (m != 1)
    end = "diverges" if divergences[-1] >= 10 else f"ends at {divergences[-1]:.2g} nats"
    return (
        f"The KL divergence from data to model over {len(models) - 1} training steps "
        f"with {negatives} and the stabiliser {w:g}, which {end}, and both "
        f"distributions at step {step}, where it is {divergences[step]:.2g} nats."
    )


def _discrepancy_slope(a: np.ndarray, p: np.ndarray, state: _State) -> np.ndarray:
    """Return the slope of the expected loss of energies -log a, as in the page."""
    eps, m, w = (state[name] for name in ("eps", "n_negatives", "stabilizer"))
    bit = np.array([[1 - eps, eps], [eps, 1 - eps]])
    q = np.kron(np.kron(bit, bit), bit)
    found: np.ndarray
    if m == 0:  # infinitely many, of which some can come from every y
        weight = np.divide(p @ q, q @ a, out=np.zeros(8), where=q @ a > 0)
        found = p - a * (q @ weight)
        return found
    s = np.arange(-25 - np.log(m + w), np.log(30 / ((w + m) * a.min())), 0.4)
    t = np.exp(s)[:, None]
    far, own = np.exp(-t * a), p * np.exp(-t * w * a)
    phi = far @ q
    mass = 0.4 * t * phi ** (m - 1)
    parts = m * far * ((mass * (own @ q)) @ q) + w * own * ((mass * phi) @ q)
    found = p - a * parts.sum(0)
    return found


def _prices(ax: Any, state: _State) -> str:
    """Draw the c-transforms of the sampled dual potentials over the iterations."""
    p, q = np.array(state["p"]), np.array(state["q"])
    cost = np.subtract.outer(state["x"], state["y"]) ** 2
    noise = np.frombuffer(state["noise"], np.float32)
    noise = noise.reshape(state["n_chains"], -1, len(q) + len(p))[state["chain"]]
    n, hot = len(noise), 2 / 3
    cools = [hot * n ** (-2 * k / n) for k in range(1, n + 1)]
    temperatures = {"hot": [hot] * n, "cold": [1e-3] * n, "cools": cools}
    g, path = np.zeros(len(p)), []
    for k in range(state["n_iterations"]):
        scale = noise[k] * temperatures[state["schedule"]][k]
        lower = (g[:, None] - cost).max(0)
        upper = (cost + lower + scale[: len(q)] / q).min(1)
        g = upper - scale[len(q) :] / p
        path.append(np.concatenate([upper, lower]) - upper[0])
    heaps, holes = np.split(np.array(path)[:, 1:], [len(p) - 1], axis=1)
    for name, prices, color in (("heaps", heaps, _BLUE), ("holes", holes, _RED)):
        lines = ax.plot(prices, color=color, linewidth=1)
        lines[0].set_label(name)
    ax.set(ylim=(-20, 2), xlabel="iteration", ylabel="price")
    ax.legend()
    return (
        f"Prices of heaps and holes, as c-transforms of the samples, over {len(path)} "
        f"iterations of the schedule {state['schedule']}, less that of the first heap."
    )


def _features(axes: Any, state: _State) -> str:
    """Draw the features that two samplers have at the chosen number of sweeps."""
    sweeps, names = state["sweeps"], state["names"]
    side, n, step = state["side"], state["n_features"], state["step"]
    pixels = np.frombuffer(state["pixels"], np.uint8)
    pixels = pixels.reshape(len(names), len(sweeps), n, side, side)
    across = -(-n // 2)
    for ax, name, of in zip(axes, names, pixels[:, step], strict=True):
        framed = np.zeros((2 * across, side + 2, side + 2), np.uint8)
        framed[:n] = np.pad(of, ((0, 0), (1, 1), (1, 1)), constant_values=128)
        rows = framed.reshape(2, across, side + 2, side + 2).transpose(0, 2, 1, 3)
        ax.imshow(rows.reshape(2 * (side + 2), -1), cmap="Greys", vmin=0, vmax=255)
        ax.set_title(name)
        ax.set_axis_off()
    found = zip(names, state["wrong"], strict=True)
    wrong = ", ".join(f"{name} {of[step]:.1f} percent" for name, of in found)
    return (
        f"The features that two samplers infer in {sweeps[step]} sweeps. Pixels that "
        f"they explain wrongly: {wrong}."
    )


def _transport(ax: Any, state: _State) -> str:
    """Draw the two distributions that mass is moved between."""
    for name, color in (("p", _BLUE), ("q", _RED)):
        mass = np.array(state[name])
        x = (np.arange(len(mass)) + 0.5) / len(mass)
        ax.plot(x, mass / mass.sum(), color=color, label=name)
    ax.set(xlabel="point of the line", ylabel="mass", ylim=(0, None))
    ax.legend()
    return (
        f"The distributions p and q on {len(state['p'])} points of a line, between "
        "which mass is moved."
    )


def _two_starts(ax: Any, state: _State) -> str:
    """Draw the number of ones of perturbed MAP states and of the target."""
    half = logistic((5000, 4), generator=make_generator(1), dtype=torch.float64)
    noise = torch.cat([half, -half])  # neither side is favoured by chance
    four = replace(SMALL_GRAPHS[1], couplings=(1.0,) * 6)
    states = enumerate_states(4).double()
    ones = states.sum(1).long()
    target = BoltzmannMachine(*four.to_bits(2.0))  # coupling 0.5
    p = torch.softmax(-target(states), 0).detach()
    wanted = torch.bincount(ones, p, minlength=5)
    ax.bar(range(5), wanted, 0.84, color="#c4c4c4", label="target, coupling 0.50")
    model = BoltzmannMachine(*four.to_bits(1 / max(state["theta"], 1e-6)))
    scores = noise @ states.T - model(states).detach()
    counts = torch.bincount(ones[scores.argmax(1)], minlength=5) / len(noise)
    label = f"samples, coupling {state['theta']:.2f}"
    ax.plot(range(5), counts, "ko", label=label)
    ax.set(ylim=(0, 0.75), xlabel="ones among the four bits", ylabel="probability")
    ax.legend()
    return (
        f"The distribution of the number of ones among four bits: grey bars for the "
        f"target, dots for {len(noise)} perturbed MAP states."
    )


def _messages(ax: Any, state: _State) -> str:
    """Draw how often each state is decoded, beside the Boltzmann distribution."""
    about = state["graphs"][state["graph"]]
    graph = SmallGraph(
        about["name"],
        tuple(map(tuple, about["positions"])),
        tuple(map(tuple, about["edges"])),
        tuple(state["couplings"]),
        tuple(about["fields"]),
    )
    n = graph.n_sites
    model = BoltzmannMachine(*graph.to_bits())
    noise = np.frombuffer(state["noise"], np.float32).reshape(-1, state["stride"])
    unaries = model.bias.detach() + torch.tensor(noise[:, :n], device="cpu").double()
    keep = {"damping": state["damping"], "init": state["init"]}
    found = max_product_reference(model, unaries, state["n_sweeps"], **keep).x
    states = enumerate_states(n).double()
    exact = torch.softmax(-model(states), 0).detach()
    counts = torch.bincount(states_to_index(found), minlength=2**n) / len(found)
    ax.bar(range(2**n), exact.numpy(), 0.84, color="#c4c4c4", label="Boltzmann")
    ax.plot(range(2**n), counts.numpy(), "o", color=_BLUE, label="decoded")
    labels = ["".join(str(int(bit)) for bit in bits) for bits in states]
    ax.set_xticks(range(2**n), labels, rotation=90)
    ax.set_ylabel("probability")
    ax.legend(loc="center")
    return (
        f"How often max-product decodes each state of the {graph.name} after "
        f"{state['n_sweeps']} sweeps, beside the Boltzmann distribution."
    )


_STILLS: Mapping[str, Callable[[Any, _State], str]] = {
    "CollapseExplorer": _collapse,
    "DiscrepancyExplorer": _discrepancy,
    "FeatureExplorer": _features,
    "LandscapeExplorer": _landscape,
    "MessageExplorer": _messages,
    "ParticleExplorer": _particles,
    "DualExplorer": _prices,
    "RecoveryExplorer": _recovery,
    "TransportExplorer": _transport,
    "TwoStartsExplorer": _two_starts,
}
_TWO_PANELS = ("DiscrepancyExplorer", "FeatureExplorer", "LandscapeExplorer")
