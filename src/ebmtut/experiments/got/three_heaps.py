"""Three heaps and three holes: what duality says of them, and how they cool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.results import Table
from ebmtut.results.tables import Cell
from ebmtut.transport import ExactOT

__all__ = ["draw_duality", "plan_table", "schedules_table", "shares_table"]


def plan_table(solved: ExactOT) -> Table:
    """Write how much sand goes from each heap to each hole."""
    heaps, holes = (range(1, n + 1) for n in solved.plan.shape)
    columns: dict[str, list[Cell]] = {"the best plan": [f"heap {i}" for i in heaps]}
    for j, moved in zip(holes, solved.plan.T.tolist(), strict=True):
        columns[f"to hole {j}"] = moved
    return Table(columns, caption=f"Sand moved, at a cost of {solved.value:.1f}")


def shares_table(
    shares: Mapping[str, Float[Tensor, "n_chains m2"]], q: Float[Tensor, " m2"]
) -> Table:
    """Write the mass for which each hole is the cheapest, and what it must be.

    Parameters
    ----------
    shares
        Of each of some chains, by the number of their iterations.
    q
        Masses of the holes: the mean shares in the Boltzmann law.
    """
    columns: dict[str, list[Cell]] = {"iterations": [*shares, "in the law"]}
    for j, mass in enumerate(q.tolist()):
        seen = [share[:, j] for share in shares.values()]
        columns[f"hole {j + 1}"] = [
            *((float(v.mean()), float(v.std()) / len(v) ** 0.5) for v in seen),
            mass,
        ]
    return Table(
        columns,
        caption="Mass of the heaps whose cheapest hole is this one, mean ± its error",
        kinds=[*[""] * len(shares), "exact"],
    )


def schedules_table(
    lack: Callable[[Tensor], Float[Tensor, " n_chains"]],
    schedules: Mapping[str, Callable[[int], Tensor]],
    budgets: Sequence[int],
) -> Table:
    """Write what chains lack at their end: a schedule a row, a budget a column.

    Parameters
    ----------
    lack
        Takes the temperatures of all half steps; gives what each of some chains
        lacks then, a share of the cost.
    schedules
        Temperatures for a number of iterations, by name.
    budgets
        Numbers of iterations.
    """
    columns: dict[str, list[Cell]] = {"iterations": [*schedules]}
    for n in budgets:
        lacks = [100 * lack(schedule(n)) for schedule in schedules.values()]
        columns[f"{n}"] = [f"{v.median():.2f} / {v.max():.2g}" for v in lacks]
    return Table(columns, caption="What the prices lack, percent of W: median / worst")


def draw_duality(
    x: Float[Tensor, " m1"],
    y: Float[Tensor, " m2"],
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    solved: ExactOT,
) -> Figure:
    """Draw the sand that moves, and beside it which prices leave nothing over.

    Parameters
    ----------
    x, y
        Places of heaps and holes.
    p, q
        Their masses.
    cost
        M.
    solved
        The best plan with its prices.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(TEXT_WIDTH, 2.7))
    price = solved.g[:, None] - solved.h
    right.matshow(cost - price < 1e-9, cmap="Blues", vmax=2)
    for i, j in (solved.plan >= 0).nonzero().tolist():
        mass = float(solved.plan[i, j])
        if mass > 0:
            left.plot([x[i], y[j]], [1, 0], COLORS["Gibbs-OT"], lw=20 * mass)
        text = f"{cost[i, j]:.0f} − {price[i, j]:.0f}".replace("− -", "+ ")
        right.text(j, i, text, ha="center", va="center")
    for at, level, masses, name in ((x, 1, p, "p"), (y, 0, q, "q")):
        left.scatter(at, [level] * len(at), s=900 * masses, c="k", zorder=3)
        left.text(min(x.min(), y.min()) - 1.1, level, name, va="center")
        for place, mass in zip(at.tolist(), masses.tolist(), strict=True):
            left.text(
                place, 1.5 * level - 0.25, f"{mass:.1f}", ha="center", va="center"
            )
    left.margins(0.25)
    left.axis("off")
    right.set_xticks(range(len(y)), [f"{j + 1}" for j in range(len(y))])
    right.set_yticks(range(len(x)), [f"{i + 1}" for i in range(len(x))])
    right.set(xlabel="hole", ylabel="heap", title="cost − price")
    return figure
