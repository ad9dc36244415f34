"""The ledger as HTML: a paper's published numbers beside ours."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from ebmtut.experiments.facts import PublishedTable
from ebmtut.experiments.registry import LOCATIONS
from ebmtut.experiments.verdicts import RULES, Verdict
from ebmtut.ledger.listing import Row, ScaleState
from ebmtut.ledger.reference import Reference

__all__ = ["STYLE", "paper_html", "rules_html"]

# The theme's variables make it follow dark mode; tables scroll in their own box,
# so that the page does not on a phone, and the first column stays in sight.
STYLE = """<style>
.ledger { margin: 0 0 2rem; }
.ledger .box { overflow-x: auto; margin: .5rem 0; }
.ledger table { border-collapse: collapse; font-size: .85rem; margin: 0; }
.ledger th, .ledger td { padding: .25rem .6rem; text-align: right;
  white-space: nowrap; vertical-align: top; }
.ledger thead th { border-bottom: 1px solid var(--pst-color-border, #999); }
.ledger tbody th { text-align: left; font-weight: normal; position: sticky;
  left: 0; background: var(--pst-color-background, #fff); }
.ledger thead th:first-child { text-align: left; position: sticky; left: 0;
  background: var(--pst-color-background, #fff); }
.ledger tr.ours th, .ledger tr.ours td { font-weight: 600; }
.ledger tr.null, .ledger tr.exact { font-style: italic; }
.ledger td small { display: block; font-weight: normal; font-style: normal;
  color: var(--pst-color-text-muted, #666); }
.ledger .match, .ledger .better { color: var(--pst-color-success, #196b24); }
.ledger .miss { color: var(--pst-color-danger, #b3261e); }
.ledger p { margin: .25rem 0; }
.ledger .muted { color: var(--pst-color-text-muted, #666); font-size: .85rem; }
</style>"""

References = Callable[[str, str], Sequence[Reference]]


def rules_html() -> str:
    """Return the rule of the verdicts, as the code has it."""
    items = (
        f"<li><b>{escape(name)}</b> &ndash; {escape(text)}</li>"
        for name, text in RULES.items()
    )
    return f'<div class="ledger"><ul>{"".join(items)}</ul></div>'


def paper_html(ledger: Sequence[Row], references: References) -> str:
    """Return a paper's rows: those with numbers in full, then what is not run.

    Parameters
    ----------
    ledger : sequence of Row
        Rows of one paper.
    references : callable
        ``references(id, table) -> list of Reference``, the null and exact rows.
    """
    told = [row for row in ledger if row.fact.tables or _is_begun(row)]
    rest = [row for row in ledger if row not in told]
    sections = "".join(_section(row, references) for row in told)
    return f'{STYLE}<div class="ledger">{sections}{_not_run(rest)}</div>'


def _is_begun(row: Row) -> bool:
    return any(at.state != "not run" for at in row.scales.values())


def _section(row: Row, references: References) -> str:
    fact, best = row.fact, row.best()
    parts = [f"<p><b>{escape(fact.title)}</b> ({escape(fact.shown_in)}), "]
    parts.append(f"<code>{fact.id}</code><br>{_states(row)}</p>")
    parts.append(f"<p>{escape(fact.what)}</p>")
    for table in fact.tables:
        parts.append(_table(row, table, references(fact.id, table.name)))
    parts += [_claim(verdict) for verdict in best.verdicts if verdict.cell is None]
    reasons = {v.reason: None for v in best.verdicts if v.verdict == "not comparable"}
    notes = [f"Not comparable: {reason}." for reason in reasons]
    notes += [f"Protocol: {best.protocol}"] if best.protocol else []
    notes += [_origin(best)] if best.provenance else []
    notes += [fact.note] if fact.note else []
    notes += (
        [f"Claim to be tested: {fact.check}"]
        if not best.verdicts and fact.check
        else []
    )
    parts += [f'<p class="muted">{escape(note)}</p>' for note in notes]
    return "".join(parts)


def _states(row: Row) -> str:
    shown = [f"{scale}: {at.state}" for scale, at in row.scales.items()]
    if row.scales["quick"].state == "live":
        page = LOCATIONS[row.fact.id].notebook.removesuffix(".ipynb")
        shown[0] = f'quick: <a href="../{page}.html">live</a>'
    return " &middot; ".join(shown)


def _table(row: Row, table: PublishedTable, references: Sequence[Reference]) -> str:
    best = row.best()
    scale = next(name for name, at in row.scales.items() if at is best)
    ours: dict[str, dict[str, Verdict]] = {}
    for verdict in best.verdicts:
        if verdict.cell and verdict.cell[0] == table.name:
            ours.setdefault(verdict.cell[1], {})[verdict.cell[2]] = verdict
    body = [_reference(ref, table) for ref in references if ref.kind == "null"]
    for method in dict.fromkeys([*table.published, *ours]):
        if method in table.published:
            cells = (_printed(table, method, column) for column in table.columns)
            body.append(_line("paper", f"{method}, paper", cells))
        if method in ours:
            cells = (_ours(ours[method].get(column)) for column in table.columns)
            body.append(_line("ours", _label(method, scale, ours[method]), cells))
    if not ours:
        body.append(_line("ours", "ours", ("not run" for _ in table.columns)))
    body += [_reference(ref, table) for ref in references if ref.kind == "exact"]
    side = "the number itself" if table.better == "equal" else table.better
    unit = f" [{table.unit}]" if table.unit else ""
    caption = f"{table.name}{unit}: {table.metric}; better: {side}"
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    return (
        f'<p class="muted">{escape(caption)}</p><div class="box"><table><thead><tr>'
        f"<th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _label(method: str, scale: str, cells: dict[str, Verdict]) -> str:
    seeds = {verdict.n_seeds for verdict in cells.values()} - {None}
    counts = "-".join(str(n) for n in sorted(seeds))  # type: ignore[type-var]
    plural = "seed" if counts == "1" else "seeds"
    return f"{method}, ours, {scale}" + (f", {counts} {plural}" if counts else "")


def _line(kind: str, label: str, cells: Iterable[str]) -> str:
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{kind}"><th>{escape(label)}</th>{inner}</tr>'


def _printed(table: PublishedTable, method: str, column: str) -> str:
    number = table.number(method, column)
    if number is None:
        return "&ndash;"
    spread = table.deviation(method, column)
    bar = "" if spread is None else f" &plusmn; {spread:.{table.decimals}f}"
    return f"{number:.{table.decimals}f}{bar}"


def _ours(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    number = "not finite" if verdict.ours is None else f"{verdict.ours:.3f}"
    bar = "" if verdict.stderr is None else f" &plusmn; {verdict.stderr:.3f}"
    word = verdict.verdict
    return f'{number}{bar}<small class="{word}">{word}</small>'


def _reference(reference: Reference, table: PublishedTable) -> str:
    def cell(column: str) -> str:
        bar = reference.stderr.get(column)
        error = "" if bar is None else f" &plusmn; {bar:.3f}"
        return f"{reference.values[column]:.3f}{error}"

    label = f"{reference.kind}: {reference.label}"
    return _line(reference.kind, label, (cell(column) for column in table.columns))


def _claim(verdict: Verdict) -> str:
    bound = f"{verdict.rule} {verdict.target:.4g}"
    number = "not finite" if verdict.ours is None else f"{verdict.ours:.4g}"
    return (
        f'<p><span class="{verdict.verdict}">{verdict.verdict}</span>: '
        f"{escape(verdict.name)}: {number}, claimed {bound}</p>"
    )


def _origin(at: ScaleState) -> str:
    origin = at.provenance
    minutes = float(origin.get("duration_s", 0.0)) / 60
    return (
        f"Stored run: seed {origin.get('seed')}, {origin.get('device')}, "
        f"{minutes:.1f} min, commit {str(origin.get('commit'))[:10]}"
    )


def _not_run(rest: Sequence[Row]) -> str:
    if not rest:
        return ""
    lines = "".join(
        _line("", row.fact.id, (escape(row.fact.title), escape(row.fact.shown_in)))
        for row in rest
    )
    return (
        "<p><b>Not run</b>, and without numbers that we could read:</p>"
        f'<div class="box"><table class="list"><tbody>{lines}</tbody></table></div>'
    )
