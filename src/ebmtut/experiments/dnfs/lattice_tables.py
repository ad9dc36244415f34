"""Tables and figures of lattices and their studies, stored networks, live samples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import flows
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs import lattices
from ebmtut.experiments.dnfs.lattices import SHOWN, column_name
from ebmtut.experiments.dnfs.recipes import ANNEALING, CRITICAL, LEARNED
from ebmtut.experiments.pivot import spread, spread_of_ess, table_of
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, OKABE_ITO
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table, load_result

if TYPE_CHECKING:
    from ebmtut.widgets import TrainedFlow

#: Baselines with independent samples, and with dependent ones.
_INDEPENDENT = [name for name, how in ANNEALING.items() if not how.resample_below]
_DEPENDENT = [name for name, how in ANNEALING.items() if how.resample_below]

#: Keys of columns that have another heading.
_KEYS = {"discrete-time ESS": "ESS chain", "CPU s": "train cpu s"}

#: The colours of the baselines, in all figures.
_METHOD_COLORS = {
    "AIS": COLORS["Gibbs"],
    "AIS ×4": COLORS["DMALA"],
    "AIS ×16": COLORS["GWG"],
    "SMC": OKABE_ITO["purple"],
}

#: Scores of a baseline.
_SCORES = ("ESS", "log Z error", "energy", "weighted energy", "sample cpu ms")


def with_baselines(row: Result, study: Result) -> Result:
    """Take baselines from a study with more runs, on the same processor."""
    table = dict(row.scalars["table"])
    for name, found in study.scalars["table"].items():
        table[name] = {
            column: cell | {key: found[column][key] for key in _SCORES}
            for column, cell in table[name].items()
        }
    return replace(row, scalars=row.scalars | {"table": table})


def _runs(rows: Mapping[str, Any]) -> str:
    """Count the runs of a result's methods."""
    flow, annealing = (len(rows[method]["ESS"]) for method in ("ours", "AIS"))
    return f"{flow} runs of the flow and {annealing} of annealing"


def quality_table(result: Result, column: str) -> Table:
    """Set ESS beside the error of log Z and the energies."""
    exact = result.scalars["exact"][column]
    rows = _rows_of(result, column)
    # Samples of SMC depend on each other, so that their ESS does not compare.
    ess = [None if m in _DEPENDENT else spread_of_ess(rows[m]["ESS"]) for m in rows]
    table: dict[str, list[Cell]] = {
        "method": [*(SHOWN.get(m, m) for m in rows), "exact"],
        "ESS": [*ess, 1.0],
    }
    energy = round(exact["energy"], 2)
    for head, key, value in (
        ("error of log Z", "log Z error", 0.0),
        ("energy", "energy", energy),
        ("weighted energy", "weighted energy", energy),
    ):
        table[head] = [*(spread(cell[key]) for cell in rows.values()), value]
    kinds = ["" if method in LEARNED else "null" for method in rows]
    words = "Rows in italics are baselines or exact." if "null" in kinds else ""
    return Table(
        table,
        caption=f"{_title(result, column)}: log Z is {exact['log Z']:.3f}. Standard "
        f"errors over runs, where there are several. {words}".rstrip(),
        kinds=[*kinds, "exact"],
        digits=4,
    )


def energies_table(result: Result, column: str, methods: Sequence[str]) -> Table:
    """Set ESS and unweighted energy beside each other."""
    rows, exact = _rows_of(result, column), result.scalars["exact"][column]["energy"]
    return Table(
        {
            "method": [*(SHOWN.get(m, m) for m in methods), "exact"],
            "ESS, path weights": [*(spread_of_ess(rows[m]["ESS"]) for m in methods), 1],
            "mean energy": [*(spread(rows[m]["energy"]) for m in methods), exact],
        },
        caption=f"{_title(result, column)}; mean energy without weights. Standard "
        f"errors over {_runs(rows)}.",
        kinds=[*("" if m in LEARNED else "null" for m in methods), "exact"],
        digits=4,
    )


