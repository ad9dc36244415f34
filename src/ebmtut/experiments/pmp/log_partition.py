"""Experiment pmp/log-partition (Figure 1, left and centre)."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import BelowOne, Count, Number, OneOf, Positive, Range, checked
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing
from ebmtut.exact import (
    exact_log_partition,
    torus_log_partition,
    transfer_log_partition,
)
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, Runs
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.message_passing import (
    exact_perturb_and_map,
    log_partition_bound,
    max_product,
    mplp,
    relax,
)
from ebmtut.plotting import COLORS, TEXT_WIDTH, part_rows
from ebmtut.random import logistic, make_generator
from ebmtut.results import Result


@checked
@dataclass(frozen=True)
class Ensemble:
    """A kind of model."""

    kind: Annotated[str, OneOf(("lattice", "dense"))]
    coupling: Number = 0.1
    n_uniform: Count = 1


# The program has each pair twice in its energy, and -0.1 on the lattice: a
# coupling of -0.2, and a pair of two independent weights.
ENSEMBLES: Mapping[str, Ensemble] = {
    "lattice": Ensemble("lattice"),
    "dense": Ensemble("dense"),
    "lattice, as programmed": Ensemble("lattice", coupling=-0.2),
    "dense, as programmed": Ensemble("dense", n_uniform=2),
}


def dense_model(
    n_sites: int, n_uniform: int = 1, *, generator: torch.Generator
) -> tuple[BoltzmannMachine, float]:
    """Draw a fully connected Ising model, as a Boltzmann machine."""
    w = torch.zeros(n_sites, n_sites, dtype=torch.float64)
    for _ in range(n_uniform):
        w += 4 * torch.rand(w.shape, generator=generator, dtype=w.dtype) - 2
    b = 0.2 * torch.rand(n_sites, generator=generator, dtype=w.dtype) - 0.1
    upper = w.triu(1)
    # Ising counts each pair twice.
    model = BoltzmannMachine.from_ising(Ising((upper + upper.T) / 2, b))
    with torch.no_grad():
        return model, float(exact_log_partition(model, n_sites))


def lattice_model(side: int, coupling: float) -> tuple[BoltzmannMachine, float]:
    """Return a periodic lattice without field, as a Boltzmann machine."""
    ising = LatticeIsing(side, coupling / 2).to_dense()
    frustrated = coupling < 0 and side % 2 == 1
    exact = transfer_log_partition if frustrated else torus_log_partition
    with torch.no_grad():
        # The Boltzmann machine gives the state of zeros the energy 0.
        shift = float(ising(torch.zeros(1, side**2, dtype=torch.float64)))
    return BoltzmannMachine.from_ising(ising), exact(side, side, coupling) + shift


@checked
@dataclass(frozen=True)
class LogPartitionConfig:
    """Which models, and how hard every method tries."""

    ensembles: tuple[Annotated[str, OneOf(ENSEMBLES)], ...] = tuple(ENSEMBLES)
    sizes: tuple[Annotated[int, Range(3, 15)], ...] = (5, 10, 15)
    n_models: Count = 100
    n_perturbations: Count = 100
    n_on_lattice: Count = 1000
    n_sweeps: Count = 200
    damping: BelowOne = 0.5
    tolerance: Positive = 1e-6
    max_sweeps: Count = 50_000


def log_partition_job(
    ensemble: Ensemble,
    size: int,
    config: LogPartitionConfig,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Compare all methods on the models of one ensemble and size."""
    generator = make_generator(seed)
    errors: dict[str, list[Tensor]] = defaultdict(list)
    seconds: dict[str, float] = {}
    n_sweeps = []
    is_lattice = ensemble.kind == "lattice"
    _warm_up(ensemble, config, device)
    for _ in range(1 if is_lattice else config.n_models):
        if is_lattice:
            model, log_z = lattice_model(size, ensemble.coupling)
        else:
            model, log_z = dense_model(size, ensemble.n_uniform, generator=generator)
        n = config.n_on_lattice if is_lattice else config.n_perturbations
        of: Any = {"generator": generator, "dtype": torch.float64}
        noise, model = logistic((n, model.n_sites), **of).to(device), model.to(device)
        found, bound, sweeps = _maximise(model, noise, ensemble, config, seconds)
        n_sweeps.append(sweeps)
        with torch.no_grad():
            scores = {
                name: log_partition_bound(model, x, noise).scores
                for name, x in found.items()
            }
        scores["MPLP bound"] = bound - noise.sum(dim=1) / 2
        for name, score in scores.items():
            error = score - log_z
            errors[name].append(error if is_lattice else error.mean()[None])
    scalars = {f"seconds/{name}": value for name, value in seconds.items()}
    scalars["sweeps/MPLP"] = float(np.mean(n_sweeps))
    arrays = {name: torch.cat(parts).cpu().numpy() for name, parts in errors.items()}
    return Outcome(scalars, arrays)


