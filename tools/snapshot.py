"""Note what the experiments say of their stored results, and compare two such notes.

    python -m tools.snapshot write before.json            # a minute
    python -m tools.snapshot write before.json --quick ed/window got/timing
    python -m tools.snapshot compare before.json after.json

A snapshot holds, for every stored result of an experiment or a study at any scale, the
verdicts of today's check, and the text of every table that a public function makes of
one result and at most one of its keys; with `--quick` also the numbers of quick runs at
seed 0, of the named experiments or of all. Whoever restructures code takes one before
and one after. A table of another name and the same text is said to be renamed.
"""

import argparse
import contextlib
import hashlib
import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ebmtut.experiments
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import to_json
from ebmtut.results import Result, benchmarks_root, default_root, load_result
from ebmtut.results.serialize import to_json as plain
from ebmtut.results.serialize import to_npz
from ebmtut.results.tables import Table

Snapshot = dict[str, dict[str, Any]]


def take(quick: Sequence[str] | None = None) -> Snapshot:
    """Return a snapshot; `quick` names experiments to run, an empty one means all."""
    package = ebmtut.experiments
    found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    modules = [importlib.import_module(entry.name) for entry in found]
    known = _experiments(*modules)
    stored = {
        f"{path.parent.relative_to(root)}": load_result(id, path.parent.name, root)
        for root in (default_root(), benchmarks_root())
        for path in sorted(root.glob("*/*/*/result.json"))
        if (id := f"{path.parents[1].relative_to(root)}") in known
    }
    verdicts = {
        key: {v.name: to_json(v) for v in known[result.id].verdicts(result)}
        for key, result in stored.items()
    }
    tables: dict[str, str] = {}
    for module in modules:
        tables |= _tables(module, stored)
    chosen = [] if quick is None else list(quick) or list(known)
    runs = {id: _run(known[id]) for id in chosen if "quick" in known[id].presets}
    return {"verdicts": verdicts, "tables": tables, "runs": runs}


def _experiments(*modules: Any) -> dict[str, Experiment[Any]]:
    values = [value for module in modules for value in vars(module).values()]
    return {value.id: value for value in values if isinstance(value, Experiment)}


def _run(experiment: Experiment[Any]) -> dict[str, Any]:
    """Return a quick run's scalars, and a digest of its arrays."""
    result = experiment.run("quick", seed=0, device="cpu")
    arrays = hashlib.sha256(to_npz(result.arrays)).hexdigest()
    return plain(result.scalars | {"arrays": arrays, "commits": None})


def _tables(module: Any, stored: Mapping[str, Result]) -> dict[str, str]:
    """Return the texts of the tables of a module's own results, else of its paper's."""
    paper = f"{module.__name__}.".split(".")[2]
    of_paper = {key: r for key, r in stored.items() if r.id.startswith(f"{paper}/")}
    own = {key: r for key, r in of_paper.items() if r.id in _experiments(module)}
    texts: dict[str, str] = {}
    for name, function in vars(module).items():
        is_here = getattr(function, "__module__", "") == module.__name__
        if name.startswith("_") or not (is_here or isinstance(function, Pivot)):
            continue
        for results in (own, of_paper):
            made = {
                f"{paper}: {name}({key}{options})": text
                for key, result in results.items()
                for options, text in _texts(function, result)
            }
            if made:
                texts |= made
                break
    return texts


def _texts(function: Any, result: Result) -> Iterator[tuple[str, str]]:
    """Yield the tables that a function makes of a result, with the keys it takes."""
    if not callable(function) or inspect.isclass(function):
        return
    signature = inspect.signature(function)
    if "Table" not in str(signature.return_annotation):
        return
    choices: list[tuple[Any, ...]] = [()]
    for parameter in signature.parameters.values():
        kind = inspect.formatannotation(parameter.annotation).strip("'")
        if "Result" in kind:
            value = {result.scale: result} if "Mapping" in kind else result
            choices = [(*given, value) for given in choices]
        elif kind == "str" and parameter.default is parameter.empty:
            keys = dict.fromkeys(_keys(result.scalars))
            choices = [(*given, key) for given in choices for key in keys]
    for given in filter(None, choices):
        # Most fail: the result is another experiment's, the key is no column.
        with contextlib.suppress(Exception):
            if isinstance(table := function(*given), Table):
                yield "".join(f" {x}" for x in given if isinstance(x, str)), repr(table)


def _keys(table: Any) -> Iterator[str]:
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield key
            yield from _keys(value)


def compare(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the differences, a line each; no line if there is none."""
    lines = _differences("", before, after)
    old, new = before["tables"], after["tables"]
    renamed = {new[key]: key for key in new.keys() - old.keys()}
    for n, line in enumerate(lines):
        key = line.removeprefix("/tables/").removesuffix(" is gone")
        if key in old and old[key] in renamed:
            lines[n] = f"/tables/{key} is now {renamed.pop(old[key])}"
    told = {f"/tables/{key} is new" for key in new if new[key] in old.values()}
    return [line for line in lines if line not in told]


def _differences(where: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        old, new = old.splitlines(), new.splitlines()
    if isinstance(old, list) and isinstance(new, list):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [f"{where}: {old!r} -> {new!r}"]
    lines = []
    for key in dict.fromkeys([*old, *new]):
        if key in old and key in new:
            lines += _differences(f"{where}/{key}", old[key], new[key])
        else:
            lines.append(f"{where}/{key} is {'new' if key in new else 'gone'}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 if two snapshots differ."""
    parser = argparse.ArgumentParser(description="Note verdicts, tables and numbers.")
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("files", type=Path, nargs="+", help="one, or two to compare")
    parser.add_argument("--quick", nargs="*", metavar="ID", help="run these, or all")
    options = parser.parse_args(arguments)
    if options.command == "write":
        warnings.simplefilter("ignore")
        text = json.dumps(take(options.quick), indent=1, ensure_ascii=False)
        options.files[0].write_text(text + "\n", "utf-8")
        return 0
    before, after = (json.loads(file.read_text("utf-8")) for file in options.files)
    lines = compare(before, after)
    print(*lines or ["no difference"], sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
