"""Tables of the row drl/long-run: how far walks lead, and what their moves accept."""

from __future__ import annotations

from ebmtut.experiments.drl.images import ImageRecipe
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["acceptance_table", "walks_table"]


def walks_table(result: Result) -> Table:
    """Each training's distances, beside held-out data and a Gaussian fit.

    Parameters
    ----------
    result
        Of the row drl/long-run.
    """
    rows = result.scalars["table"]
    heads = {
        "its samples": "distance",
        "longest chains": "distance of the longest",
        "after the walk": "after the walk",
    }
    known = ("held-out data", "Gaussian fit")
    columns: dict[str, list[Cell]] = {"training": [*rows, *known]}
    for head, metric in heads.items():
        found: list[Cell] = [mean_and_stderr(row[metric]) for row in rows.values()]
        both = [
            result.scalars[name] if metric == "distance" else None for name in known
        ]
        columns[head] = [*found, *both]
    return Table(
        columns,
        caption=f"Distance from the data. Seeds: {result.config['n_seeds']}.",
        kinds=[""] * len(rows) + ["exact", "null"],
    )


def acceptance_table(result: Result) -> Table:
    """Acceptance of Hamiltonian Monte Carlo in the conditional law of each level.

    Parameters
    ----------
    result
        Of the row drl/long-run.

    Returns
    -------
    table
        Of each level the noise, the step size that was found, and the rate of each
        training, with its standard error over the seeds.
    """
    recipes = {name: ImageRecipe(**fields) for name, fields in result.config["recipes"]}
    first = next(iter(recipes))
    noises = recipes[first].noise.noises[: recipes[first].n_levels]
    sizes = result.arrays[f"step sizes/{first}"].mean(0)
    columns: dict[str, list[Cell]] = {
        "level": [str(t) for t in range(len(noises))],
        "noise": [round(noise, 3) for noise in noises],
        "step size": [round(float(size), 3) for size in sizes],
    }
    for name in recipes:
        if f"acceptance/{name}" in result.arrays:
            rates = result.arrays[f"acceptance/{name}"].T
            columns[name] = [mean_and_stderr(rate.tolist()) for rate in rates]
    return Table(
        columns,
        caption="Share of the moves that are accepted. Seeds: "
        f"{result.config['n_seeds']}.",
    )