def simulations_table(result: Result, column: str, *, thinning: bool) -> Table:
    """Set the trained flows' kinds of weights beside each other."""
    cell = _rows_of(result, column)["ours"]
    exact = result.scalars["exact"][column]["energy"]
    n = result.config["n_time_steps"]
    kinds = {
        (f"{n} steps", "path"): "",
        (f"{n} steps", "discrete-time"): " chain",
        ("exact", "path"): " path",
    }
    if thinning:
        kinds["exact", "thinning"] = " exact"
    table: dict[str, list[Cell]] = {
        "simulation": [*(simulation for simulation, _ in kinds), "exact values"],
        "weights": [*(weights for _, weights in kinds), "\u2013"],
    }
    for head, key, value in (
        ("ESS", "ESS", 1.0),
        ("error of log Z", "log Z error", 0.0),
        ("weighted energy", "weighted energy", round(exact, 2)),
    ):
        printed = spread_of_ess if key == "ESS" else spread
        table[head] = [*(printed(cell[key + kind]) for kind in kinds.values()), value]
    return Table(
        table,
        caption=f"{_title(result, column)}. Standard errors over {len(cell['ESS'])} "
        "trained flows.",
        kinds=[*("" for _ in kinds), "exact"],
    )


def costs_table(result: Result, column: str) -> Table:
    """Cost of an effective sample of the flow and of annealing, and the energy."""
    rows = _rows_of(result, column)
    ours, n_steps = rows["ours"], result.config["n_time_steps"]
    # A candidate is one evaluation of the network, and so is a jump that is taken.
    simulated = fmean(ours["candidates"]) + fmean(ours["jumps"])
    found = {
        "flow, exact simulation": (ours, " path", simulated),
        "flow with sweeps": (ours, " swept", 2 * n_steps),
    }
    for name in _INDEPENDENT:
        n_sweeps = ANNEALING[name].n_sweeps * n_steps
        found[SHOWN.get(name, name)] = rows[name], "", n_sweeps
    lines: list[list[Cell]] = []
    for name, (cell, kind, n) in found.items():
        fraction = fmean(cell[f"ESS{kind}"])
        ms = float(f"{fmean(cell[f'sample cpu ms{kind}']) / fraction:.2g}")
        energy = spread(cell[f"weighted energy{kind}"])
        lines.append([name, round(n / fraction), ms, energy])
    exact = result.scalars["exact"][column]["energy"]
    return table_of(
        ("method", "evaluations", "CPU ms", "weighted energy"),
        [*lines, ["exact", None, None, exact]],
        caption=f"{_title(result, column)}: cost of one effective sample. Standard "
        f"errors over {_runs(rows)}.",
        kinds=["", "", *("null" for _ in _INDEPENDENT), "exact"],
        digits=4,
    )


def seconds_table(result: Result, column: str) -> Table:
    """Compare a trained flow with annealing by effective samples per CPU second."""
    rows = _rows_of(result, column)
    ours, n = rows["ours"], result.config["n_samples"]
    found = {
        "flow, 64 steps": (ours["ESS"], ours["sample cpu ms"]),
        "flow, exactly": (ours["ESS path"], ours["sample cpu ms path"]),
        **{m: (rows[m]["ESS"], rows[m]["sample cpu ms"]) for m in _INDEPENDENT},
    }
    lattice = lattices.lattices_of(result)[column]
    for name in _DEPENDENT:
        means = rows[name]["weighted energy"]
        if len(means) > 1:
            exact = lattices.energy_distribution(*lattice)
            share = effective_fraction(means, exact, n)
            found[name] = [share], rows[name]["sample cpu ms"]
    columns: dict[str, list[Cell]] = {"method": [SHOWN.get(m, m) for m in found]}
    columns["ESS"] = [fmean(ess) for ess, _ in found.values()]
    columns["ms per sample"] = [fmean(ms) for _, ms in found.values()]
    per_second = (1000 * fmean(ess) / fmean(ms) for ess, ms in found.values())
    columns["effective per s"] = [*per_second]
    return Table(
        columns,
        caption=f"{_title(result, column)}: effective samples per CPU second, without "
        "any training.",
        kinds=["null" if name in ANNEALING else "" for name in found],
    )


