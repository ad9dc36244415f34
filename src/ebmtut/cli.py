"""The command line: list and run experiments, sweep notebooks, locate data.

Each command imports the modules that compute only when it needs them, so that
``ebmtut list`` answers at once.
"""

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
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

# argparse exits with 2 on a wrong command line; so does a wrong value.
BAD_INPUT = 2
INTERRUPTED = 130
FAILED_RUNS = 1
DIVERGED = 3
# EX_NOINPUT and EX_UNAVAILABLE in sysexits.h.
NO_DATA = 66
NO_MODULE = 69
# The exit code of `timeout`: the work is not finished, and nothing is wrong.
OUT_OF_TIME = 124


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments
        The words after ``ebmtut``; by default this process's.

    Returns
    -------
    status
        0 after success; 1 if runs of a sweep are not done, 2 for an invalid value, 3 if
        training diverged, 66 for missing data, 69 for a missing module, 124 at a time
        limit, 130 if interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options) or 0
    except KeyboardInterrupt:
        print(
            "interrupted: finished parts are kept; the same command continues",
            file=sys.stderr,
        )
        return INTERRUPTED
    except OutOfTime as error:
        print(error, file=sys.stderr)
        return OUT_OF_TIME
    except BrokenPipeError:
        # The program that reads our output, `head` for example, has closed it. Python
        # would report that again when it flushes at exit, so stdout now goes nowhere.
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
            raise  # an error in this package
        print(f"ebmtut: {error}. {_EXTRAS}", file=sys.stderr)
        return NO_MODULE
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG):
            print(f"ebmtut: {error.filename}: {error.strerror}", file=sys.stderr)
            return BAD_INPUT
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        place = f" ({error.filename})" if error.filename else ""
        print(
            f"ebmtut: cannot write{place}: {error.strerror}; finished parts are kept, "
            "and the same command continues",
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
    "Install optional parts by pip install 'ebmtut[NAME]', in a checkout by "
    "pip install -e '.[NAME]': transport, graphs, sweep, cluster, lsun, fid, book"
)

_SCHEDULER = (
    "address of a Dask scheduler whose workers see the same files, "
    "such as tcp://host:8786"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ebmtut",
        description="Figures and tables of five papers on energy-based models.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser(
        "list", help="list all experiments and their stored results"
    )
    listing.add_argument("--json", action="store_true", help="print a JSON array")
    listing.add_argument(
        "--paper", default="all", help="ed, drl, pmp, got or dnfs (default: all)"
    )
    _add_results(listing)
    listing.set_defaults(command=_list)

    run = commands.add_parser("run", help="run an experiment and draw its figure")
    add = run.add_argument
    add("id", metavar="ID", help="name of the experiment, such as ed/ising-heatmaps")
    scales = f"{' | '.join(SCALES)} (default: quick)"
    add("--scale", default="quick", help=scales)
    add("--device", default="auto", help="auto | cpu | cuda (default: auto)")
    add(
        "--seed",
        default=0,
        type=_integer,
        help="seed of all random numbers (default: 0)",
    )
    add(
        "--time-limit",
        type=_number,
        metavar="MINUTES",
        help="stop after this time and keep what is done; the same command continues",
    )
    add(
        "--batch",
        action="store_true",
        help="train all models at once in one process (ed/densities and ed/ablations)",
    )
    add(
        "--cuda-graph",
        action="store_true",
        help="with --batch: capture a training step and replay it",
    )
    add(
        "--redraw",
        action="store_true",
        help="compute nothing; draw and evaluate the stored result again",
    )
    add("--scheduler", metavar="ADDRESS", help=_SCHEDULER)
    add("--quiet", action="store_true", help="show no progress bar")
    _add_results(run, "; replaces a stored result of the same scale")
    run.set_defaults(command=_run)

    _add_sweeps(commands)

    data = commands.add_parser(
        "data", help="list data sets and the folders they are read from"
    )
    data.set_defaults(command=_data)
    return parser


