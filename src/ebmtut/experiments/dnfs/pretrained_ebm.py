"""Row dnfs/pretrained-ebm (Figures 4 and 11): samplers of a learned energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.checks import OneOf, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.dnfs.captions import means_of
from ebmtut.experiments.dnfs.plane_samplers import (
    METHODS,
    PlaneConfig,
    cells,
    exact_laws,
    plane_job,
)
from ebmtut.experiments.dnfs.wide_planes import BITS
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.training import TrainConfig

#: States of a batch of a flow's training.
BATCH = TrainConfig(n_steps=0).batch_size
#: What we ask of our recipe: the mass that its law has in the wrong place.
MISPLACED = 0.05


def draw_samplers(result: Result) -> Figure:
    """Draw the exact law of each sampler's states beside the energy's.

    Few densities take lines of four pictures; of more each has a line of its own.
    """
    columns = ["exact", *result.scalars["table"]]
    densities = result.scalars["energy from data"]
    names = [(d, c) for d in densities for c in columns]
    a_line_each = len(densities) > 3
    n_columns = len(columns) if a_line_each else 4
    n_rows = -(-len(names) // n_columns)
    size = panel_size(n_rows, n_columns, title=0.03 if a_line_each else 0.15)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for k, (density, name) in enumerate(names):
        ax = axes.flat[k]
        exact = result.arrays[f"exact/{density}"]
        law = exact if name == "exact" else result.arrays[f"law/{name}/{density}"]
        ax.imshow(law, origin="lower", vmin=0, vmax=float(exact.max()))
        if not a_line_each:
            label = f"{density}, exact" if name == "exact" else name
            ax.set_title(label, fontsize=8)
            continue
        if k < n_columns:
            ax.set_title(name.replace(", ", "\n"), fontsize=8)
        if name == "exact":
            at = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 8}
            ax.text(-0.1, 0.5, density, transform=ax.transAxes, **at)
    return figure


#: What a table may show, its value for the exact law if it has one, and its words.
_SHOWN: dict[str, tuple[float | None, str]] = {
    "TV": (0.0, "Share of the mass in the wrong place (TV), summed over all states"),
    "ESS": (1.0, "ESS by 64 steps, weights of continuous time"),
    "log Z error": (0.0, "Error of log Z by 64 steps"),
    "clipped share": (None, "Share of log-ratios above 5 that a training cut"),
}


@checked
def sampler_table(
    result: Result,
    metric: Annotated[str, OneOf(_SHOWN)] = "TV",
    *,
    methods: Sequence[str] = (),
) -> Table:
    """Judge each sampler on each energy."""
    table = {m: result.scalars["table"][m] for m in methods or result.scalars["table"]}
    exact, words = _SHOWN[metric]
    last: list[Cell] = [] if exact is None else [exact]
    columns: dict[str, list[Cell]] = {"sampler": [*table, *(["exact"] if last else [])]}
    for density in next(iter(table.values())):
        found = [_values(result, row[density], metric) for row in table.values()]
        columns[density] = [*(mean_and_stderr(v) if v else None for v in found), *last]
    if metric == "TV":
        words += "; CPU seconds of a training"
        trainings = (
            [v for cell in row.values() for v in cell.get("train cpu s", [])]
            for row in table.values()
        )
        columns["CPU s"] = [sum(v) / len(v) if v else None for v in trainings] + [None]
    return Table(
        columns,
        caption=f"{words}.{means_of(result)}",
        kinds=[
            *("null" if m == "untrained" else "" for m in table),
            *(["exact"] if last else []),
        ],
        digits=2,
    )


def _values(result: Result, cell: dict[str, Any], metric: str) -> list[float] | None:
    """Return a metric's values; a run that kept counts of cut ratios alone has shares.

    Of every state of every batch the ratios of all its bits were met.
    """
    found: list[float] | None = cell.get(metric)
    if found is None and metric == "clipped share" and "clipped" in cell:
        config = result.config
        met = config["n_steps"] * BATCH * 2 * config["n_bits"]
        return [n / met for n in cell["clipped"]]
    return found


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
            methods=tuple(m for m in METHODS if m != "paper"),
            n_steps=200,
            n_layers=1,
        ),
        "full": PlaneConfig(
            densities=DENSITIES,
            methods=METHODS,
            n_steps=1000,
            n_seeds=3,
        ),
        # Section E.1: 32 bits, 128 time steps, three layers of width 128, 100,000 steps
        # at 0.0001, and an energy as in the first chapter's paper; "paper" and the two
        # of LEAPS are the recipes. Ours: the cosine of the rate, the sizes of the
        # GFlowNet and of leConv, and how many samples judge.
        "paper": PlaneConfig(
            densities=DENSITIES,
            methods=METHODS,
            n_bits=BITS,
            n_energy_steps=100_000,
            n_steps=100_000,
            width=128,
            n_layers=3,
            n_time_steps=128,
            n_samples=50_000,
            learning_rate=1e-4,
        ),
    },
    cells=cells,
    job=plane_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    extras=exact_laws,
    null=nothing_learned,
    figure=draw_samplers,
    check=check_samplers,
)
