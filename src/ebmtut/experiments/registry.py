"""Which experiment regenerates which row, and at which scales.

An experiment is a constant of its module, an `Experiment`; the table
`LOCATIONS` says where it lies, and the module is imported when it is asked for.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ebmtut.experiments.facts import get_fact, lookup
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
]

Scale = Literal["quick", "full", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "full", "paper")


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

    def exists(self) -> bool:
        """Whether the module defines the constant; it is read, not imported."""
        parts = self.module.split(".")
        path = Path(__file__).parent.joinpath(*parts).with_suffix(".py")
        defines = re.compile(rf"^{self.attribute}\b", re.MULTILINE)
        return path.is_file() and bool(defines.search(path.read_text("utf-8")))


_ISING = ("ed.ising", "ed/ising.ipynb")
_DENSITIES = ("ed.densities", "ed/densities.ipynb")
_ABLATIONS = ("ed.ablations", "ed/ablations.ipynb")
_PMP = "pmp"
_SMALL = f"{_PMP}/index.ipynb"
_MODELS = f"{_PMP}/ising.ipynb"
_RBM = (f"{_PMP}.rbm", f"{_PMP}/rbm.ipynb")
_LINE = ("got.one_dimensional", "got/one_dimensional.ipynb")
_WNMF = ("got.wasserstein_nmf", "got/wasserstein_nmf.ipynb")


def _at(place: tuple[str, str], attribute: str) -> Location:
    module, notebook = place
    return Location(module, attribute, notebook)


LOCATIONS: Mapping[str, Location] = {
    "ed/ising-heatmaps": _at(_ISING, "HEATMAPS"),
    "ed/ising-rmse": _at(_ISING, "RMSE"),
    "ed/densities": _at(_DENSITIES, "LANDSCAPES"),
    "ed/densities-table": _at(_DENSITIES, "TABLE"),
    "ed/epsilon": _at(_ABLATIONS, "EPSILON"),
    "ed/window": _at(_ABLATIONS, "WINDOW"),
    "ed/w-and-m": _at(_ABLATIONS, "W_AND_M"),
    "pmp/wrong-model": _at((f"{_PMP}.toy", _SMALL), "WRONG_MODEL"),
    "pmp/log-partition": _at((f"{_PMP}.log_partition", _SMALL), "LOG_PARTITION"),
    "pmp/zeros-mmd": _at((f"{_PMP}.zeros", _MODELS), "ZEROS_MMD"),
    "pmp/zeros-samples": _at((f"{_PMP}.zeros_samples", _MODELS), "ZEROS_SAMPLES"),
    "pmp/structured": _at((f"{_PMP}.structured", _MODELS), "STRUCTURED"),
    "pmp/persistent": _at((f"{_PMP}.persistent", _MODELS), "PERSISTENT"),
    "pmp/rbm": _at(_RBM, "RBM_DIGITS"),
    "pmp/rbm-twos": _at(_RBM, "RBM_TWOS"),
    "pmp/coordinate-descent": _at(_RBM, "COORDINATE_DESCENT"),
    "pmp/deconvolution": _at(
        (f"{_PMP}.deconvolution", f"{_PMP}/deconvolution.ipynb"), "DECONVOLUTION"
    ),
    "got/gibbs-bands": _at(_LINE, "BANDS"),
    "got/coupling-1d": _at(_LINE, "COUPLING"),
    "got/coulomb": _at(_LINE, "COULOMB"),
    "got/temperature-bound": _at(
        ("got.temperature_bound", _LINE[1]), "TEMPERATURE_BOUND"
    ),
    "got/wnmf-digits": _at(_WNMF, "DIGITS"),
    "got/wnmf-faces": _at(_WNMF, "FACES"),
    "got/timing": _at(("got.timing", _WNMF[1]), "TIMING"),
}


def available() -> Mapping[str, Location]:
    """Return the experiments that can be run, by id."""
    return {id: place for id, place in LOCATIONS.items() if place.exists()}


def get_experiment(id: str) -> Experiment:
    """Return an experiment, importing its module.

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
    place = known[id]
    module = importlib.import_module(f"ebmtut.experiments.{place.module}")
    experiment = getattr(module, place.attribute)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"{place.module}:{place.attribute} is no Experiment")
    return experiment