def _add_sweeps(commands: "argparse._SubParsersAction[Any]") -> None:
    sweep = commands.add_parser(
        "sweep", help="run a notebook over a grid of its parameters"
    )
    add = sweep.add_argument
    add("notebook", type=Path, metavar="NOTEBOOK")
    add(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=A,B,...",
        help="values of one parameter; repeat for a grid of several",
    )
    add("--seeds", type=_integer, metavar="N", help="number of seeds for each setting")
    add(
        "--sample",
        type=_integer,
        metavar="N",
        help="run N random settings instead of the grid; allows NAME=LOW..HIGH[:log]",
    )
    add("--sample-seed", default=0, type=_integer, help="seed of --sample (default: 0)")
    add(
        "--out",
        type=_folder,
        metavar="DIR",
        help="folder of the sweep (default: one in sweeps/, named after the path)",
    )
    add(
        "--jobs",
        type=_integer,
        metavar="N",
        help="parallel runs (default: number of cores)",
    )
    add("--timeout", type=_number, metavar="MINUTES", help="stop a run after this time")
    add("--scheduler", metavar="ADDRESS", help=_SCHEDULER)
    add("--retry", action="store_true", help="repeat runs that failed or timed out")
    add(
        "--keep-old",
        action="store_true",
        help="do not repeat runs made with other code, versions or data",
    )
    add("--quiet", action="store_true", help="show no progress bar")
    sweep.set_defaults(command=_sweep)

    gather = commands.add_parser(
        "gather", help="write a sweep's table, figure and report"
    )
    gather.add_argument("folder", type=_folder, metavar="FOLDER")
    gather.add_argument("-x", metavar="NAME", help="parameter on the horizontal axis")
    gather.add_argument(
        "-y",
        action="append",
        default=[],
        metavar="NAME",
        help="result on the vertical axis; may be repeated",
    )
    gather.set_defaults(command=_gather)


def _read(kind: type[int] | type[float], text: str) -> float | str:
    """Read a number; anything else is refused later, with the option's name."""
    try:
        return kind(text)
    except ValueError:
        return text


_integer, _number = partial(_read, int), partial(_read, float)


def _folder(text: str) -> Path:
    """Read a folder; an empty word would mean the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("must be a folder, got ''")
    return Path(text)


def _add_results(parser: argparse.ArgumentParser, note: str = "") -> None:
    parser.add_argument(
        "--results",
        "--out",
        type=_folder,
        metavar="DIR",
        help=f"folder of results (default: EBMTUT_RESULTS, else results/){note}",
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
    # Check all options before any work.
    experiment = get_experiment(options.id)
    experiment.config(options.scale)

    import matplotlib

    from ebmtut.data import DataUnavailable
    from ebmtut.experiments.runs import redraw, run_experiment

    matplotlib.use("Agg")  # figures go to files, with or without a display

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
    from ebmtut.sweeps.driver import shown_path

    plan = make_plan(
        options.notebook,
        options.parameter,
        n_seeds=options.seeds,
        n_samples=options.sample,
        sample_seed=options.sample_seed,
    )
    # Named by its path, which tells notebooks of one name apart.
    name = shown_path(options.notebook).removesuffix(".ipynb").replace("/", "-")
    folder = options.out or Path("sweeps") / name
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

    print(f"generated, no file needed: {', '.join(DENSITIES)}; Ising samples")
    for name, files in DATASETS.items():
        print(f"\n{name}")
        for file in files:
            print(f"  {file.name:36}{_whereabouts(file)}")
    at_hand = os.environ.get("EBMTUT_DATA") or "not set"
    print(
        "\nA missing file is downloaded when it is first needed. To use your own copy,"
    )
    print("put it under its name into one of these folders:")
    print(f"  EBMTUT_DATA  {at_hand}\n  cache        {cache_folder()}")


def _whereabouts(file: "RemoteFile") -> str:
    from ebmtut.data import cache_folder, sha256_of

    folders = {"EBMTUT_DATA": os.environ.get("EBMTUT_DATA"), "cache": cache_folder()}
    for name, folder in folders.items():
        if folder and (path := Path(folder) / file.name).is_file():
            whole = sha256_of(path) == file.sha256
            return f"in {name}" if whole else f"in {name}, damaged (wrong SHA-256)"
    return "missing" if file.urls else "missing, cannot be downloaded"


if __name__ == "__main__":
    sys.exit(main())
