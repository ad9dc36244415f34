"""Tables and drawings that only the pages of this chapter show."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut import metrics
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pivot import Pivot, spread
from ebmtut.experiments.pmp.deconvolution import blank_images
from ebmtut.experiments.pmp.log_partition import ENSEMBLES
from ebmtut.experiments.pmp.rbm_digits import scores
from ebmtut.experiments.pmp.rbm_twos import PRINTED
from ebmtut.experiments.pmp.structured import AMOUNTS
from ebmtut.experiments.pmp.wrong_model import STYLE, untrained
from ebmtut.experiments.pmp.zeros import ZerosConfig, zeros_data
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.plotting import COLORS, OKABE_ITO, plain_log
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table

_MEASURES = {"log_mmd2": "log MMD²"} | {m: m for m in ("sharp", "pairs", "nearest")}
_OTHERS = ("linear programs", "independent pixels", "perfect sampler (expected)")


def toy_table(result: Result) -> Table:
    """Tabulate what each solver learned, with the paper's numbers."""
    table = result.scalars["table"]
    printed = get_fact("pmp/wrong-model").table("four variables")
    columns: dict[str, list[Any]] = {
        "solver": [STYLE[solver][2] for solver in table] + ["the paper", "θ = 0"]
    }
    uniform = untrained(result).scalars["table"]["zero"]
    for metric, head in (
        ("theta", "θ"),
        ("KL to Gibbs(theta)", "KL to Boltzmann"),
        ("KL to PMP samples", "KL to samples"),
    ):
        of_paper = printed.number("PMP", metric) if metric in printed.columns else None
        found = [mean_and_stderr(row[metric]) for row in table.values()]
        columns[head] = [*found, of_paper, uniform[metric][0]]
    n_seeds = result.config["n_seeds"]
    return Table(
        columns,
        caption="KL divergences from the data, in nats: to the Boltzmann distribution "
        f"with θ, and to the samples. Means and standard errors of {n_seeds} seeds.",
        kinds=["exact" if s == "exact MAP" else "" for s in table] + ["paper", "null"],
    )


def log_partition_table(result: Result, *ensembles: str) -> Table:
    """Tabulate the mean error of each method, a column for each size."""
    table, costs = result.scalars["table"], result.scalars["costs"]
    rows = [(e, method) for e in ensembles or table for method in table[e]]
    columns: dict[str, list[Any]] = {
        "models: method": [f"{ENSEMBLES[e].kind}: {method}" for e, method in rows]
    }
    for size in map(str, result.config["sizes"]):
        found = [table[ensemble][method][size] for ensemble, method in rows]
        columns[f"size {size}"] = [(c["mean"], c["stderr"]) for c in found]
    columns["CPU [s]"] = [costs[e][size].get(f"seconds/{method}") for e, method in rows]
    return Table(
        columns,
        caption="Estimate minus log Z, in nats. Errors: over the perturbations of the "
        "one lattice, over dense models. Time: of all models of the largest size.",
        kinds=["exact" if method == "exact" else "" for _, method in rows],
        digits=2,
    )


def zeros_table(result: Result) -> Table:
    """Tabulate scores at the sweeps of learning, and other errors where measured."""
    k, table = result.config["n_sweeps"], result.scalars["table"]
    measures = {
        "covariances": ("pairs", "null pairs", "data pairs"),
        "means": ("means", "", ""),
        "log MMD²": (f"log_mmd2@{k}", "null", "data"),
    }
    if not all("pairs" in row for row in table.values()):
        known = ("log_mmd2 of Gibbs on these weights", "", "")
        measures = {"log MMD²": measures["log MMD²"], "log MMD², Gibbs": known}
    columns: dict[str, list[Any]] = {"learned with": [*table, *_OTHERS[1:]]}
    for head, (own, *ends) in measures.items():
        columns[head] = [spread(row[own], 3) for row in table.values()]
        columns[head] += [result.scalars.get(end) for end in ends]
    return Table(
        columns,
        caption=f"Errors of samples after {k} sweeps by the sampler used in learning. "
        f"Lower is better. {_seeds(result)}.",
        kinds=[""] * len(table) + ["null", "exact"],
        even=True,
    )


