"""A row whose jobs say where they ran; a module, so that workers can import it."""

import os
from dataclasses import dataclass

import matplotlib.pyplot as plt

from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.jobs import Outcome


@dataclass(frozen=True)
class Config:
    n_cells: int


def job(number, seed):
    return Outcome({"square": number**2 + seed, "process": os.getpid()})


def cells(config):
    return {f"cell {n}": {"number": n} for n in range(config.n_cells)}


def figure(result):
    return plt.figure()


ROW = Experiment(
    id="ed/window",
    title="Where jobs run",
    presets={"quick": Config(6)},
    cells=cells,
    job=job,
    figure=figure,
    check=lambda result: [],
)
