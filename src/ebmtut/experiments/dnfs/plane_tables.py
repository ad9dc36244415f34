"""Tables of energies and flows over the plane, for the pages."""

from dataclasses import replace
from statistics import fmean
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import OneOf, checked
from ebmtut.experiments.dnfs.planes import distance, gray_cells
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pivot import Pivot, range_of, ranges_of, table_of
from ebmtut.results import Cell, Result, Table


def means_of(result: Result) -> str:
    """Return a sentence on the errors in a table, nothing for a single run."""
    n_seeds = result.config["n_seeds"]
    return f" Means of {n_seeds} runs and their standard errors." if n_seeds > 1 else ""


_DISTANCES = Pivot(
    head="energy",
    rows={"{density}": "table/DNFS/{density}"},
    columns={
        "flow": "TV",
        "64 sweeps": "/table/64 sweeps/{density}/TV",
        "GFlowNet": "/table/GFlowNet/{density}/TV",
    },
    caption=lambda result: (
        f"Total variation distance from the energy's distribution.{means_of(result)} "
        "Sweeps: energy of the first run."
    ),
    digits=2,
    even=True,
)


def swept_distribution(p: Float[Tensor, " n_all"], n_sweeps: int) -> Tensor:
    """Distribution after one Gibbs sweep at each of the times k / n_sweeps to p."""
    found, index = torch.full_like(p, 1 / len(p)), torch.arange(len(p))
    for k in range(1, n_sweeps + 1):
        weight = p ** (k / n_sweeps)
        for bit in range(len(p).bit_length() - 1):
            flipped = index ^ 2**bit
            found = (found + found[flipped]) * weight / (weight + weight[flipped])
    return found


def distance_table(result: Result) -> Table:
    """Tabulate how far four samplers of few bits end from each energy."""
    column, row = gray_cells(result.config["n_bits"]).T
    table = dict(result.scalars["table"], **{"64 sweeps": {}})
    for density in table["DNFS"]:
        picture = torch.from_numpy(result.arrays[f"exact/{density}"])
        exact = picture.double()[row, column]
        swept = swept_distribution(exact, 64)
        table["64 sweeps"][density] = {"TV": float(distance(swept, exact))}
    return _DISTANCES(replace(result, scalars=result.scalars | {"table": table}))


#: What a table may show, and its caption.
_SHOWN = {
    "TV": "Total variation distance (TV), summed over all states",
    "ESS": "ESS in 64 steps, path weights",
    "log Z error": "Error of log Z in 64 steps",
    "clipped share": "Fraction of log-ratios above 5 that a training clipped",
}


@checked
def sampler_table(
    result: Result, metric: Annotated[str, OneOf(_SHOWN)] = "TV"
) -> Table:
    """Scores of each sampler on each energy."""
    table = Pivot(
        head="sampler",
        rows={"{sampler}": "table/{sampler}"},
        columns={"{density}": f"{{density}}/{metric}"},
        kinds={"untrained": "null"},
        caption=f"{_SHOWN[metric]}.{means_of(result)}",
        digits=2,
    )
    return table(result)


# What the weights say of Taylor ratios, beside what they do.
ratio_table = Pivot(
    head="energy",
    rows={"{density}": "table/DNFS/{density}"},
    columns={
        "ESS, exact ratios": "ESS",
        "ESS, Taylor": "/table/Taylor/{density}/ESS",
        "log Z off, Taylor": "/table/Taylor/{density}/log Z error",
        "TV, exact ratios": "TV",
        "TV, Taylor": "/table/Taylor/{density}/TV",
    },
    caption=lambda result: f"Ratios to first order, and exact ones.{means_of(result)}",
    digits=2,
)


