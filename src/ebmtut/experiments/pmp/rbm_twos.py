"""Experiment pmp/rbm-twos (Figure 7 and its table): RBMs that learn the digit 2."""

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.pmp import rbm_digits as digits
from ebmtut.experiments.verdicts import Verdicts, compare
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Result

#: As the table of the paper spells the methods.
PRINTED = {"PCD-1": "PCD1", "PCD-100": "PCD100", "LP": "PmapLP"}


def draw_twos(result: Result) -> Figure:
    """Draw data, samples of all methods and independent pixels, a row each."""
    k = result.config["n_sweeps"]
    rows = {"data": "data"} | {m: f"{m}/own@{k}" for m in result.scalars["table"]}
    rows["independent\npixels"] = "null"
    size = (0.7 * TEXT_WIDTH, 0.5 * len(rows))
    figure, axes = plt.subplots(len(rows), 1, figsize=size)
    for ax, (name, key) in zip(axes, rows.items(), strict=True):
        digits.sheet(ax, result.arrays.get(key), 8, 8, vmin=-0.1)
        digits.name_row(ax, name, rotation=0)
    return figure


def check_twos(result: Result) -> Verdicts:
    """PMP has the lowest error of pairs; the paper's numbers are compared, too."""
    k = result.config["n_sweeps"]
    yield from digits.pmp_is_lowest(result)
    yield digits.sees_pairs(result, k)
    if result.scale == "quick":
        return
    excuse = (
        f"{result.scalars['n_data']} twos of {result.scalars['source']} "
        f"and {result.config['n_steps']} updates (the paper has about "
        "6000 and 1000), and it does not say how many samples it evaluates"
    )
    for method, row in result.scalars["table"].items():
        values = row.get(f"own/log_mmd2@{k}", [float("nan")])
        entry = ("pmp/rbm-twos", "log MMD^2", PRINTED.get(method, method), "twos")
        yield compare(*entry, values, excuse=excuse)


_TWOS = digits.RBMConfig(
    digit=2, n_hidden=250, n_judged=500, sweeps=(100,), n_sweeps_of={"PMP": 25}
)


EXPERIMENT = digits.rbm_row(
    id="pmp/rbm-twos",
    title="RBM on the twos, with LP solver",
    presets={
        "quick": replace(digits.QUICK, digit=2, sweeps=(25,)),
        "full": replace(_TWOS, n_seeds=3, lp_steps=60),
        "paper": replace(_TWOS, n_sweeps_of={}, n_seeds=10),
    },
    figure=draw_twos,
    check=check_twos,
)
