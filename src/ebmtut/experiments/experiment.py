"""A row of the facts as one declaration, and the runner that all rows share."""

import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from ebmtut.checks import InputError, NonNegative, check_choice, checked
from ebmtut.deadlines import OutOfTime
from ebmtut.experiments.facts import lookup
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.registry import SCALES, Scale
from ebmtut.experiments.verdicts import Verdict, Verdicts, against_baseline
from ebmtut.random import check_seed, make_generator
from ebmtut.results import Result, ResultNotFound, collect_provenance, load_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEVICES = ("auto", "cpu", "cuda")

C = TypeVar("C")

#: A cell of a table: method and column, say. The empty one is the whole row.
Names = tuple[str, ...]
#: The arguments of each cell's job.
Cells = Mapping[Any, Mapping[str, Any]]
#: The outcomes of each cell, one a seed.
Runs = Mapping[Names, list[Outcome]]


def no_claims(result: Result) -> Verdicts:
    """Claim nothing: the `check` of a study beside the rows."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[C]):
    """A figure or table as a computation: what it is, and nothing of how it runs."""

    #: The row of the facts; a short title.
    id: str
    title: str
    #: The configuration, a frozen dataclass, of each scale that is defined.
    presets: Mapping[str, C]
    #: ``job(**cell, seed=...)``, which also gets ``device`` ("cpu" or "cuda") and,
    #: where outcomes are kept, ``checkpoint`` (see `run_jobs`) if it has parameters of
    #: these names. Importable: workers call it by name.
    job: Callable[..., Outcome]
    #: A pure function.
    figure: Callable[..., "Figure"]
    #: Yields a `Verdict` for each claim, by `compare` and `claim`.
    check: Callable[[Result], Verdicts]
    #: Names the cells of the table and gives the arguments of their jobs. Without it
    #: the row is one job, of ``config`` and ``seed``, whose outcome is the result: for
    #: a row that is no table.
    cells: Callable[[C], Cells] = lambda config: {(): {"config": config}}
    #: ``n_seeds(config, names)``: how often a cell is repeated, with seeds ``seed``,
    #: ``seed + 1`` and so on.
    n_seeds: Callable[[C, Names], int] = lambda config, names: (
        getattr(config, "n_seeds", 1) if names else 1
    )
    #: Under which names the result keeps a job's arrays: ``{"coupling": "{cell}"}``
    #: keeps ``coupling`` as ``method/column``, ``"*"`` stands for all others, whose
    #: name is ``{name}``. What is not named is not kept.
    arrays: Mapping[str, str] = field(default_factory=dict)
    #: Whether arrays are stacked over the seeds; else the first seed's are kept (the
    #: first that has them).
    stack: bool = False
    #: In place of the nested table of lists and of `arrays`, where the result has
    #: another form.
    gather: Callable[[C, Runs], Outcome] | None = None
    #: ``extras(config, seed)``: exact values and baselines. Gets ``device``, too, if it
    #: has such a parameter.
    extras: Callable[..., Outcome] = lambda config, seed: Outcome()
    #: What the same run would have given if nothing had been learned (the model
    #: untrained, the bits independent, J = 0, one method no different from another),
    #: with as much of the result as `check` reads. A claim of the book must fail
    #: there, or be marked a sanity check.
    baseline: Callable[[Result], Result] | None = None
    #: Where its jobs can run: "cpu", "cuda" or both.
    devices: tuple[str, ...] = ("cpu",)
    #: Makes all jobs at once in one process, with the numbers of `job` up to rounding
    #: (see `run_jobs`). With a parameter ``cuda_graph`` it can record the steps of a
    #: training, and have a GPU replay them.
    batch: Callable[..., Iterable[tuple[str, Outcome]]] | None = None
    #: Whether jobs may run beside each other. Not those whose time is the result, or
    #: that spread over the cores by themselves.
    parallel: bool = True

    def config(self, scale: str, **knobs: Any) -> C:
        """Return the preset of a scale, with some fields set otherwise."""
        return _changed(lookup(f"scale of {self.id}", scale, self.presets), knobs)

    def device(self, name: str) -> str:
        """Turn a device's name into one that is there and that the row can use."""
        check_choice("device", name, DEVICES)
        if name == "auto" and "cuda" not in self.devices:
            return "cpu"
        if name not in ("auto", *self.devices):
            can = ", ".join(self.devices)
            raise InputError(f"device must be auto, {can} for {self.id}, got {name!r}")
        return resolve_device(name)

    def check_cuda_graph(self, device: str, in_one_batch: bool) -> None:
        """Require a batch whose steps can be recorded, and a GPU."""
        has = self.batch and "cuda_graph" in inspect.signature(self.batch).parameters
        if not has:
            raise InputError(
                f"cuda_graph must be False for {self.id}, which has no steps to record"
            )
        if not in_one_batch:
            raise InputError("cuda_graph records the steps of one batch: ask for both")
        if device == "cpu":
            raise InputError("cuda_graph needs device cuda, got 'cpu'")

    @checked
    def run(
        self,
        scale: str | C = "quick",
        *,
        seed: int = 0,
        device: str = "auto",
        progress: bool = False,
        checkpoints: str | Path | None = None,
        time_limit: NonNegative | None = None,
        in_one_batch: bool = False,
        cuda_graph: bool = False,
        **knobs: Any,
    ) -> Result:
        """Compute the row."""
        started = time.time()
        if isinstance(scale, str):
            config = self.config(scale, **knobs)
        else:
            config = _changed(scale, knobs)
            scale = next((n for n, c in self.presets.items() if c == config), "quick")
        check_seed(seed)
        device = self.device(device)
        folder = None if checkpoints is None else Path(checkpoints)
        if time_limit is not None and folder is None:
            raise InputError("time_limit needs checkpoints, a folder to go on from")
        if in_one_batch and self.batch is None:
            raise InputError(f"{self.id} has no batch: its jobs run one by one")
        if cuda_graph:
            self.check_cuda_graph(device, in_one_batch)
        jobs, places = self._jobs(config, seed, device)
        try:
            outcomes = run_jobs(
                self.job,
                jobs,
                folder=folder,
                n_workers=None if self.parallel and device == "cpu" else 1,
                batch=self.batch if in_one_batch else None,
                batch_options={"cuda_graph": True} if cuda_graph else None,
                progress=progress,
                label=self.id,
                stop_at=None if time_limit is None else started + 60 * time_limit,
            )
        except OutOfTime as error:
            raise OutOfTime(
                f"{self.id}: the time limit of {time_limit:g} minutes is over, "
                f"{error}; the same command goes on from there"
            ) from None
        runs = {c: [outcomes[name] for name in names] for c, names in places.items()}
        extras = self.extras(config, seed, **told(self.extras, device))
        table = self._gathered(config, runs)
        commits = {"commits": commits_of(outcomes)}
        return Result(
            self.id,
            scale,
            asdict(config),  # type: ignore[call-overload]
            table.scalars | extras.scalars | commits,
            extras.arrays | table.arrays,
            collect_provenance(
                seed=seed,
                device=device,
                started=started,
                jobs_s=sum(outcome.seconds for outcome in outcomes.values()),
            ),
        )

    def _jobs(
        self, config: C, seed: int, device: str
    ) -> tuple[dict[str, dict[str, Any]], dict[Names, list[str]]]:
        """Return the jobs by name, seed by seed, and the names of each cell's."""
        given = told(self.job, device)
        cells = {
            (cell,) if isinstance(cell, str) else cell: arguments
            for cell, arguments in self.cells(config).items()
        }
        counts = {cell: self.n_seeds(config, cell) for cell in cells}
        jobs: dict[str, dict[str, Any]] = {}
        places: dict[Names, list[str]] = {cell: [] for cell in cells}
        for k in range(max(counts.values(), default=0)):
            for cell in (c for c in cells if k < counts[c]):
                name = _file_name(cell, seed + k)
                if name in jobs:
                    raise ValueError(f"two cells of {self.id} are named {name}")
                jobs[name] = {**cells[cell], "seed": seed + k, **given}
                places[cell].append(name)
        return jobs, places

    def _gathered(self, config: C, runs: Runs) -> Outcome:
        """Return the table of all cells, and the arrays that are kept."""
        if self.gather is not None:
            return self.gather(config, runs)
        if list(runs) == [()]:
            return runs[()][0]
        arrays: dict[str, np.ndarray] = {}
        for cell, found in runs.items():
            for name in dict.fromkeys(name for run in found for name in run.arrays):
                pattern = self.arrays.get(name, self.arrays.get("*"))
                if pattern is None:
                    continue
                kept = [run.arrays[name] for run in found if name in run.arrays]
                place = pattern.format(cell="/".join(cell), name=name)
                arrays[place] = np.stack(kept) if self.stack else kept[0]
        return Outcome({"table": nested(runs)}, arrays)

    def stored(
        self, root: Path | None = None, *, largest: Scale = "paper"
    ) -> Result | None:
        """Return the stored result of the largest scale above "quick"."""
        allowed = SCALES[1 : SCALES.index(largest) + 1]
        larger = [s for s in reversed(allowed) if s in self.presets]
        for scale in larger:
            try:
                return load_result(self.id, scale, root)
            except ResultNotFound:
                continue
        if larger:
            print(f"not stored yet: ebmtut run {self.id} --scale {larger[-1]}")
        return None

    def show(self, result: Result | None, **options: Any) -> None:
        """Draw a result and show the picture; nothing for no result."""
        if result is not None:
            import matplotlib.pyplot as plt

            self.figure(result, **options)
            plt.show()

    def verdicts(self, result: Result) -> list[Verdict]:
        """Check a result, each number beside that of the baseline."""
        found = list(self.check(result))
        if self.baseline is None:
            return found
        return against_baseline(self.id, found, self.check(self.baseline(result)))


