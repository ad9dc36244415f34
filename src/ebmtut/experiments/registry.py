"""Which rows have an experiment, and which page shows it.

A row is found because it is there: the experiment of ``ed/ising-rmse`` is the
constant ``EXPERIMENT`` of ``ed/ising_rmse.py`` beside this module, and its page is
the notebook below ``book/ed`` that holds the label ``(ed-ising-rmse)=``. Files are
looked at, not imported: what computes is imported when it is asked for.
"""

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ebmtut.checks import InputError
from ebmtut.experiments.facts import facts, get_fact

if TYPE_CHECKING:
    from ebmtut.experiments.experiment import Experiment

Scale = Literal["quick", "full", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "full", "paper")

#: Rows whose full run has the paper's own setting, so that there is no other. A test
#: compares the presets; the list is known without importing what computes.
PAPERS_IN_FULL = {
    *("got/gibbs-bands", "got/coupling-1d", "got/coulomb"),
    *("pmp/wrong-model", "pmp/log-partition", "pmp/deconvolution"),
}

BOOK = Path(__file__).resolve().parents[3] / "book"


def module_of(id: str) -> str:
    """Return the name of a row's module, below ``ebmtut.experiments``."""
    return id.replace("/", ".").replace("-", "_")


def available() -> list[str]:
    """Return the ids of the rows that have an experiment, in the papers' order."""
    here = Path(__file__).parent

    def is_there(id: str) -> bool:
        return here.joinpath(*module_of(id).split(".")).with_suffix(".py").is_file()

    return [id for id in facts() if is_there(id)]


def label_of(id: str) -> str:
    """Return the label of the section that shows a row: ``ed-ising-rmse``."""
    return id.replace("/", "-")


@cache
def page_of(id: str, book: Path = BOOK) -> str | None:
    """Return the page that shows a row, such as "ed/ising", or None."""
    paper, label = id.split("/")[0], f"({label_of(id)})="
    for path in sorted((book / paper).glob("*.ipynb")):
        if label in path.read_text("utf-8"):
            return f"{paper}/{path.stem}"
    return None


def get_experiment(id: str) -> "Experiment[Any]":
    """Return an experiment, importing its module."""
    get_fact(id)
    known = available()
    if id not in known:
        listing = ", ".join(known) or "none"
        raise InputError(f"{id!r} has no experiment yet; those that run: {listing}")
    module = importlib.import_module(f"ebmtut.experiments.{module_of(id)}")
    experiment: Experiment[Any] = module.EXPERIMENT
    return experiment
