"""The command line: rows are listed and run, notebooks swept, data found.

What computes is imported by the command that needs it, so that ``ebmtut list``
answers at once.
"""

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebmtut import __version__
from ebmtut.checks import DivergenceError, InputError
from ebmtut.deadlines import OutOfTime
from ebmtut.experiments.registry import SCALES, get_experiment
from ebmtut.ledger.listing import rows, text_table

if TYPE_CHECKING:
    from ebmtut.data import RemoteFile

__all__ = ["main"]

# argparse ends with 2 on a wrong command line; a wrong value ends the same way.
BAD_INPUT = 2
INTERRUPTED = 130
FAILED_RUNS = 1
DIVERGED = 3
# The EX_NOINPUT and EX_UNAVAILABLE of sysexits.h.
NO_DATA = 66
NO_MODULE = 69
# As `timeout` ends a command: the work is not done, and nothing is wrong.
OUT_OF_TIME = 124


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``ebmtut``; by default those of this process.

    Returns
    -------
    status
        0; 1 if runs of a sweep are not done; 2 after one line on stderr if a value
        cannot be worked with; 3 after one line if what was learned diverged; 66 after
        one line if a row's data set is not at hand, 69 if a module is not; 124 if a
        time limit ended it before the work; 130 if interrupted from the keyboard.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options) or 0
    except KeyboardInterrupt:
        print(
            "interrupted: nothing half-written is left, the same command goes on",
            file=sys.stderr,
        )
        return INTERRUPTED
    except OutOfTime as error:
        print(error, file=sys.stderr)
        return OUT_OF_TIME
    except BrokenPipeError:
        # Whoever reads, `head` perhaps, has seen enough. Python would complain
        # once more when it flushes at exit, so stdout now leads nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InputError as error:
        name, space, rest = str(error).partition(" ")
        print(f"ebmtut: {_OPTIONS.get(name, name)}{space}{rest}", file=sys.stderr)
        return BAD_INPUT
    except DivergenceError as error:
        print(f"ebmtut: {error}", file=sys.stderr)
        return DIVERGED
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "ebmtut":
            raise  # a fault of ours
        print(f"ebmtut: {error}. {_EXTRAS}", file=sys.stderr)
        return NO_MODULE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        place = f" ({error.filename})" if error.filename else ""
        print(
            f"ebmtut: nothing can be written{place}: {error.strerror}; what is "
            "finished is kept, the same command goes on",
            file=sys.stderr,
        )
        return BAD_INPUT
    return 0


#: What a message begins with, as the command line has it.
_OPTIONS = {
    "cuda_graph": "--cuda-graph",
    "in_one_batch": "--batch",
    "n_jobs": "--jobs",
    "n_samples": "--sample",
    "n_seeds": "--seeds",
    "sample_seed": "--sample-seed",
    "time_limit": "--time-limit",
    "timeout": "--timeout",
}

_EXTRAS = (
    "Optional parts come with pip install 'ebmtut[NAME]', in a checkout "
    "pip install -e '.[NAME]': transport, graphs, sweep, cluster, lsun, fid, book"
)