def grid(config: Any, **choices: str) -> Cells:
    """Name a cell for every combination of what fields of a configuration list.

    ``grid(config, method="methods")`` gives each job one of ``config.methods`` as
    ``method``, and as ``config`` the rest, with empty lists and one seed.
    """
    empty: dict[str, Any] = dict.fromkeys(choices.values(), ())
    alone = replace(config, **empty, n_seeds=1)
    return {
        names: {**dict(zip(choices, names, strict=True)), "config": alone}
        for names in product(*(getattr(config, field) for field in choices.values()))
    }


def nested(runs: Runs) -> dict[str, Any]:
    """Return a table of tables: ``[name][name]...[metric]`` lists the seeds."""
    table: dict[str, Any] = {}
    for cell, found in runs.items():
        row = table
        for name in cell[:-1]:
            row = row.setdefault(name, {})
        row[cell[-1]] = scalars_of(found)
    return table


def by_seed(config: Any, runs: Runs) -> Outcome:
    """Return the scalars of the only cell, whatever their form, each a list of seeds'.

    A `gather` for a row whose job returns a whole table; arrays are the first seed's.
    """
    (found,) = runs.values()
    return Outcome(_by_seed([run.scalars for run in found]), found[0].arrays)


def _by_seed(values: list[Any]) -> Any:
    if not isinstance(values[0], Mapping):
        return values
    return {name: _by_seed([value[name] for value in values]) for name in values[0]}


