"""How far the digits of the pages' recipes spread, and what keeps long training alive.

A part of the row drl/ablation: each recipe is learned with several seeds, and judged by
several draws, since one draw of 500 images has a spread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ebmtut.experiments.drl.image_sets import image_set, measure, null_images
from ebmtut.experiments.drl.images import FULL, LIVE, QUICK, ImageRecipe
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = [
    "LIVED",
    "RECIPES",
    "check_recipes",
    "distances_of",
    "fitted",
    "known_distances",
    "recipes_table",
]

_LONGER = replace(QUICK, n_steps=FULL.n_steps)
#: The recipes of the pages, by what they are; and a training of ten times the steps,
#: at the usual rate, with the saturated gap and without.
RECIPES: Mapping[str, ImageRecipe] = {
    "1500 steps at 0.004": QUICK,
    "6000 steps at 0.003, averaged noise": LIVE,
    "15,000 steps at 0.004": _LONGER,
    "15,000 steps at 0.004, every chain trusted": replace(_LONGER, trust=0.0),
}

#: What a page learns live.
LIVED = "6000 steps at 0.003, averaged noise"
HELD_OUT, FIT = "held-out data", "Gaussian fit"


def known_distances(n_samples: int, seed: int) -> dict[str, float]:
    """Distances of so many images that no model has learned.

    Parameters
    ----------
    n_samples
        Of each row.
    seed
        Of the Gaussian fit's.
    """
    data = image_set(QUICK.data)
    made = null_images(data, n_samples, generator=make_generator(seed))
    return {row: measure(made[row], QUICK.data)["distance"] for row in (HELD_OUT, FIT)}


def distances_of(row: Mapping[str, Any]) -> list[float]:
    """Return the distance of every run, NaN where the alarm stopped it.

    Parameters
    ----------
    row
        Of a setting, a variant or a recipe.
    """
    found = row.get("distance", [None] * len(row["steps"]))
    return [math.nan if value is None else float(value) for value in found]


def recipes_table(result: Result) -> Table:
    """How the recipes' trainings ended, and how far their digits are from the data.

    Parameters
    ----------
    result
        Of the row drl/ablation.

    Returns
    -------
    table
        Of what lived the mean with its standard error, and the range over the seeds.
    """
    rows = result.scalars["table"]["recipes"]
    lived = [[d for d in distances_of(row) if np.isfinite(d)] for row in rows.values()]
    counts = [len(row["steps"]) for row in rows.values()]
    seconds = [mean_and_stderr(row["seconds"])[0] for row in rows.values()]
    known = result.scalars["known"]
    columns: dict[str, list[Cell]] = {
        "training": [*rows, *known],
        "lived": [f"{len(d)} of {n}" for d, n in zip(lived, counts, strict=True)],
        "distance": [mean_and_stderr(d) if d else None for d in lived],
        "range": [f"{min(d):.1f} to {max(d):.1f}" if d else None for d in lived],
        "CPU s": [round(s) for s in seconds],
    }
    columns["distance"] += known.values()
    for name in ("lived", "range", "CPU s"):
        columns[name] += [None] * len(known)
    return Table(
        columns,
        kinds=[""] * len(rows) + ["exact", "null"],
        caption="Distance from the data, of each training the mean of "
        f"{result.config['n_draws']} draws of {result.config['n_samples']} images.",
    )


def check_recipes(result: Result) -> list[Verdict]:
    """Hold what a page learns live to the held-out digits, in every seed.

    Parameters
    ----------
    result
        Of the row drl/ablation.
    """
    rows = result.scalars["table"].get("recipes", {})
    if LIVED not in rows:
        return []
    found, known = distances_of(rows[LIVED]), result.scalars["known"]
    way = known[FIT] - known[HELD_OUT]
    left = float(np.max(found) - known[HELD_OUT]) / way
    label = f"{LIVED}: share of the way from a Gaussian fit, in the worst seed"
    worst = left if math.isfinite(left) else None
    return [claim(label, worst, "at most", 0.05, n_seeds=len(found))]


def fitted(result: Result) -> Result:
    """Return the row with a Gaussian fit's samples where a page learns live.

    Parameters
    ----------
    result
        Of the row drl/ablation.
    """
    table = result.scalars["table"]
    if LIVED not in table.get("recipes", {}):
        return result
    row = table["recipes"][LIVED]
    fits = {"distance": [result.scalars["known"][FIT]] * len(row["steps"])}
    table = table | {"recipes": table["recipes"] | {LIVED: row | fits}}
    return replace(result, scalars=result.scalars | {"table": table})
