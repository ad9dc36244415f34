"""Tables and pictures of the chapter's first page: four scores, four spins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.experiments.pmp.wrong_model import STYLE
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results.tables import Table
from ebmtut.states import enumerate_states
from ebmtut.widgets import draw_laws

__all__ = [
    "Judged",
    "divergences_table",
    "draw_perturbed",
    "draw_starts",
    "judge",
    "outcomes_table",
    "scores_table",
]


def scores_table(
    scores: Float[Tensor, " n_states"],
    winners: Int[Tensor, " n_draws"],
    heights: Float[Tensor, " n_draws"],
) -> Table:
    """Tabulate the law of noisy scores' winners, and log Z, beside the exact ones.

    Parameters
    ----------
    scores
        Log-weights of the states.
    winners
        Number of the winning state, one a draw.
    heights
        The winning scores, under centred noise: their mean estimates log Z.
    """
    n = len(winners)
    drawn = winners.bincount(minlength=len(scores)) / n
    return Table(
        {
            "": [*(f"P(k = {k + 1})" for k in range(len(scores))), "log Z"],
            "exact": [*scores.softmax(0).tolist(), float(scores.logsumexp(0))],
            f"{n:,} draws": [*drawn.tolist(), float(heights.mean())],
        },
        digits=4,
    )


def divergences_table(
    couplings: Sequence[tuple[float, float]], nats: Sequence[float]
) -> Table:
    """Tabulate divergences of laws of perturb-and-MAP from Boltzmann laws.

    Parameters
    ----------
    couplings
        Of the Boltzmann law and of the perturbed model, one pair a row.
    nats
        The divergences.
    """
    return Table(
        {
            "Boltzmann law with": [f"θ = {a}" for a, _ in couplings],
            "perturb-and-MAP with": [f"θ = {b}" for _, b in couplings],
            "KL [nats]": [*nats],
        },
        caption="Divergence of the second law from the first.",
        digits=2,
    )


class Judged(NamedTuple):
    """What draws of a sampler come to.

    Attributes
    ----------
    optimal
        Share of the draws that are the best state of their perturbed model.
    magnetisation
        Mean of all spins.
    divergence
        KL divergence of the draws' law from the one that is wanted, in nats.
    """

    optimal: float
    magnetisation: float
    divergence: float


def judge(
    states: Int[Tensor, " n_draws"],
    best: Int[Tensor, " n_draws"],
    wanted: Float[Tensor, " n_states"],
) -> Judged:
    """Judge draws of a few bits.

    Parameters
    ----------
    states
        Number of the drawn state (`ebmtut.states.states_to_index`), one a draw.
    best
        That of the best state of the same perturbed model.
    wanted
        Probabilities of all states.
    """
    law = states.bincount(minlength=len(wanted)).double() / len(states)
    x = enumerate_states(len(wanted).bit_length() - 1)[states]
    return Judged(
        float((states == best).double().mean()),
        float(2 * x.mean() - 1),
        float((wanted * (wanted / law).log()).sum()),
    )


def draw_starts(
    n_sweeps: Sequence[int],
    zero: Sequence[Judged],
    symmetric: Sequence[Judged],
) -> Figure:
    """Draw what messages from two starts come to, over the number of sweeps.

    Parameters
    ----------
    n_sweeps
        The numbers, evenly spaced on the axis.
    zero, symmetric
        What the draws come to, for each number.
    """
    figure, axes = plt.subplots(1, 2, figsize=panel_size(1, 2, aspect=0.8))
    for solver, rows in (("zero", zero), ("symmetric", symmetric)):
        color, marker, _ = STYLE[solver]
        for ax, line in zip(axes, (*zip(*rows, strict=True),)[:2], strict=True):
            ax.plot(line, f"{marker}-", color=COLORS[color], label=solver)
            ax.set(xlabel="sweeps", xticks=range(len(n_sweeps)), xticklabels=n_sweeps)
    axes[0].set_title("share of optima found")
    axes[1].set_title("magnetisation (exact: 0)")
    axes[0].legend(title="start")
    return figure


def outcomes_table(rows: Mapping[str, Sequence[Judged]]) -> Table:
    """Tabulate what the last number of sweeps comes to.

    Parameters
    ----------
    rows
        ``"optimum"`` and, by their start, the runs of max-product: what the draws come
        to, for each number of sweeps.
    """
    heads = ("best state found", "magnetisation", "KL from θ = 0.5")
    last = zip(*(row[-1] for row in rows.values()), strict=True)
    return Table(
        {"method": ["exact optimum", "from N = 0", "from N = W/2"]}
        | {head: [*values] for head, values in zip(heads, last, strict=True)},
        caption="After 100 sweeps.",
        kinds=["exact", "", ""],
        digits=2,
    )


def draw_perturbed(boltzmann: Tensor, perturbed: Mapping[float, Tensor]) -> Figure:
    """Draw laws of perturb-and-MAP over one Boltzmann law, a panel each.

    Parameters
    ----------
    boltzmann
        Probabilities of the states.
    perturbed
        Such probabilities, by the theta of the perturbed model.
    """
    n_panels = len(perturbed)
    figure, axes = plt.subplots(
        1, n_panels, figsize=(6.4, 2.7), sharey=True, squeeze=False
    )
    for ax, (theta, law) in zip(axes[0], perturbed.items(), strict=True):
        draw_laws(ax, boltzmann, law)
        ax.set_title(f"perturb-and-MAP, θ = {theta}")
    return figure