def _warm_up(ensemble: Ensemble, config: LogPartitionConfig, device: str) -> None:
    """Load what is compiled on its first call, which is no part of a method's time."""
    generator = make_generator(0)
    model, _ = dense_model(3, 1, generator=generator)
    noise = logistic((1, 3), generator=generator, dtype=torch.float64)
    _maximise(model.to(device), noise.to(device), ensemble, config, {})


def _maximise(
    model: BoltzmannMachine,
    noise: Tensor,
    ensemble: Ensemble,
    config: LogPartitionConfig,
    seconds: dict[str, float],
) -> tuple[dict[str, Tensor], Tensor, float]:
    """States that each method takes for the best, MPLP's bound, its sweeps."""
    unaries = model.bias.detach() + noise
    found: dict[str, Any] = {}

    def solve(name: str, solver: Callable[..., Any], *args: Any, **of: Any) -> None:
        since = time.process_time()
        found[name] = solver(model, *args, **of)
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - since

    for name, init in (("PMP", "zero"), ("PMP symmetric", "symmetric")):
        of: dict[str, Any] = {"damping": config.damping, "init": init}
        solve(name, max_product, unaries, config.n_sweeps, **of)
    of = {"tolerance": config.tolerance, "max_sweeps": config.max_sweeps}
    solve("MPLP", mplp, unaries, **of)
    if ensemble.kind == "dense":
        solve("exact", exact_perturb_and_map, model.n_sites, noise)
    elif ensemble.coupling > 0:
        # The relaxation of an attractive model is integral, hence exact.
        solve("exact", relax, unaries)
    dual = found["MPLP"]
    states = {name: getattr(solved, "x", solved) for name, solved in found.items()}
    return states, dual.bound, float(dual.n_sweeps.double().mean())


def cells(config: LogPartitionConfig) -> Cells:
    """Name a cell for every ensemble and size."""
    alone = replace(config, ensembles=(), sizes=())
    return {
        (name, str(size)): {"ensemble": ENSEMBLES[name], "size": size, "config": alone}
        for name in config.ensembles
        for size in config.sizes
    }


def summarise(config: LogPartitionConfig, runs: Runs) -> Outcome:
    """Tell the errors of each method apart: a cell's arrays are all methods'."""
    arrays: dict[str, np.ndarray] = {}
    table: dict[str, Any] = {}
    costs: dict[str, Any] = {}
    for name in config.ensembles:
        of_size = {str(size): runs[name, str(size)][0] for size in config.sizes}
        costs[name] = {size: run.scalars for size, run in of_size.items()}
        table[name] = {}
        for method in next(iter(of_size.values())).arrays:
            errors = np.stack([run.arrays[method] for run in of_size.values()])
            arrays[f"{name}/{method}"] = errors.astype(np.float32)
            table[name][method] = {
                size: _summary(row) for size, row in zip(of_size, errors, strict=True)
            }
    return Outcome({"table": table, "costs": costs}, arrays)


def _summary(errors: np.ndarray) -> dict[str, float]:
    sd = float(errors.std(ddof=1)) if len(errors) > 1 else float("nan")
    return {
        "mean": float(errors.mean()),
        "abs": float(np.abs(errors).mean()),
        "sd": sd,
        "stderr": sd / len(errors) ** 0.5,
    }