def draw_learning(result: Result) -> Figure:
    """Draw the error of covariances over the time of learning, with its range."""
    figure, ax = plt.subplots(figsize=(4.6, 3.8))
    rows = result.scalars["table"].items()
    for (name, row), style in zip(rows, ("o-", "^--", "s-"), strict=True):
        # Both Gibbs methods have one colour elsewhere.
        color = OKABE_ITO["vermillion"] if name == "Gibbs" else COLORS[name]
        seconds = np.mean(row["seconds"], axis=0)
        pairs = np.array(row["pairs"])
        ax.plot(seconds, pairs.mean(0), style, color=color, ms=5, label=name)
        ax.fill_between(seconds, pairs.min(0), pairs.max(0), color=color, alpha=0.2)
    level = result.scalars["data pairs"]
    ax.axhline(level, color=COLORS["exact"], label="perfect sampler")
    ax.set(xlabel="CPU seconds of learning", ylabel="error of the covariances")
    ax.set(xscale="log", yscale="log")
    plain_log(ax.xaxis)
    plain_log(ax.yaxis)
    ax.set_yticks([0.2, 0.3, 0.5, 0.8], ["0.2", "0.3", "0.5", "0.8"])
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def weights_table(result: Result) -> Table:
    """Tabulate errors of the learned weights by the sampler that uses them."""
    table, known = result.scalars["table"], result.scalars
    columns: dict[str, list[Any]] = {"learned with": [*table, *_OTHERS[1:]]}
    heads = {
        "by PMP": "pairs by PMP",
        "by Gibbs": "pairs by Gibbs",
        f"by Gibbs, {result.config['n_long']:,}": "pairs by long Gibbs",
    }
    for head, name in heads.items():
        columns[head] = [spread(row[name], 3) for row in table.values()]
        columns[head] += [known["null pairs"], known["data pairs"]]
    scores = [spread([run[-1] for run in row["log_mmd2"]]) for row in table.values()]
    columns["log MMD²"] = [*scores, known["null"], known["data"]]
    return Table(
        columns,
        caption="Error of the covariances of samples that PMP or Gibbs sampling draws "
        f"with the learned weights, after {result.config['n_sweeps']} sweeps or the "
        f"number given; log MMD² of samples as in the figure. {_seeds(result)}.",
        kinds=[""] * len(table) + ["null", "exact"],
        even=True,
    )


def _seeds(result: Result) -> str:
    """Say how many runs a table is of."""
    n = result.config["n_seeds"]
    return "One seed" if n == 1 else f"Means and standard errors of {n} runs"


#: What learning computed.
zeros_work_table = Pivot(
    head="learned with",
    rows={"{method}": "table/{method}"},
    columns={
        "samples a step": "n_chains",
        "site sums": "evaluations",
        "messages": "messages",
        "CPU time [s]": "seconds",
    },
    factors={"site sums": 1e-9, "messages": 1e-9},
    caption="What learning computed: energy differences of one site, and messages, in "
    "thousands of millions.",
)


def sweep_cost_table(cost: Result) -> Table:
    """Tabulate the stored study of what a sweep costs."""
    rows = cost.scalars["rows"]
    flips = [round(100 * row["bits that flip"]) for row in rows]
    return Table(
        {
            "bits that flip in a Gibbs sweep [%]": flips,
            "time of PMP / time of Gibbs": [r["PMP"] / r["Gibbs"] for r in rows],
        },
        caption="Ratio of CPU times per sweep, 900 bits, all coupled; one core. A line "
        "is a model; stronger biases make fewer bits flip.",
        digits=2,
    )


def kernels_table(seed: int) -> Table:
    """Tabulate what two kernels of the MMD see of half the synthetic zeros."""
    x, _ = zeros_data(ZerosConfig(source="drawn", shrink=2), seed)
    uniform = torch.rand(x.shape, generator=make_generator(seed))
    independent, half = (uniform < x.mean(0)).float(), x[1::2]
    kernels = ("average_hamming", "exponential_hamming")
    return Table(
        {
            "kernel": ("exp(−d/D)", "exp(−d/10)"),
            "data": [metrics.mmd(x[::2], half, k) for k in kernels],
            "independent pixels": [metrics.mmd(independent, half, k) for k in kernels],
        },
        caption="Squared MMD to one half of the synthetic zeros.",
        digits=2,
    )


def _printed(id: str, method: str, column: str) -> Cell:
    """Return the paper's log MMD^2 and its standard error, if it has one."""
    printed = get_fact(id).table("log MMD^2")
    value = printed.number(method, column)
    return None if value is None else (value, printed.deviation(method, column))


