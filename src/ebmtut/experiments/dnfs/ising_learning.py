"""Row dnfs/ising-learning (Figure 7, Table 4): couplings learned with the sampler.

Source: Ou, Zhang and Li (2025), Section 4.2 and Appendix E.2. The data are those of
the row ed/ising-rmse: the same lattices, samples and score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.captions import range_of, ranges_of
from ebmtut.experiments.dnfs.coupling_learner import LearningConfig, learn_couplings
from ebmtut.experiments.dnfs.magnets import coupling_scores, magnet
from ebmtut.experiments.ed.couplings import column_name
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.plotting import COLORS, OKABE_ITO, panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

#: What we ask: the paper's numbers, where they are above those of J = 0 by more
#: than 0.5.
OURS = {"10x10, 0.1": 4.6, "10x10, 0.2": 3.9, "9x9, -0.1": 4.6, "9x9, -0.2": 3.9}

#: Methods that a table calls otherwise.
NAMES = {"AIS": "annealed chains", "PCD": "persistent chains"}

#: Methods in a picture: sign and colour.
MARKS = (
    ("DNFS", "o", COLORS["DNFS"]),
    ("DNFS+DMALA", "s", OKABE_ITO["green"]),
    ("AIS", "^", COLORS["Gibbs"]),
)


def learning_job(
    side: int,
    sigma: float,
    method: str,
    config: LearningConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw data of one lattice and learn its couplings."""
    x, truth = magnet(side, sigma, config.n_data, config.n_sweeps, seed=seed)
    learned = learn_couplings(
        x.to(device), side, method, config, seed=seed, checkpoint=checkpoint
    )
    coupling = learned.coupling.cpu()
    return Outcome(
        {
            **coupling_scores(coupling, truth),
            "ESS": float(learned.shares[-len(learned.shares) // 10 :].mean()),
            "cpu s": learned.cpu_seconds,
        },
        {"coupling": coupling.numpy()},
    )


def cells(config: LearningConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and lattice."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
    return {
        (method, column_name(side, sigma)): {
            "side": side,
            "sigma": sigma,
            "method": method,
            "config": alone,
        }
        for method in config.methods
        for side, sigma in config.problems
    }


def draw_couplings(result: Result) -> Figure:
    """Draw the learned couplings of three lattices, and the scores of all."""
    table = result.scalars["table"]
    columns = list(table["DNFS"])
    shown = columns[:3]
    figure, axes = plt.subplots(
        1, len(shown) + 1, figsize=panel_size(1, len(shown) + 1, aspect=1.1)
    )
    for column, ax in zip(shown, axes, strict=False):
        sigma = float(column.split(", ")[1])
        learned = result.arrays[f"coupling/DNFS/{column}"]
        ax.imshow(learned, cmap="RdBu_r", vmin=-abs(sigma), vmax=abs(sigma))
        ax.set(title=column, xticks=[], yticks=[])
    ax, at = axes[-1], np.arange(len(columns))
    null = [table["DNFS"][column]["null"][0] for column in columns]
    ax.plot(at, null, "_", ms=12, color=COLORS["null"], label="J = 0")
    for shift, (method, mark, color) in zip((-0.25, 0, 0.25), MARKS, strict=True):
        for k, column in enumerate(columns if method in table else ()):
            values = table[method][column]["nlr"]
            name = _name(method) if k == 0 else None
            where = [k + shift] * len(values)
            ax.plot(where, values, mark, ms=4, color=color, label=name)
    ax.set_xticks(at, [c.split(", ")[1] for c in columns], rotation=60)
    ax.set(title="−ln RMSE", xlabel="coupling σ")
    figure.legend(ncols=4, loc="outside lower center")
    return figure


def score_table(result: Result, *rivals: Result, seconds: bool = False) -> Table:
    """Negative log-RMSE by lattice: ours, the paper's, and J = 0."""
    table = result.scalars["table"]
    lattices = list(table["DNFS"])
    found = dict(table)
    for rival in rivals:
        found |= rival.scalars["table"]
    rows: dict[str, list[Cell]] = {}
    rows["J = 0"] = [
        range_of(table["DNFS"][c]["null"][:1], decimals=2) for c in lattices
    ]
    for method, row in found.items():
        rows[_name(method)] = [
            range_of(row[c]["nlr"], decimals=2) if c in row else None for c in lattices
        ]
    paper = get_fact("dnfs/ising-learning").table("negative log-RMSE")
    rows["DNFS, paper"] = [paper.number("DNFS", c) for c in lattices]
    if "EB-GFN" in found:
        same = get_fact("ed/ising-rmse").table("negative log-RMSE")
        rows["EB-GFN, paper"] = [same.number("EB-GFN", c) for c in lattices]
    columns: dict[str, list[Cell]] = {"−ln RMSE": list(rows)}
    for k, lattice in enumerate(lattices):
        columns[lattice] = [row[k] for row in rows.values()]
    if seconds:
        spent = {
            _name(method): [s for cell in row.values() for s in cell["cpu s"]]
            for method, row in found.items()
        }
        columns["CPU s"] = [
            range_of(spent[name], decimals=0) if name in spent else None
            for name in rows
        ]
    return Table(
        columns,
        caption="−ln RMSE of the couplings, by lattice and σ: higher is better."
        + ranges_of(result),
        kinds=["paper" if name.endswith(", paper") else _kind(name) for name in rows],
    )


def share_table(result: Result) -> Table:
    """ESS of the draws' weights at the training's end, by method and lattice."""
    table = result.scalars["table"]
    columns: dict[str, list[Cell]] = {"ESS": [_name(m) for m in table]}
    for lattice in table["DNFS"]:
        columns[lattice] = [
            range_of(row[lattice]["ESS"], decimals=2) for row in table.values()
        ]
    return Table(
        columns,
        caption="ESS of the draws that the couplings learn from at the end, weights of "
        "continuous time." + ranges_of(result),
        kinds=[_kind(_name(method)) for method in table],
    )


def _name(method: str) -> str:
    """Return what a table calls a method."""
    return NAMES.get(method, method)


def _kind(name: str) -> str:
    """Tell apart what learns no sampler."""
    return "null" if name == "J = 0" or name.endswith("chains") else ""


def check_couplings(result: Result) -> list[Verdict]:
    """Compare with the paper's numbers; where there is something to learn, ask them.

    They are asked of the flow whose draws are moved by DMALA steps, where it is run.
    """
    table = result.scalars["table"]
    asked = "DNFS+DMALA" if "DNFS+DMALA" in table else "DNFS"
    verdicts = []
    for method in dict.fromkeys(("DNFS", asked)):
        for column, cell in table[method].items():
            mean, stderr = mean_and_stderr(cell["nlr"])
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(cell["nlr"])}
            if method == "DNFS":
                where = ("dnfs/ising-learning", "negative log-RMSE", "DNFS", column)
                verdicts.append(compare(*where, mean, **of))
            if method == asked and column in OURS:
                name = f"{method}, {column}: negative log-RMSE"
                verdicts.append(claim(name, mean, "at least", OURS[column], **of))
    return verdicts


def no_coupling(result: Result) -> Result:
    """Return J = 0 in the place of what was learned."""
    table = {
        method: {c: cell | {"nlr": cell["null"]} for c, cell in row.items()}
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="dnfs/ising-learning",
    title="Couplings and sampler, learned together",
    presets={
        "quick": LearningConfig(
            problems=((10, 0.1),),
            n_sweeps=500,
            n_steps=120,
            learning_rate=3e-3,
        ),
        # DMALA steps after the flow's own were chosen in a trial on another seed.
        "full": LearningConfig(methods=("DNFS", "DNFS+DMALA", "AIS"), n_seeds=2),
        # Section E.2: data, network, rates of learning, batch, penalty and ten steps of
        # the flow to one of the couplings. It prints no number of steps: ours, as are
        # the cosine to which the couplings' rate falls, their average and the loss of
        # the flow, whose c_t is the mean of a batch.
        "paper": LearningConfig(
            methods=("DNFS",),
            n_steps=50_000,
            learning_rate=1e-4,
            n_flow_steps=10,
            flow_learning_rate=1e-3,
            n_time_steps=64,
            network="leTF",
            width=128,
        ),
    },
    cells=cells,
    job=learning_job,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{name}/{cell}"},
    null=no_coupling,
    figure=draw_couplings,
    check=check_couplings,
)
