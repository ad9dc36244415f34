"""Which rows have an experiment, and which page shows it.

A row is found because it is there: the experiment of ``ed/ising-rmse`` is the
constant ``EXPERIMENT`` of ``ed/ising_rmse.py`` beside this module, and its page is
the notebook below ``book/ed`` that holds the label ``(ed-ising-rmse)=``. Files are
looked at, not imported: what computes is imported when it is asked for.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ebmtut.experiments.facts import facts, get_fact, lookup
from ebmtut.experiments.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ebmtut.results import Result

__all__ = [
    "LOCATIONS",
    "SCALES",
    "Experiment",
    "Location",
    "Scale",
    "available",
    "get_experiment",
    "label_of",
    "module_of",
    "page_of",
]

Scale = Literal["quick", "full", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "full", "paper")

BOOK = Path(__file__).resolve().parents[3] / "book"


@dataclass(frozen=True)
class Experiment:
    """One figure or table as a computation.

    Attributes
    ----------
    id : str
        The row that it regenerates.
    title : str
        A short title, for progress bars and figures.
    presets : mapping of str to dataclass
        The configuration of each scale that is defined ("quick", "full", "paper").
    run : callable
        ``run(config, *, seed: int, device: str, progress: bool) -> Result``, with
        device "cpu" or "cuda". If `resumes` is set it takes ``checkpoints: Path``
        too, a folder that outlives a killed run.
    figure : callable
        ``figure(result) -> Figure``, a pure function.
    check : callable
        ``check(result) -> list[Verdict]``, by `compare` and `claim`.
    resumes : bool
        Whether `run` keeps checkpoints and continues from them.
    """

    id: str
    title: str
    presets: Mapping[str, Any]
    run: Callable[..., "Result"]
    figure: Callable[["Result"], "Figure"]
    check: Callable[["Result"], list[Verdict]]
    resumes: bool = False

    def config(self, scale: str) -> Any:
        """Return the preset of a scale.

        Raises
        ------
        InputError
            If the row has no such scale; the message lists those that it has.
        """
        return lookup(f"scale of {self.id}", scale, self.presets)

    def verdicts(self, result: "Result") -> list[Verdict]:
        """Check a result; rows of this kind have no null yet."""
        return self.check(result)


@dataclass(frozen=True)
class Location:
    """Where an experiment lies.

    Attributes
    ----------
    module : str
        Module, below ``ebmtut.experiments``.
    attribute : str
        The constant in it.
    notebook : str
        The notebook that computes it live at quick scale, below ``book/``.
    """

    module: str
    attribute: str
    notebook: str


# Rows that still have a runner of their own.
LOCATIONS: Mapping[str, Location] = {
}


def module_of(id: str) -> str:
    """Return the name of a row's module, below ``ebmtut.experiments``."""
    if id in LOCATIONS:
        return LOCATIONS[id].module
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
    """Return the page that shows a row, such as "ed/ising", or None.

    Parameters
    ----------
    id : str
        A row of the facts.
    book : Path
        The folder of the pages.
    """
    paper, label = id.split("/")[0], f"({label_of(id)})="
    for path in sorted((book / paper).glob("*.ipynb")):
        if label in path.read_text("utf-8"):
            return f"{paper}/{path.stem}"
    return None


def get_experiment(id: str) -> Any:
    """Return an `Experiment`, importing its module.

    Parameters
    ----------
    id : str
        A row of the facts, such as "ed/ising-rmse".

    Raises
    ------
    InputError
        If there is no such row, or no experiment for it yet; the message lists
        what exists.
    """
    get_fact(id)
    known = available()
    if id not in known:
        from ebmtut.checks import InputError

        listing = ", ".join(known) or "none"
        raise InputError(f"{id!r} has no experiment yet; those that run: {listing}")
    module = importlib.import_module(f"ebmtut.experiments.{module_of(id)}")
    return getattr(module, LOCATIONS[id].attribute if id in LOCATIONS else "EXPERIMENT")
