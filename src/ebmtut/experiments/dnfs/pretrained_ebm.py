"""Row dnfs/pretrained-ebm (Figures 4 and 11): samplers of a learned energy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import planes
from ebmtut.experiments.dnfs.planes import PlaneConfig
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["EXPERIMENT", "draw_samplers", "nothing_learned", "sampler_table"]

#: What we ask of our recipe: the mass that its law has in the wrong place.
MISPLACED = 0.05


def draw_samplers(result: Result) -> Figure:
    """Draw the exact law of each sampler's states beside the energy's."""
    columns = ["exact", *result.scalars["table"]]
    names = [(d, c) for d in result.scalars["energy from data"] for c in columns]
    n_rows = -(-len(names) // 4)
    figure, axes = plt.subplots(
        n_rows, 4, figsize=panel_size(n_rows, 4, title=0.15), squeeze=False
    )
    for ax in axes.flat:
        ax.axis("off")
    for (density, name), ax in zip(names, axes.flat, strict=False):
        exact = result.arrays[f"exact/{density}"]
        law = exact if name == "exact" else result.arrays[f"law/{name}/{density}"]
        ax.imshow(law, origin="lower", vmin=0, vmax=float(exact.max()))
        ax.set_title(name if name != "exact" else f"{density}, exact", fontsize=8)
    return figure


def sampler_table(result: Result) -> Table:
    """Set the exact distance of each sampler's law beside its ESS and log Z."""
    table = result.scalars["table"]
    densities = list(next(iter(table.values())))
    columns: dict[str, list[Cell]] = {"sampler": [*table, "exact"]}
    for head, exact in (("TV", 0.0), ("ESS", 1.0), ("log Z error", 0.0)):
        for density in densities:
            found = [row[density].get(head) for row in table.values()]
            cells = [None if v is None else _spread(v) for v in found]
            columns[f"{head}, {density}"] = [*cells, exact]
    columns["CPU s"] = [
        _spread([v for cell in row.values() for v in cell.get("train cpu s", [])][:1])
        for row in table.values()
    ] + [None]
    return Table(
        columns,
        caption="Share of the mass in the wrong place (TV), summed over all states; "
        "ESS by 64 steps, weights of continuous time; CPU seconds of a training.",
        kinds=[*("null" if m == "untrained" else "" for m in table), "exact"],
        digits=2,
    )


def _spread(values: list[float]) -> Cell:
    """Mean and its error, the one value there is, or nothing."""
    if not values:
        return None
    mean, stderr = mean_and_stderr(values)
    return mean if stderr is None else (mean, stderr)


def check_samplers(result: Result) -> list[Verdict]:
    """Our recipe's law is the energy's."""
    verdicts = []
    for density, cell in result.scalars["table"]["DNFS"].items():
        mean, stderr = mean_and_stderr(cell["TV"])
        of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(cell["TV"])}
        name = f"{density}: mass that DNFS has in the wrong place"
        verdicts.append(claim(name, mean, "at most", MISPLACED, **of))
    return verdicts


def nothing_learned(result: Result) -> Result:
    """Return the untrained flow in the place of every flow."""
    table = result.scalars["table"]
    same = dict.fromkeys(table, table["untrained"])
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="dnfs/pretrained-ebm",
    title="Samplers of a learned energy",
    presets={
        "quick": PlaneConfig(
            densities=("8gaussians",),
            methods=tuple(m for m in planes.METHODS if m != "paper"),
            n_steps=200,
            n_layers=1,
        ),
        "full": PlaneConfig(
            densities=("8gaussians", "checkerboard", "2spirals"),
            methods=planes.METHODS,
            n_steps=1000,
        ),
    },
    cells=planes.cells,
    job=planes.plane_job,
    arrays={"*": "{name}/{cell}"},
    extras=planes.exact_laws,
    null=nothing_learned,
    figure=draw_samplers,
    check=check_samplers,
)