# Where methods agree, the wide lines can be seen below the narrow ones.
_STYLES: dict[str, dict[str, Any]] = {
    "MPLP": {"color": COLORS["MPLP"], "lw": 4.0},
    "PMP": {"color": COLORS["PMP"], "lw": 2.6},
    "PMP symmetric": {"color": COLORS["PMP symmetric"], "lw": 1.6, "ls": "--"},
    "exact": {"color": COLORS["exact"], "lw": 1.2, "ls": ":"},
}


def draw_log_partition(result: Result) -> Figure:
    """Draw the error over the size, with the spread of models or perturbations."""
    table = result.scalars["table"]
    n_rows = -(-len(table) // 2)
    size = (TEXT_WIDTH, 2.7 * n_rows + 0.4)
    figure, axes = plt.subplots(n_rows, 2, figsize=size, squeeze=False)
    for ax in axes.flat[len(table) :]:
        ax.set_axis_off()
    for ax, (ensemble, methods) in zip(axes.flat, table.items(), strict=False):
        lattice = ENSEMBLES[ensemble].kind == "lattice"
        ax.axhline(0, color="0.8", lw=0.8)
        for method, style in _STYLES.items():
            if method in methods:
                found = methods[method].values()
                mean = np.array([cell["mean"] for cell in found])
                widths = [2 * c["stderr"] if lattice else c["sd"] for c in found]
                band = np.array(widths)
                x = [int(size) for size in methods[method]]
                ax.plot(x, mean, label=method, **style)
                low, high = mean - band, mean + band
                ax.fill_between(x, low, high, color=style["color"], alpha=0.12, lw=0)
        ax.set(title=ensemble, xlabel="side of the lattice" if lattice else "sites")
        ax.set_xticks(result.config["sizes"])
    axes[0, 0].set_ylabel("estimate − log Z (nats)")
    # One legend for all panels; every method is in the dense one.
    handles, labels = axes.flat[min(1, len(table) - 1)].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    part_rows(figure)
    return figure


def check_log_partition(result: Result) -> Verdicts:
    """On dense models PMP errs by less than MPLP, at every size."""
    for ensemble, methods in result.scalars["table"].items():
        if ENSEMBLES[ensemble].kind != "dense":
            continue
        for size, ours in methods["PMP"].items():
            ratio = ours["abs"] / methods["MPLP"][size]["abs"]
            name = f"{ensemble}, {size} sites: error of PMP over that of MPLP"
            stderr = _error_of_ratio(result, ensemble, size)
            yield claim(name, ratio, "at most", 1.0, stderr=stderr)


def _error_of_ratio(result: Result, ensemble: str, size: str) -> float | None:
    """Standard error over the models of one mean absolute error over another."""
    at = [str(s) for s in result.config["sizes"]].index(size)
    ours, theirs = (
        np.abs(result.arrays[f"{ensemble}/{method}"][at]) for method in ("PMP", "MPLP")
    )
    if len(ours) < 2:
        return None
    rest = ours - ours.mean() / theirs.mean() * theirs
    return float(rest.std(ddof=1) / theirs.mean() / len(rest) ** 0.5)


def no_method_differs(result: Result) -> Result:
    """Return MPLP in PMP's place."""
    table = result.scalars["table"]
    arrays = {f"{name}/PMP": result.arrays[f"{name}/MPLP"] for name in table}
    table = {name: row | {"PMP": row["MPLP"]} for name, row in table.items()}
    scalars = result.scalars | {"table": table}
    return replace(result, scalars=scalars, arrays=result.arrays | arrays)


EXPERIMENT = Experiment(
    id="pmp/log-partition",
    title="Error of log-partition functions",
    presets={
        "quick": LogPartitionConfig(
            ensembles=("lattice", "dense"),
            n_models=30,
            n_perturbations=20,
            n_on_lattice=50,
        ),
        "full": LogPartitionConfig(),
        "paper": LogPartitionConfig(),
    },
    cells=cells,
    job=log_partition_job,
    gather=summarise,
    baseline=no_method_differs,
    devices=("cpu", "cuda"),
    figure=draw_log_partition,
    check=check_log_partition,
)
