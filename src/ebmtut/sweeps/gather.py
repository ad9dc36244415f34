"""Collect a sweep into one tidy table, a figure and a report."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ebmtut.checks import InputError, check_choice
from ebmtut.results.atomic import replace_file
from ebmtut.sweeps.driver import load_runs
from ebmtut.sweeps.report import report_page

__all__ = ["gather", "mean_rows", "tidy_rows"]

# Columns that the sweep itself writes.
_OWN = ("run", "status", "seconds", "started", "commit", "code")
# Longer lists stay in run.json.
_LONGEST = 16
_PICTURES = 6
_LINES = 8


def gather(
    folder: str | Path, *, y: Sequence[str] = (), x: str | None = None
) -> list[Path]:
    """Write the table, the figure and the report of a sweep.

    Parameters
    ----------
    y, x
        Columns on the axes; by default numbers that differ, and the most varied
        parameter.

    Returns
    -------
    files
        ``table.csv``, ``table.parquet`` if pyarrow is installed, ``plot.png`` if a
        parameter varies, and ``report.html``.
    """
    folder = Path(folder)
    try:
        plan = json.loads((folder / "sweep.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} holds no sweep") from None
    records = load_runs(folder)
    rows = tidy_rows(records)
    # All runs in the folder count: an earlier call may have varied another parameter.
    varied = [n for n in plan["help"] if len({json.dumps(r.get(n)) for r in rows}) > 1]
    numbers = _numbers_of(rows, records)
    for name in y:
        check_choice("y", name, numbers)
    if x is not None:
        check_choice("x", x, [name for name in varied if name != "seed"])
    files = [folder / "table.csv"]
    replace_file(files[0], _csv(rows))
    if (parquet := _parquet(rows)) is not None:
        files.append(folder / "table.parquet")
        replace_file(files[-1], parquet)
    shown = list(y) or _differing(rows, numbers)
    picture = _picture(rows, varied, shown[:_PICTURES], x)
    if picture is not None:
        files.append(folder / "plot.png")
        replace_file(files[-1], picture)
    means = mean_rows(rows, [n for n in varied if n != "seed"], shown)
    page = report_page(
        plan, records, varied, means, shown, has_picture=picture is not None
    )
    files.append(folder / "report.html")
    replace_file(files[-1], page.encode())
    return files


def tidy_rows(records: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per run: name, status, parameters, numbers, provenance.

    Returns
    -------
    rows
        All with the same columns; None where a run lacks a value. A number is named by
        its path in the recorded JSON, such as ``table.ED.nll``, after the name of the
        file where needed. A parameter named as one of the sweep's columns, such as
        ``run``, moves that to ``sweep.run``.
    """
    several = len({name for r in records.values() for name in r["numbers"]}) > 1
    parameters = {name for record in records.values() for name in record["parameters"]}
    own = {name: _own(name, parameters) for name in _OWN}
    # And "runs", the number of them in a mean.
    taken = {*parameters, *own.values(), *(f"sweep.{name}" for name in _OWN), "runs"}
    rows = []
    for record in sorted(records.values(), key=_order):
        row = {own["run"]: record["name"], own["status"]: record["status"]}
        row |= record["parameters"]
        for name, found in record["numbers"].items():
            for path, value in _flat(found):
                key = ".".join([name, *path] if several else path)
                while key in taken or key in row:
                    key = f"{name}.{key}"
                row[key] = value
        row |= {own[name]: record[name] for name in ("seconds", "started", "commit")}
        row[own["code"]] = record["identity"]["package"]
        rows.append(row)
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in columns} for row in rows]


def _own(name: str, parameters: Collection[str]) -> str:
    """Column of what the sweep knows itself."""
    return f"sweep.{name}" if name in parameters else name


def _status(row: Mapping[str, Any]) -> Any:
    return row["sweep.status"] if "sweep.status" in row else row["status"]