_SCHEDULER = "of Dask workers that see the same files, such as tcp://host:8786"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ebmtut",
        description="Figures and tables of five papers on energy-based models.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="every figure and table, and its state")
    listing.add_argument("--json", action="store_true", help="an array, for programs")
    listing.add_argument("--paper", default="all", help="ed, drl, pmp, got or dnfs")
    _add_results(listing)
    listing.set_defaults(command=_list)

    run = commands.add_parser("run", help="regenerate a row: its result and picture")
    run.add_argument("id", metavar="ID", help="such as ed/ising-heatmaps")
    scales = f"{' | '.join(SCALES)} (default: quick)"
    run.add_argument("--scale", default="quick", help=scales)
    run.add_argument(
        "--device", default="auto", help="auto | cpu | cuda (default: auto)"
    )
    run.add_argument(
        "--seed", default=0, type=_integer, help="of all that is drawn (default: 0)"
    )
    run.add_argument(
        "--time-limit",
        type=_number,
        metavar="MINUTES",
        help="stop then, with what is done kept: the same command goes on",
    )
    run.add_argument(
        "--batch",
        action="store_true",
        help="all jobs at once in one process, for rows that can (the densities of ed)",
    )
    run.add_argument(
        "--cuda-graph",
        action="store_true",
        help="with --batch: record a step of training, replay it (never run on a GPU)",
    )
    run.add_argument(
        "--redraw",
        action="store_true",
        help="compute nothing: draw and judge the stored result again",
    )
    run.add_argument("--scheduler", metavar="ADDRESS", help=_SCHEDULER)
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    _add_results(run, "; a stored result of the same row and scale is replaced")
    run.set_defaults(command=_run)

    _add_sweeps(commands)

    data = commands.add_parser("data", help="data sets, and where they lie or belong")
    data.set_defaults(command=_data)
    return parser


def _add_sweeps(commands: "argparse._SubParsersAction[Any]") -> None:
    sweep = commands.add_parser("sweep", help="a notebook over a grid of parameters")
    sweep.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    sweep.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=A,B,...",
        help="values of one of its parameters; repeat for a grid",
    )
    sweep.add_argument(
        "--seeds", type=_integer, metavar="N", help="repeats of each setting"
    )
    sweep.add_argument(
        "--sample",
        type=_integer,
        metavar="N",
        help="random settings instead of the grid; also from NAME=LOW..HIGH[:log]",
    )
    sweep.add_argument(
        "--sample-seed", default=0, type=_integer, help="of these (default: 0)"
    )
    sweep.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: in sweeps/, named after the notebook's path",
    )
    sweep.add_argument(
        "--jobs", type=_integer, metavar="N", help="side by side (default: the cores)"
    )
    sweep.add_argument(
        "--timeout", type=_number, metavar="MINUTES", help="after which a run is ended"
    )
    sweep.add_argument("--scheduler", metavar="ADDRESS", help=_SCHEDULER)
    sweep.add_argument(
        "--retry", action="store_true", help="run again what failed or took too long"
    )
    sweep.add_argument(
        "--keep-old",
        action="store_true",
        help="keep runs of other code, versions or data instead of running them anew",
    )
    sweep.add_argument("--quiet", action="store_true", help="no progress bar")
    sweep.set_defaults(command=_sweep)

    gather = commands.add_parser("gather", help="a sweep's table, picture and report")
    gather.add_argument("folder", type=Path, metavar="FOLDER")
    gather.add_argument("-x", metavar="NAME", help="parameter on the picture's axis")
    gather.add_argument(
        "-y", action="append", default=[], metavar="NAME", help="number that it shows"
    )
    gather.set_defaults(command=_gather)


def _integer(text: str) -> int | str:
    """Read an integer; what is none is refused later, by name and in one line."""
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str) -> float | str:
    """Read a number; what is none is refused later, by name and in one line."""
    try:
        return float(text)
    except ValueError:
        return text


def _folder(text: str) -> Path:
    """Read a folder; an empty word would be the working one."""
    if not text:
        raise argparse.ArgumentTypeError("must be a folder, got ''")
    return Path(text)


def _add_results(parser: argparse.ArgumentParser, note: str = "") -> None:
    parser.add_argument(
        "--results",
        "--out",
        type=_folder,
        metavar="DIR",
        help=f"folder of the results (default: EBMTUT_RESULTS, else results/){note}",
    )