# The largest total variation distance over time, of the flow and the baseline.
trajectory_table = Pivot(
    head="flow",
    rows={
        "flow, {density}": "table/DNFS/{density}",
        "untrained, {density}": "table/untrained/{density}",
    },
    columns={"forward": "worst TV", "reversed": "worst TV back"},
    kinds={"untrained, {density}": "null"},
    caption=lambda result: (
        f"Total variation distance at the worst of 33 times.{means_of(result)}"
    ),
    digits=2,
)


_SCORES = {"KL [nats]": "KL", "TV": "TV", "MMD [1e-4]": "MMD"}


def score_table(result: Result) -> Table:
    """Exact scores of energies and samplers beside independent bits, a row each."""
    table = result.scalars["table"]
    lines = [("DNFS", "energy", ""), ("DNFS", "flow", "flow ")]
    if "EB-GFN" in table:
        lines += [("EB-GFN", "EB-GFN, energy", ""), ("EB-GFN", "GFlowNet", "flow ")]
    lines.append(("DNFS", "independent bits", "null "))
    rows = [
        (
            density,
            name,
            *(range_of(table[method][density][key + k]) for k in _SCORES.values()),
        )
        for density in table["DNFS"]
        for method, name, key in lines
    ]
    return table_of(
        ("density", "distribution", *_SCORES),
        rows,
        caption=f"Distance from the data, summed over all states.{ranges_of(result)}",
        kinds=["null" if row[1] == "independent bits" else "" for row in rows],
    )


def control_table(trained: Result, control: Result) -> Table:
    """Set the energies' distances from the data beside each other."""
    sweeps = control.scalars["table"]["sweeps"]
    rows = {"flow and sweeps": trained.scalars["table"]["DNFS"], "sweeps alone": sweeps}
    columns: dict[str, list[Cell]] = {"density": list(sweeps)}
    columns |= {k: [range_of(row[d]["KL"]) for d in sweeps] for k, row in rows.items()}
    columns["independent bits"] = [range_of(c["null KL"]) for c in sweeps.values()]
    seconds = (
        f"{name} {fmean(fmean(cell['cpu s']) for cell in row.values()):.0f}"
        for name, row in rows.items()
    )
    words = f"KL of the energy from the data in nats.{ranges_of(trained)} "
    words += f"Mean CPU seconds of a run: {', '.join(seconds)}."
    return Table(columns, caption=words, digits=3)


def with_printed(result: Result) -> Result:
    """Return the study of 32 bits with what the paper prints beside it."""
    fact, table = get_fact("dnfs/ebm-table"), dict(result.scalars["table"])
    table["paper"] = {
        density: {
            f"{method}, {known.name}": known.number(method, density)
            for known in (fact.table("NLL"), fact.table("MMD"))
            for method in known.published
        }
        for density in table["EB-DNFS"]
    }
    return replace(result, scalars=result.scalars | {"table": table})


_WIDE_ROWS = {"{density}": "table/EB-DNFS/{density}"}
_PAPER = "/table/paper/{density}/"
likelihood_table = Pivot(
    head="density",
    rows=_WIDE_ROWS,
    columns={
        "entropy": "/table/uniform bits/{density}/entropy",
        "paper": _PAPER + "EB-DNFS, NLL",
        "uniform bits": "/table/uniform bits/{density}/NLL",
        "annealed updates": "/table/annealed sweeps/{density}/NLL",
        "flow": "NLL",
    },
    caption="Negative log-likelihood of the energy [nats].",
    digits=5,
)
flow_table = Pivot(
    head="density",
    rows=_WIDE_ROWS,
    columns={
        "bound, paper": _PAPER + "DNFS as a density, NLL",
        "bound": "flow bound",
        "flow, paper": _PAPER + "EB-DNFS, MMD",
        "flow": "MMD",
        "Gibbs, paper": _PAPER + "Gibbs samples of the EBM, MMD",
        "Gibbs": "MMD of Gibbs samples",
        "exact": "MMD of exact draws",
    },
    caption="Bound of the flow [nats], then MMDs to the data [1e-4].",
    digits=5,
)