def zeros_programs_table(result: Result) -> Table:
    """Tabulate the model that linear programs learn, too, beside the paper's number."""
    config, rows = result.config["reduced"], result.scalars["reduced"]["table"]
    ends = result.scalars["references of reduced"]
    scores = [spread(row[f"log_mmd2@{config['n_sweeps']}"]) for row in rows.values()]
    pairs = [spread(row["pairs"], 3) for row in rows.values()]
    seconds = [spread(row["seconds"]) for row in rows.values()]
    return Table(
        {
            "learned with": [*rows, "LP, the paper", *_OTHERS[1:]],
            "covariances": [*pairs, None, ends["null pairs"], ends["data pairs"]],
            "log MMD²": [
                *scores,
                _printed("pmp/zeros-samples", "PmapLP", "zeros"),
                ends["null"],
                ends["data"],
            ],
            "CPU time [s]": [*seconds, None, None, None],
        },
        caption=f"{config['n_steps']} updates of learning; errors of samples, and time "
        f"of learning. Lower is better. {_seeds(result)}.",
        kinds=[""] * len(rows) + ["paper", "null", "exact"],
    )


def rounding_table(result: Result, small: Result, large: Result) -> Table:
    """Tabulate what linear programs learn by what becomes of halves; two studies."""
    own = result.scalars["reduced"]["table"]["LP"]
    score = f"log_mmd2@{result.config['reduced']['n_sweeps']}"
    rule = {"better value": {"log_mmd2": own[score], "pairs": own["pairs"]}}
    rows = small.scalars["table"]
    sizes = {"11 × 11": rows, "30 × 30": rule | large.scalars["table"]}
    columns: dict[str, list[Any]] = {"½ becomes": [*rows]}
    for size, table in sizes.items():
        for measure, head in (("pairs", "covariances"), ("log_mmd2", "log MMD²")):
            columns[f"{head}, {size}"] = [
                spread(table[row][measure], 3) if row in table else None for row in rows
            ]
    return Table(
        columns,
        caption="Errors of samples by the rule for ½, on zeros reduced to 11 × 11 "
        "pixels and at full size, beside PMP. Lower is better. Means and standard "
        "errors of 2 to 5 runs.",
        kinds=["null" if row == "independent pixels" else "" for row in rows],
    )


def structured_table(graph: str, mode: str) -> Pivot:
    """Tabulate one graph and way of learning by sweeps or single-site updates."""
    return Pivot(
        head="sampler",
        rows={"{method}": f"table/{graph}/{mode}/{{method}}"},
        columns={
            "log MMD², {amount}": "{amount}/log_mmd2",
            "RMSE, {amount}": "{amount}/rmse",
        },
        caption=f"The {graph}: log MMD² and error of the couplings by the number of "
        f"{AMOUNTS[mode]}",
    )


#: The errors by what is kept, a column for each number of sweeps.
persistent_table = Pivot(
    head="spins: noise",
    rows={"{size}: {noise}": "table/{size}/{noise}"},
    columns={
        "sweeps per step: {k}": "{k}/error",
        "independent bits": "1/null error",
        "data": "1/data error",
    },
    caption="Root mean square error of the second moments, of new samples by PMP; "
    "{n_seeds} seeds",
)


def shown_scores(result: Result, measure: str) -> list[Cell]:
    """Return the scores of all methods, independent pixels and a perfect sampler."""
    k = result.config["n_sweeps"]
    table = result.scalars["table"]
    found = [mean_and_stderr(scores(result, m, measure)[k]) for m in table]
    return [*found, *(result.scalars[name][measure] for name in ("null", "data"))]


def rbm_table(result: Result) -> Table:
    """Tabulate scores at the sweeps of learning."""
    k, table = result.config["n_sweeps"], result.scalars["table"]
    columns: dict[str, list[Any]] = {"learned with": [*table, *_OTHERS[1:]]}
    for measure, head in _MEASURES.items():
        if measure in result.scalars["null"]:
            columns[head] = shown_scores(result, measure)
    n_seeds = result.config["n_seeds"]
    return Table(
        columns,
        caption=f"Samples after {k} sweeps: log MMD² with the paper's kernel, with a "
        "sharper one, the error of pair covariances, and the fraction of pixels that "
        "differ from the nearest datum. "
        + ("Standard errors over seeds." if n_seeds > 1 else "One seed."),
        kinds=[""] * len(table) + ["null", "exact"],
    )


def pairs_table(result: Result) -> Table:
    """Tabulate the error of pair covariances, and the time of learning."""
    table = result.scalars["table"]
    seconds = [round(float(np.mean(row["seconds"]))) for row in table.values()]
    return Table(
        {
            "method": [*table, "independent pixels", "perfect sampler, expected"],
            "error of covariances": shown_scores(result, "pairs"),
            "CPU time of learning [s]": [*seconds, None, None],
        },
        caption="Means and standard errors over "
        f"{result.config['n_seeds']} seeds; lower is better.",
        kinds=[""] * len(table) + ["null", "exact"],
    )


