"""Experiment pmp/zeros-samples (Figure 4): pictures, also of linear programs."""

from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.checks import checked
from ebmtut.experiments.experiment import Cells, Experiment, Names, Runs, grid, nested
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pmp import zeros
from ebmtut.experiments.pmp.chains import METHODS
from ebmtut.experiments.pmp.shared import parts
from ebmtut.experiments.verdicts import Verdicts, claim, compare, lead, mean_and_stderr
from ebmtut.plotting import TEXT_WIDTH, image_grid
from ebmtut.results import Result

_REDUCED = "reduced model"


@checked
@dataclass(frozen=True)
class ZerosSamplesConfig(zeros.ZerosConfig):
    """The zeros model, and another that linear programs learn, too.

    The other has smaller pictures, or as large ones and fewer updates.
    """

    reduced: zeros.ZerosConfig = field(default_factory=zeros.ZerosConfig)


def cells(config: ZerosSamplesConfig) -> Cells:
    """Name a cell for every method, and for those that learn the other model."""
    small = grid(config.reduced, method="methods")
    reduced = {("reduced", *names): job for names, job in small.items()}
    return {**grid(config, method="methods"), **reduced}


def n_seeds(config: ZerosSamplesConfig, names: Names) -> int:
    """Repeat each cell as its own model says."""
    return (config.reduced if names[0] == "reduced" else config).n_seeds


def gather(config: ZerosSamplesConfig, runs: Runs) -> Outcome:
    """Make two tables, the second of the other model."""
    whole, small = parts(runs)
    arrays = {
        "/".join((*names[:-1], "samples", names[-1])): found[0].arrays["samples"]
        for names, found in runs.items()
    }
    reduced = {"table": nested(small).get("reduced", {})}
    return Outcome({"table": nested(whole), "reduced": reduced}, arrays)


def references(config: ZerosSamplesConfig, seed: int) -> Outcome:
    """Return the references of both models, and some data of both."""
    whole = zeros.zeros_references(config, seed)
    small = zeros.zeros_references(config.reduced, seed)
    return Outcome(
        whole.scalars | {"references of reduced": small.scalars},
        whole.arrays | {f"reduced/{name}": x for name, x in small.arrays.items()},
    )


def _other(result: Result) -> str:
    """Say what sets the model that linear programs learn apart."""
    whole, other = result.config, result.config["reduced"]
    smaller = other["shrink"] > whole["shrink"]
    return _REDUCED if smaller else f"{other['n_steps']} updates"


def draw_samples(result: Result) -> Figure:
    """Draw eight pictures of the data and of every method, a row each."""
    arrays, table = result.arrays, result.scalars["table"]
    rows = {"data": arrays["data"]} | {m: arrays[f"samples/{m}"] for m in table}
    if "Gibbs/PMP" in arrays:
        rows["Gibbs, with\nPMP's weights"] = arrays["Gibbs/PMP"]
    if "independent pixels" in arrays:
        rows["independent\npixels"] = arrays["independent pixels"]
    if "reduced" in result.scalars:
        small, what = result.scalars["reduced"]["table"], _other(result)
        if what == _REDUCED:
            rows["reduced data"] = arrays["reduced/data"]
        rows |= {f"{m},\n{what}": arrays[f"reduced/samples/{m}"] for m in small}
    size = (0.7 * TEXT_WIDTH, 0.5 * len(rows))
    figure, axes = plt.subplots(len(rows), 1, figsize=size, squeeze=False)
    for ax, (name, pictures) in zip(axes[:, 0], rows.items(), strict=True):
        side = round(pictures.shape[1] ** 0.5)
        image_grid(ax, pictures[:8].reshape(-1, side, side), n_columns=8, vmin=-0.1)
        label = name.replace(" symmetric", "\nsymmetric")
        place = {"va": "center", "ha": "right", "transform": ax.transAxes}
        ax.text(-0.02, 0.5, label, **place)
    return figure


def check_samples(result: Result) -> Verdicts:
    """PMP is ahead of independent pixels, and of linear programs."""
    null, k = result.scalars["null"], result.config["n_sweeps"]
    for method in (m for m in result.scalars["table"] if METHODS[m].kind == "PMP"):
        own = zeros.scores(result, method)
        behind, stderr = lead(own, {j: [null] * len(own[j]) for j in own}, k)
        name = f"log MMD^2 of {method} minus that of independent pixels"
        yield claim(name, behind, "at most", 0.0, stderr=stderr)
    if "reduced" in result.scalars:
        config, table = result.config["reduced"], result.scalars["reduced"]["table"]
        small = replace(result, config=config, scalars={"table": table})
        ours, programs = (zeros.scores(small, method) for method in ("PMP", "LP"))
        ahead, stderr = lead(programs, ours, config["n_sweeps"])
        what = _other(result)
        name = f"log MMD^2 of LP minus that of PMP, {what}"
        yield claim(name, ahead, "at least", 0.0, stderr=stderr)
        if "pairs" in table["LP"]:
            both = zip(table["LP"]["pairs"], table["PMP"]["pairs"], strict=True)
            ahead, stderr = mean_and_stderr([lp - pmp for lp, pmp in both])
            name = f"error of pair covariances of LP minus that of PMP, {what}"
            yield claim(name, ahead, "at least", 0.0, stderr=stderr)
        if what != _REDUCED:
            entry = ("pmp/zeros-samples", "log MMD^2", "PmapLP", "zeros")
            excuse = (
                f"{result.scalars['n_data']} zeros of {result.scalars['source']} (the "
                "paper has about 5900), and it rounds halves in another way"
            )
            yield compare(*entry, programs[config["n_sweeps"]], excuse=excuse)


def nothing_learned(result: Result) -> Result:
    """Return the score of independent pixels for every method, of both models."""
    whole = zeros.independent_pixels(result)
    if "reduced" not in result.scalars:
        return whole
    # Only differences are evaluated there: any one score says "no method differs".
    ends = {name: result.scalars.get(name) for name in ("null", "null pairs")}
    scalars = result.scalars["reduced"] | ends
    small = zeros.independent_pixels(replace(result, scalars=scalars))
    reduced = {"table": small.scalars["table"]}
    return replace(whole, scalars=whole.scalars | {"reduced": reduced})


def _preset(
    whole: zeros.ZerosConfig, n_steps: int, learning_rate: float, **of: Any
) -> ZerosSamplesConfig:
    """Add the reduced model, which has its own steps and rate, to a preset."""
    of |= {"methods": ("PMP", "PMP symmetric", "LP"), "n_chains_of": {}}
    of |= {"n_steps": n_steps, "learning_rate": learning_rate, "sweeps": (25, 50)}
    return ZerosSamplesConfig(**vars(whole), reduced=replace(whole, **of))


EXPERIMENT = Experiment(
    id="pmp/zeros-samples",
    title="Samples of the zeros model",
    presets={
        "quick": _preset(zeros.QUICK, 30, 2e-2, shrink=4, n_chains=8, n_judged=40),
        "full": _preset(zeros.FULL, 150, 1e-2, shrink=3, n_chains=20, n_judged=100),
        # The second model is as large as the first: the paper's linear programs have
        # all 900 pixels. The seeds, and the 200 steps at 0.01 of the programs, are
        # those of its scripts; that PMP learns for as long is our choice.
        "paper": _preset(zeros.ZerosConfig(n_seeds=5), 200, 1e-2),
    },
    cells=cells,
    job=zeros.zeros_job,
    n_seeds=n_seeds,
    gather=gather,
    extras=references,
    baseline=nothing_learned,
    devices=("cpu", "cuda"),
    figure=draw_samples,
    check=check_samples,
)