def with_cells(result: Result, change: Callable[..., Mapping[str, Any]]) -> Result:
    """Return a result whose cells have other numbers: ``change(cell, *names)``."""

    def changed(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
        if names and not any(isinstance(x, Mapping) for x in entry.values()):
            return {**entry, **change(entry, *names)}
        return {name: changed(inner, *names, name) for name, inner in entry.items()}

    table = changed(result.scalars["table"])
    return replace(result, scalars=result.scalars | {"table": table})


# Seeds of consecutive runs are consecutive, so streams of another name begin far away.
_OFFSETS = {
    "training": 0,
    "evaluation": 1_000_000,
    "training graphs": 1_000_000,
    "long chains": 2_000_000,
    "exact samples": 2_000_000,
    "sampling error": 3_000_000,
    "finer steps": 3_000_000,
    # These begin at the seed of a later run, as in the stored runs.
    "samples": 1,
    "training of the RBM": 1,
    "training on samples": 2,
    # Of the comparison, which has seeds from 0 to 20, and 100 for tuning.
    "data of the comparison": 500,
    "references of the comparison": 1000,
}


def stream_seed(name: str, seed: int) -> int:
    """Return the seed of a run's named stream: evaluation shares none with training."""
    return seed + _OFFSETS[name]


def stream(name: str, seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the generator of a run's named stream."""
    return make_generator(stream_seed(name, seed), device)


def told(function: Callable[..., Any], device: str) -> dict[str, str]:
    """Return the device as an argument, if the function asks for one."""
    asks = "device" in inspect.signature(function).parameters
    return {"device": device} if asks else {}


def resolve_device(name: str) -> str:
    """Turn "auto" into a device that is there; on a GPU float32 is then float32."""
    check_choice("device", name, DEVICES)
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise InputError("device must be cpu or auto here, got 'cuda': no CUDA device")
    if name == "auto":
        name = "cuda" if has_cuda else "cpu"
    if name == "cuda":
        # Convolutions else round to TF32, whose 10 bits an acceptance test would see.
        torch.backends.cudnn.allow_tf32 = False
    return name


def _changed(config: Any, knobs: Mapping[str, Any], where: str = "") -> Any:
    """Set fields of a configuration; a mapping sets fields of a field."""
    fields = vars(config)
    for name, value in knobs.items():
        check_choice("parameter", where + name, [where + field for field in fields])
        if isinstance(value, Mapping) and is_dataclass(fields[name]):
            knobs = {**knobs, name: _changed(fields[name], value, f"{where}{name}.")}
    return replace(config, **knobs)


def _file_name(cell: Names, seed: int) -> str:
    return re.sub(r"[^\w.+=-]+", "-", "-".join([*cell, str(seed)]))