def _log_z_costs(
    result: Result, column: str
) -> tuple[dict[str, tuple[int, float, float]], float]:
    """Samples, CPU seconds and error of log Z by method; seconds of the training."""
    rows = _rows_of(result, column)
    trained, n = rows["ours"], result.config["n_samples"]
    found = {"flow with sweeps": (trained, " swept", result.config["n_chain_samples"])}
    for name in (*_INDEPENDENT, "SMC"):
        found[SHOWN.get(name, name)] = rows[name], "", n
    costs = {
        label: (
            size,
            size * fmean(cell[f"sample cpu ms{kind}"]) / 1000,
            math.sqrt(fmean(e * e for e in cell[f"log Z error{kind}"])),
        )
        for label, (cell, kind, size) in found.items()
    }
    return costs, fmean(trained["train cpu s"])


def log_z_table(result: Result, column: str) -> Table:
    """Error of log Z, and the CPU seconds in which each method has that of the flow."""
    rows = _rows_of(result, column)
    costs, training = _log_z_costs(result, column)
    (_, seconds, least), *baselines = costs.values()
    # The variance of an estimate falls in proportion to the samples, and to the time.
    equal = [time * (error / least) ** 2 for _, time, error in baselines]
    equal = [seconds + training, *equal]
    return Table(
        {
            "method": list(costs),
            "samples": [size for size, *_ in costs.values()],
            "CPU s": [time for _, time, _ in costs.values()],
            "error of log Z": [error for *_, error in costs.values()],
            "CPU s, equal error": [float(f"{v:.2g}") for v in equal],
        },
        caption=f"{_title(result, column)}: root mean square error of log Z over "
        f"{_runs(rows)}. Last column: seconds to the error of the flow; "
        f"{training / equal[0]:.0%} of those of the flow are training.",
        kinds=["", *("null" for _ in baselines)],
        digits=2,
    )


def draw_log_z(result: Result, column: str) -> Figure:
    """Draw the error of log Z over CPU seconds, of the runs and with more samples."""
    costs, training = _log_z_costs(result, column)
    (_, (_, seconds, least)), *baselines = costs.items()
    figure, ax = plt.subplots(figsize=(4.8, 3.2))
    at = np.geomspace(0.01, 2000, 50)
    # The error falls with the root of the samples, and of the time.
    longer = [error * np.sqrt(time / at) for _, (_, time, error) in baselines]
    ax.fill_between(at, np.min(longer, 0), np.max(longer, 0), color="0.85", lw=0)
    ax.annotate("baselines with\nmore samples", (0.3, 0.0022), color="0.35")
    for label, (_, time, error) in baselines:
        ax.plot(time, error, "s", color=_METHOD_COLORS[label], ms=6)
        shift = (-5, -15) if label == "SMC" else (7, 3)
        ax.annotate(label, (time, error), shift, textcoords="offset points")
    color = COLORS["DNFS"]
    sampled = np.geomspace(1e-4, 1, 50) * seconds
    ax.plot(training + sampled, least * np.sqrt(seconds / sampled), color=color)
    ax.plot(training + seconds, least, "o", color=color, ms=6)
    ax.axhline(least, color=color, ls=":", lw=1)
    words = "trained flow\nwith sweeps"
    ax.annotate(words, (training / 1.2, 0.05), color=color, ha="right")
    words = f"{seconds:.1f} s of sampling"
    ax.annotate(words, (training / 1.3, 1.1 * least), color=color, ha="right")
    ax.set(xscale="log", yscale="log", xlim=(0.01, 2000), ylim=(8e-4, 0.2))
    ax.set(xlabel="CPU seconds, training included", ylabel="error of log Z")
    return figure


def stored_bound(result: Result, column: str) -> float:
    """Return the bound of the rates that a stored run of dnfs/ising found."""
    return float(result.scalars["table"]["ours"][column]["bound"][0])


def drawn_each_way(
    flow: flows.Flow, steps: Sequence[int], n: int, *, bound: float, seed: int
) -> tuple[dict[str, flows.Rollout], flows.ExactRollout]:
    """Simulate a flow in several numbers of steps, and exactly."""
    stepped = {
        f"{k} steps": flows.simulate(
            flow, n, k, chain_weights=True, generator=make_generator(seed)
        )
        for k in steps
    }
    thinned = flows.simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=make_generator(seed)
    )
    assert thinned.n_exceeded == 0
    return stepped, thinned


