"""The barycentre of laws on a line: the known one, and one that was learned."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Table
from ebmtut.transport import cost_matrix, exact_ot

__all__ = ["barycentre_table", "draw_barycentre", "quantile_barycentre"]

_N_LEVELS = 4000


def quantile_barycentre(
    x: Float[Tensor, " n_points"], laws: Float[Tensor, "batch n_points"]
) -> Float[Tensor, " n_points"]:
    """Return the law whose quantiles are the mean of those of the given laws.

    With squared distances on a line it has the least mean transport cost to
    them, up to the width of a cell.

    Parameters
    ----------
    x
        Centres of equal cells of [0, 1].
    laws
        Masses on them.
    """
    n = len(x)
    levels = (torch.arange(_N_LEVELS).to(x) + 0.5) / _N_LEVELS
    place = torch.searchsorted(laws.cumsum(1), levels.repeat(len(laws), 1))
    quantiles = x[place.clamp(max=n - 1)]
    return torch.histc(quantiles.mean(0), n, 0.0, 1.0) / _N_LEVELS


def barycentre_table(
    x: Float[Tensor, " n_points"],
    laws: Float[Tensor, "batch n_points"],
    found: Float[Tensor, " n_points"],
) -> Table:
    """Write mean, deviation and transport cost of a barycentre beside the known one's.

    Parameters
    ----------
    x
        Centres of equal cells of [0, 1].
    laws
        The given laws; their means and deviations are averaged.
    found
        What was learned.
    """
    cost = cost_matrix(x, x)
    known, even = quantile_barycentre(x, laws), torch.full_like(x, 1 / len(x))
    rows = {"learned": found, "start, even": even, "by quantiles": known}

    def moments(law: Tensor) -> Tensor:
        mean = law @ x
        return torch.stack([mean, (law @ (x - mean) ** 2) ** 0.5])

    given = torch.stack([moments(law) for law in laws]).mean(0)
    means, deviations = torch.stack([*map(moments, rows.values()), given]).T.tolist()
    costs = [
        sum(exact_ot(row, law, cost).value for law in laws) / len(laws)
        for row in rows.values()
    ]
    return Table(
        {
            "law": [*rows, "the given, on average"],
            "mean": means,
            "deviation": deviations,
            "mean cost": [*costs, None],
        },
        caption=f"In place and in width, and what it costs to the {len(laws)} given",
        kinds=["", "null", "exact", ""],
    )


def draw_barycentre(
    x: Float[Tensor, " n_points"],
    laws: Float[Tensor, "batch n_points"],
    found: Float[Tensor, " n_points"],
) -> Figure:
    """Draw what was learned over the given laws, beside the known barycentre.

    Parameters
    ----------
    x, laws, found
        As for `barycentre_table`.
    """
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    ax.fill_between(x, laws.amax(0), color="#DDDDDD", label="given")
    ax.plot(x, laws.mean(0), ":", color="k", label="mean of the masses")
    known = quantile_barycentre(x, laws)
    ax.plot(x, known, color=COLORS["exact"], label="quantiles")
    ax.plot(x, found, color=COLORS["Gibbs-OT"], label="learned by Gibbs-OT")
    ax.set(xlabel="x", ylabel="mass")
    ax.legend()
    return figure
