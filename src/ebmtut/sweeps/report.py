"""Write the report of a sweep, a single HTML file beside its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from ebmtut.results.tables import Cell, Table

__all__ = ["report_page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; color: #222; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th[scope="row"] { font-weight: normal; }
.wide, .numbers { overflow-x: auto; }
img { max-width: 100%; }
pre { overflow-x: auto; background: #f4f4f6; padding: .7rem; font-size: .85rem; }
"""


def report_page(
    plan: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
    varied: Sequence[str],
    means: Sequence[Mapping[str, Any]],
    numbers: Sequence[str],
    *,
    has_picture: bool,
) -> str:
    """Write the page.

    Parameters
    ----------
    plan, records
        Contents of ``sweep.json``, and of ``run.json`` by the name of the run.
    means, numbers
        From `ebmtut.sweeps.gather.mean_rows`, and its columns that hold pairs.
    """
    title = f"Sweep of {escape(plan['notebook'])}"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>",
        _state(plan, records, varied),
        "<h2>Numbers</h2>",
        "<p>Means over the runs of each setting, with the standard error of the mean "
        'where there are several. All numbers: <a href="table.csv">table.csv</a>.</p>',
        _table(means, numbers),
    ]
    if has_picture:
        parts.append(
            '<p><img src="plot.png" alt="The numbers of the table above, plotted over '
            'the parameters of the sweep"></p>'
        )
    parts += ["<h2>Runs</h2>", _runs(records, varied), _failures(records)]
    parts += ["<h2>Provenance</h2>", _provenance(records), "</body></html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _state(
    plan: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
    varied: Sequence[str],
) -> str:
    counts = Counter(
        records[name]["status"] if name in records else "missing"
        for name in plan["runs"]
    )
    told = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    varied = "".join(
        f"<li><code>{escape(name)}</code> {escape(plan['help'].get(name) or '')}</li>"
        for name in varied
    )
    older = len(records.keys() - set(plan["runs"]))
    more = f" and {older} from earlier calls" if older else ""
    return (
        f"<p>{len(plan['runs'])} runs{more}: {told}. Command:</p>"
        f"<pre>{escape(plan['command'])}</pre>"
        "<p>Parameters that differ between runs:</p>"
        f"<ul>{varied or '<li>nothing</li>'}</ul>"
    )


def _table(rows: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> str:
    if not rows:
        return "<p>No run is done.</p>"
    columns = [c for c in rows[0] if c not in numbers] + list(numbers)
    cells = {c: [_cell(row[c]) for row in rows] for c in columns}
    return Table(cells, digits=4)._repr_html_()


def _cell(value: Any) -> Cell:
    """Keep numbers and show everything else as text."""
    known = value is None or isinstance(value, (float, tuple))
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if known or is_count else str(value)


def _runs(records: Mapping[str, Mapping[str, Any]], varied: Sequence[str]) -> str:
    lines = []
    for name, record in records.items():
        href = f"runs/{quote(name)}/notebook.ipynb"
        told = ", ".join(f"{n} = {_word(record['parameters'].get(n))}" for n in varied)
        lines.append(
            f'<tr><td><a href="{href}">{escape(told or name)}</a></td>'
            f"<td>{escape(record['status'])}</td><td>{record['seconds']:.0f} s</td>"
            f'<td><a href="runs/{quote(name)}/run.json">run.json</a></td></tr>'
        )
    head = "<tr><th>executed notebook</th><th>status</th><th>time</th><th>details</th>"
    return f'<div class="wide"><table>{head}</tr>{"".join(lines)}</table></div>'


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _failures(records: Mapping[str, Mapping[str, Any]]) -> str:
    failed = [record for record in records.values() if record["status"] != "done"]
    if not failed:
        return ""
    return "<h2>Failed runs</h2>" + "".join(
        f"<details><summary>{escape(r['name'])}: {escape(r['status'])}</summary>"
        f"<pre>{escape(r['error'] or '')}</pre></details>"
        for r in failed
    )


def _files(record: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the files that a run's parameters name."""
    files: dict[str, str] = json.loads(record["identity"].get("files", "{}"))
    return files


def _provenance(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Name the code that made the runs; warn if there are several versions."""
    # Files of different names may differ; a file must not have changed in between.
    contents: dict[str, set[str]] = {}
    for record in records.values():
        for file, content in _files(record).items():
            contents.setdefault(file, set()).add(content)
    changed = {file for file, found in contents.items() if len(found) > 1}
    makers: dict[str, list[Mapping[str, Any]]] = {}
    for record in records.values():
        files = {f: c for f, c in _files(record).items() if f in changed}
        key = str({**record["identity"], "files": files})
        makers.setdefault(key, []).append(record)
    parts = []
    if len(makers) > 1:
        parts.append(
            f"<p><strong>These runs were made with {len(makers)} different states of "
            "code, versions or data.</strong> Compare numbers only within one of "
            "them.</p>"
        )
    for found in makers.values():
        one = found[0]
        told = ", ".join(f"{name} {v}" for name, v in one["versions"].items())
        first = min(r["started"] for r in found)
        last = max(r["started"] for r in found)
        parts.append(
            f"<p>{len(found)} runs, {first} to {last}: commit "
            f"<code>{escape(one['commit'])}</code>; {escape(told)}.</p>"
        )
    return "".join(parts)