def weights_table(
    path: AnnealingPath,
    stepped: Mapping[str, flows.Rollout],
    thinned: flows.ExactRollout,
) -> Table:
    """Evaluate one flow by each kind of weights."""
    target = path.target
    assert isinstance(target, LatticeIsing)
    exact = torus_log_partition(target.side, target.side, 2 * target.sigma)
    runs: list[tuple[str, str, Tensor, Tensor | None]] = []
    for name, run in stepped.items():
        runs.append((name, "path", run.x, run.log_weights))
        runs.append((name, "discrete-time", run.x, run.chain_log_weights))
    runs.append(("exact", "path", thinned.x, thinned.path_log_weights))
    runs.append(("exact", "thinning", thinned.x, thinned.log_weights))
    heads = ("simulation", "weights", "ESS", "log Z error", "energy")
    rows: list[tuple[Cell, ...]] = []
    for name, kind, x, log_weights in runs:
        assert log_weights is not None
        z = flows.log_partition(log_weights, path.log_partition_start)
        energy = target(x)
        noise = float(energy.std()) / len(energy) ** 0.5
        share = flows.effective_sample_size(log_weights)
        off = (z.estimate - exact, z.standard_error)
        rows.append((name, kind, share, off, (float(energy.mean()), noise)))
    return table_of(heads, rows, caption=f"Errors are of {len(thinned.x)} samples.")


def draw_scaling(result: Result) -> Figure:
    """Draw path-weight ESS and error of the energy over the side of the lattice.

    Means of several runs have an error bar; the mark of a single run is open.
    """
    curves = [
        ("flow", "DNFS", "o-", _by_side(result, "ours")),
        ("AIS ×16", "GWG", "^--", _by_side(result, "AIS x16")),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(4.8, 3.2))
    for _, color, style, found in curves:
        how: dict[str, Any] = {"color": COLORS[color], "ms": 7}
        for ax, score in zip(axes, (0, 1), strict=True):
            runs = [scores[score] for scores in found.values()]
            ax.plot(list(found), [fmean(r) for r in runs], style, mfc="white", **how)
            for side, values in zip(found, runs, strict=True):
                mean, error = mean_and_stderr(values)
                if error is not None:
                    ax.errorbar(side, mean, error, fmt=style[0], capsize=3, **how)
    sides = sorted({side for *_, found in curves for side in found})
    for ax, title in zip(axes, ("ESS", "energy too high by [%]"), strict=True):
        ax.set(title=title, xlabel="sites per side", xscale="log")
        ax.set_xticks(sides, [str(side) for side in sides])
        ax.minorticks_off()
    axes[0].set(yscale="log")
    axes[1].set(ylim=(0, None))
    for label, _, _, found in (curve for curve in curves if curve[-1]):
        side = sorted(found)[-2:][0]
        above = label == "flow"
        ess, energy = (fmean(scores) for scores in found[side])
        places = ((ess, above), (energy, not above))
        for ax, (value, right) in zip(axes, places, strict=True):
            shift = 4 if right else -4, 4 if above else -12
            how = {"ha": "left" if right else "right", "color": "0.2"}
            how["textcoords"] = "offset points"
            ax.annotate(label, (side, value), shift, **how)
    return figure


def runs_table(
    entries: Sequence[tuple[str, int, dict[str, list[Any]]]], *heads: str
) -> Table:
    """Show a line for every run of every entry: (method, steps, scores)."""
    lines: list[list[Cell]] = []
    for method, steps, scores in entries:
        n = len(scores["ESS"])
        columns = [scores.get(_KEYS.get(h, h), [None] * n) for h in heads]
        lines += [[method, steps, *values] for values in zip(*columns, strict=True)]
    return table_of(("method", "steps", *heads), lines)


def competing_table(row: Result, study: Result, lattice: str, n_steps: int) -> Table:
    """Show every run of the flow and of the competing methods."""
    entries = [("flow", n_steps, row.scalars["table"]["ours"][lattice])]
    for method, _, n in study.config["trainings"]:
        name = method if n else f"{method}, untrained"
        entry = (name, n, study.scalars["table"][name].get(lattice))
        if entry[2] and entry not in entries:
            entries.append(entry)
    return runs_table(entries, "ESS", "log Z error", "energy", "distance", "CPU s")