def _order(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort numbers by size, names alphabetically, and the seed last."""
    values = dict(record["parameters"])
    values["seed"] = values.pop("seed", None)
    return tuple(
        (1, 0.0, str(v)) if not _is_number(v) else (0, v, "") for v in values.values()
    )


def mean_rows(
    rows: Sequence[Mapping[str, Any]], settings: Sequence[str], numbers: Sequence[str]
) -> list[dict[str, Any]]:
    """Average numbers over the runs of each setting.

    Parameters
    ----------
    settings, numbers
        Columns that define a setting, and columns to average.

    Returns
    -------
    means
        One row per setting: its values, ``runs`` (``sweep.runs`` where a setting has
        that name), and pairs of mean and standard error.
    """
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if _status(row) == "done":
            key = json.dumps([row[name] for name in settings])
            cells.setdefault(key, []).append(row)
    means = []
    for found in cells.values():
        mean: dict[str, Any] = {name: found[0][name] for name in settings}
        mean[_own("runs", settings)] = len(found)
        for name in numbers:
            mean[name] = _mean([r[name] for r in found if _is_number(r[name])])
        means.append(mean)
    return means


def _mean(values: Sequence[float]) -> tuple[float, float | None] | None:
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    spread = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return mean, math.sqrt(spread / len(values))


def _flat(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """List the values of nested tables and short lists, with their paths."""
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list):
        if len(value) > _LONGEST:
            return []
        parts = {str(k): part for k, part in enumerate(value)}.items()
    else:
        return [(path or ("value",), value)]
    return [leaf for key, part in parts for leaf in _flat(part, (*path, str(key)))]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers_of(
    rows: Sequence[Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    told = {name for record in records.values() for name in record["parameters"]}
    told |= {_own(name, told) for name in _OWN if name != "seconds"}
    columns = list(rows[0]) if rows else []
    return [c for c in columns if c not in told and any(_is_number(r[c]) for r in rows)]


def _differing(rows: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> list[str]:
    """Return numbers that differ between runs; seconds only if no other does."""
    found = [
        name
        for name in numbers
        if name != "seconds" and len({r[name] for r in rows if r[name] is not None}) > 1
    ]
    return found[:12] or ["seconds"] * ("seconds" in numbers)


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["run"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes | None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    for name, values in columns.items():
        kinds = {type(value) for value in values if value is not None}
        if kinds > {float} and kinds <= {int, float}:
            columns[name] = [None if v is None else float(v) for v in values]
        elif len(kinds) > 1:  # parquet columns have one type
            columns[name] = [None if v is None else str(v) for v in values]
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _picture(
    rows: Sequence[Mapping[str, Any]],
    varied: Sequence[str],
    numbers: Sequence[str],
    x: str | None,
) -> bytes | None:
    """Draw numbers over one parameter, with a line for each setting of the others."""
    done = [row for row in rows if _status(row) == "done"]
    settings = [name for name in varied if name != "seed"]
    if not done or not numbers or not settings:
        return None
    import matplotlib.pyplot as plt

    from ebmtut.plotting import panel_size, use_style

    taken = {n: {json.dumps(row[n]): row[n] for row in done} for n in settings}
    scales = {n for n in settings if all(map(_is_number, taken[n].values()))}
    x = x or max(settings, key=lambda n: (n in scales, len(taken[n])))
    others = [name for name in settings if name != x]
    values = list(taken[x].values())
    if is_scale := x in scales:
        values.sort()
    n_rows, n_columns = -(-len(numbers) // 3), min(3, len(numbers))
    with plt.rc_context():
        use_style()
        size = panel_size(n_rows, n_columns, aspect=0.8)
        figure, axes = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False)
        for ax, number in zip(axes.flat, numbers, strict=False):
            means = mean_rows(done, settings, [number])
            lines = {json.dumps([mean[n] for n in others]) for mean in means}
            for key in sorted(lines)[:_LINES]:
                on = [m for m in means if json.dumps([m[n] for n in others]) == key]
                on = [m for m in on if m[number] is not None]
                on.sort(key=lambda m: values.index(m[x]))
                at = [m[x] if is_scale else values.index(m[x]) for m in on]
                told = zip(others, json.loads(key), strict=True)
                ax.errorbar(
                    at,
                    [m[number][0] for m in on],
                    [m[number][1] or 0.0 for m in on],
                    marker="o",
                    ls="-" if is_scale else "none",
                    ms=3,
                    lw=1,
                    label=", ".join(f"{name} = {value}" for name, value in told),
                )
            ax.set(xlabel=x, title=number)
            if is_scale and values[0] > 0 and values[-1] > 30 * values[0]:
                ax.set_xscale("log")
            elif not is_scale:
                ax.set_xticks(range(len(values)), [str(v) for v in values])
        for ax in axes.flat[len(numbers) :]:
            ax.set_visible(False)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        if others:
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        file = io.BytesIO()
        figure.savefig(file, format="png", bbox_inches="tight")
        plt.close(figure)
    return file.getvalue()