def _list(options: argparse.Namespace) -> None:
    ledger = rows(options.results, paper=options.paper)
    if options.json:
        entries = [row.to_json() for row in ledger]
        print(json.dumps(entries, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(text_table(ledger))
    for row in ledger:
        for at in row.scales.values():
            if at.state == "damaged":
                print(f"ebmtut: {at.fault}", file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    # Everything that can be wrong is looked at before any work.
    experiment = get_experiment(options.id)
    experiment.config(options.scale)

    import matplotlib

    from ebmtut.data import DataUnavailable
    from ebmtut.experiments.runs import redraw, run_experiment

    matplotlib.use("Agg")  # pictures go to files, with or without a display

    scheduler: AbstractContextManager[Any] = nullcontext()
    if options.scheduler is not None:
        from ebmtut.sweeps.cluster import on_cluster

        scheduler = on_cluster(options.scheduler)

    if options.redraw:
        folder, verdicts = redraw(experiment, options.scale, options.results)
    else:
        try:
            with scheduler:
                folder, verdicts = run_experiment(
                    experiment,
                    options.scale,
                    seed=options.seed,
                    device=options.device,
                    root=options.results,
                    progress=not options.quiet,
                    time_limit=options.time_limit,
                    in_one_batch=options.batch,
                    cuda_graph=options.cuda_graph,
                )
        except DataUnavailable as error:
            print(f"ebmtut: {error}", file=sys.stderr)
            return NO_DATA
    for verdict in verdicts:
        print(f"{verdict.verdict:15} {verdict.name}: {verdict.reason}")
    print(f"{folder / 'result.json'}\n{folder / 'figure.png'}")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from ebmtut.sweeps import gather, make_plan, run_sweep

    plan = make_plan(
        options.notebook,
        options.parameter,
        n_seeds=options.seeds,
        n_samples=options.sample,
        sample_seed=options.sample_seed,
    )
    folder = options.out or Path("sweeps") / _name_of(options.notebook)
    counts = run_sweep(
        plan,
        folder,
        n_jobs=options.jobs,
        timeout=options.timeout,
        retry=options.retry,
        keep_old=options.keep_old,
        scheduler=options.scheduler,
        progress=not options.quiet,
    )
    _show_gathered(gather(folder))
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    return 0 if counts.keys() <= {"done"} else FAILED_RUNS


def _name_of(notebook: Path) -> str:
    """Return a folder's name that tells notebooks of one name apart: their paths."""
    from ebmtut.sweeps.driver import shown_path

    return shown_path(notebook).removesuffix(".ipynb").replace("/", "-")


def _gather(options: argparse.Namespace) -> None:
    from ebmtut.sweeps import gather

    _show_gathered(gather(options.folder, x=options.x, y=options.y))


def _show_gathered(files: Sequence[Path]) -> None:
    for file in files:
        print(file)
    if not any(file.suffix == ".parquet" for file in files):
        print("no table.parquet: pip install 'ebmtut[sweep]'", file=sys.stderr)


def _data(options: argparse.Namespace) -> None:
    from ebmtut.data import DATASETS, DENSITIES, cache_folder

    print(f"computed, no file needed: {', '.join(DENSITIES)}; Ising samples")
    for name, files in DATASETS.items():
        print(f"\n{name}")
        for file in files:
            print(f"  {file.name:36}{_whereabouts(file)}")
    at_hand = os.environ.get("EBMTUT_DATA") or "not set"
    print("\nA file that is missing is downloaded when it is first needed. To use one")
    print("that you have, put it under its name into one of these folders:")
    print(f"  EBMTUT_DATA  {at_hand}\n  cache        {cache_folder()}")


def _whereabouts(file: "RemoteFile") -> str:
    from ebmtut.data import cache_folder, sha256_of

    folders = {"EBMTUT_DATA": os.environ.get("EBMTUT_DATA"), "cache": cache_folder()}
    for name, folder in folders.items():
        if folder and (path := Path(folder) / file.name).is_file():
            whole = sha256_of(path) == file.sha256
            return f"in {name}" if whole else f"in {name}, damaged (wrong SHA-256)"
    return "missing" if file.urls else "missing, nowhere to download from"


if __name__ == "__main__":
    sys.exit(main())