def enumeration_table(result: Result) -> Table:
    """Set what flows estimate beside the sums over all states."""
    lines: list[list[Cell]] = []
    for lattice, exact in result.scalars["exact"].items():
        for method, entries in result.scalars["table"].items():
            for way in ("in steps", "exactly"):
                runs = entries[lattice][way]
                values = [
                    [run["log Z"] for run in runs],
                    [run["energy"] for run in runs],
                    [max(abs(m - 0.5) for m in run["marginals"]) for run in runs],
                    [run["products"][0] for run in runs],
                    [run["products"][1] for run in runs],
                ]
                scores = [mean_and_stderr(v) for v in values]
                lines.append([f"{lattice}, {method}, {way}", *scores])
        sums = (exact["log Z"], exact["energy"], 0, *exact["products"][:2])
        lines.append([f"{lattice}, all states", *(round(v, 4) for v in sums)])
    heads = ("flow", "log Z", "energy", "marginal off by", "distance 1", "distance 2")
    words = "4000 samples per run; standard errors over two runs. "
    words += "Distances: correlations of two spins."
    return table_of(heads, lines, caption=words, digits=6)


def failure_table(result: Result) -> Table:
    """Count failed trainings: diverged, low ESS, or log Z off by half a nat."""
    lines: list[list[Cell]] = []
    for training, entry in result.scalars["table"].items():
        least = 0.5 * median(entry["with"]["ESS"])
        for words, found in entry.items():
            # A diverged training has no error of log Z, and an ESS of 0.
            off = [abs(v) for v in found["log Z error"] if v is not None]
            failed = sum(
                ess < least or error is None or abs(error) > 0.5
                for ess, error in zip(found["ESS"], found["log Z error"], strict=True)
            )
            n = len(found["ESS"])
            ends = (min(found["ESS"]), max(off, default=None))
            lines.append([training, words, f"{failed} of {n}", *ends])
    heads = ("training", "warm-up", "failed", "smallest ESS", "log Z off by")
    words = "4 × 4 sites, eight seeds; the error of log Z is the largest."
    return table_of(heads, lines, caption=words)


def stored_flows() -> "list[TrainedFlow]":
    """Return the first seeds of the package's recipe in dnfs/ising at full scale."""
    from ebmtut.widgets import TrainedFlow  # needs anywidget

    result = load_result("dnfs/ising", "full")
    found = []
    for name, sigma in (("critical", CRITICAL), ("σ = 0.1", 0.1)):
        state: dict[str, Tensor] = {}
        for key, value in result.arrays.items():
            array, *cell = key.split("/")
            if array.startswith("net.") and cell == ["ours", column_name(10, sigma)]:
                state[array.removeprefix("net.")] = torch.from_numpy(value)
        width, n_hidden = state["kernel"].shape[1], state["squares.weight"].shape[0]
        network = flows.OddLatticeNetwork(10, width=width, n_hidden=n_hidden)
        network.load_state_dict(state)
        found.append(TrainedFlow(name, sigma, network))
    return found


def effective_fraction(
    means: list[float], distribution: lattices.EnergyDistribution, n: int
) -> float:
    """Effective fraction of dependent samples, by the spread of mean energies."""
    mean = float(distribution.levels @ distribution.chances)
    variance = float((distribution.levels - mean) ** 2 @ distribution.chances)
    error = float(np.mean((np.array(means, dtype=float) - mean) ** 2))
    return variance / n / error


def _by_side(result: Result, method: str) -> dict[int, tuple[list[float], list[float]]]:
    """Return ESS and percent of excess energy of all runs, by side of the lattice."""
    exact, found = result.scalars["exact"], lattices.lattices_of(result)
    return {
        found[column].side: (
            cell["ESS"],
            [100 * (1 - e / exact[column]["energy"]) for e in cell["energy"]],
        )
        for column, cell in result.scalars["table"].get(method, {}).items()
    }


def _title(result: Result, column: str) -> str:
    return lattices.lattices_of(result)[column].title


def _rows_of(result: Result, column: str) -> dict[str, Any]:
    table = result.scalars["table"]
    return {method: row[column] for method, row in table.items() if column in row}