def twos_table(result: Result) -> Table:
    """Set log MMD^2 beside the paper's numbers."""
    methods = list(result.scalars["table"])
    of_paper = [
        _printed("pmp/rbm-twos", PRINTED.get(method, method), "twos")
        for method in (*methods, "LP")
    ]
    found = shown_scores(result, "log_mmd2")
    return Table(
        {
            "method": [*methods, *_OTHERS],
            "log MMD²": [*found[: len(methods)], None, *found[len(methods) :]],
            "the paper": [*of_paper, None, None],
        },
        caption=f"After {result.config['n_sweeps']} sweeps; lower is better. Means and "
        f"standard errors of {result.config['n_seeds']} seeds beside the paper's.",
        kinds=[""] * len(methods) + ["paper", "null", "exact"],
    )


def programs_table(result: Result) -> Table:
    """Tabulate the reduced problem, on which linear programs can learn, too."""
    k = result.config["n_sweeps"]
    rows, ends = result.scalars["reduced"], result.scalars["reduced_ends"]
    columns: dict[str, list[Cell]] = {"method": [*rows, *_OTHERS[1:]]}
    for measure, head in (("log_mmd2", "log MMD²"), ("pairs", "pairs")):
        found = [row[f"own/{measure}@{k}"][0] for row in rows.values()]
        columns[head] = [*found, *(ends[of][measure] for of in ("null", "data"))]
    seconds = [row["seconds"][0] for row in rows.values()]
    columns["CPU time [s]"] = [*seconds, None, None]
    return Table(
        columns,
        caption="Pictures of 7 × 7 pixels, 10 hidden units, 60 updates, one seed: "
        "log MMD² with the paper's kernel, and the error of pair covariances.",
        kinds=[""] * len(rows) + ["null", "exact"],
    )


def draw_factors() -> Figure:
    """Draw the factors of one pixel that two stamps may explain."""
    figure, ax = plt.subplots(figsize=(4.8, 3.6))
    ax.set(xlim=(0, 8), ylim=(-0.6, 5.5), aspect="equal")
    ax.axis("off")
    style: dict[str, Any] = {"ms": 34, "mec": "black", "mew": 1.4, "zorder": 2}
    middle: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}

    def join(x: float, y: float, up: tuple[float, float], text: str, kind: str) -> None:
        color = {"s": "white", "o": "#DDDDDD", "p": "#F6C9A8"}[kind]
        marker = "s" if kind == "s" else "o"
        ax.plot([x, up[0]], [y, up[1]], color="black", lw=1.4, zorder=1)
        ax.plot(x, y, marker, mfc=color, **style)
        ax.text(x, y, text, size=11 if kind == "s" else 13, **middle)

    join(4, 5.0, (4, 5.0), "$X_p$", "p")
    join(4, 3.8, (4, 5.0), "OR", "s")
    for x, k in ((2, "i"), (6, "j")):
        join(x, 2.6, (4, 3.8), f"$t_{k}$", "o")
        join(x, 1.4, (x, 2.6), "AND", "s")
        join(x - 0.8, 0, (x, 1.4), f"$S_{{p-{k}}}$", "o")
        join(x + 0.8, 0, (x, 1.4), f"$W_{k}$", "o")
    ax.text(4, 2.6, "…", size=16, **middle)
    return figure


def deconvolution_table(
    result: Result, names: Mapping[str, str] | None = None
) -> Table:
    """Tabulate shapes found and pixels wrong, of all protocols or those named.

    Only all of them have times: those that are named may come from two machines.
    """
    table = result.scalars["table"]
    rows = [table[name] for name in names or table]
    black = next(iter(blank_images(result).scalars["table"].values()))["error"]
    found = [row["found"] for row in rows] + [[0.0] * len(rows[0]["found"])]
    wrong = [row["error"] for row in rows] + [black]
    times = [f"{np.mean(row['seconds']):.1f} s" for row in rows] + [None]
    return Table(
        {
            "protocol": [*(names.values() if names else table), "no shapes"],
            "all 4 shapes": [f"{f.count(4)} of {len(f)}" for f in found],
            "shapes, mean": [float(np.mean(f)) for f in found],
            "wrong pixels [%]": [100 * float(np.mean(error)) for error in wrong],
            **({} if names else {"time": times}),
        },
        caption="Means over samples of consecutive seeds."
        + ("" if names else " Time is of one sample, on the CPU."),
        kinds=[""] * len(rows) + ["null"],
        digits=2,
        even=True,
    )
