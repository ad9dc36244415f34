"""The ledger as HTML: a paper's published numbers beside ours."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files

from ebmtut.experiments.facts import PublishedTable
from ebmtut.experiments.registry import (
    PAPERS_IN_FULL,
    Scale,
    available,
    get_experiment,
    label_of,
    page_of,
)
from ebmtut.experiments.verdicts import RULES, Verdict
from ebmtut.ledger.listing import MARKS, Row, counts
from ebmtut.ledger.reference import Reference
from ebmtut.results import Provenance

__all__ = ["STYLE", "paper_html", "rules_html", "summary_html", "verdicts_html"]

# The theme's variables make it follow dark mode; tables scroll in their own box,
# so that the page does not on a phone, and the first column stays in sight.
STYLE = """<style>
.ledger section { margin: 0 0 1.5rem; padding-top: .75rem;
  border-top: 1px solid var(--pst-color-border, #ccc); }
.ledger p { margin: .25rem 0; }
.ledger ul { margin: .25rem 0; padding-left: 1.2rem; }
.ledger .box { overflow-x: auto; margin: .25rem 0 .5rem; }
.ledger table { border-collapse: collapse; font-size: .8rem; margin: 0; }
.ledger th, .ledger td { padding: .2rem .3rem; text-align: right;
  vertical-align: top; }
.ledger thead th { border-bottom: 1px solid var(--pst-color-border, #999);
  vertical-align: bottom; max-width: 4.5rem; }
.ledger th:first-child { text-align: left; font-weight: normal; min-width: 6rem;
  position: sticky; left: 0; background: var(--pst-color-background, #fff); }
.ledger .claims td:last-child { white-space: nowrap; }
.ledger tr.ours th, .ledger tr.ours td { font-weight: 600; }
.ledger tr.null, .ledger tr.exact { font-style: italic; }
.ledger small { display: block; font-weight: normal; font-style: normal;
  font-size: .85em; white-space: nowrap; }
.ledger small.not { white-space: normal; }
.ledger .match, .ledger .better { color: var(--pst-color-success, #196b24); }
.ledger .miss { color: var(--pst-color-danger, #b3261e); }
.ledger .muted { color: var(--pst-color-text-muted, #666); font-size: .85em; }
.ledger .finder { display: flex; flex-wrap: wrap; gap: .4rem 1rem; font-size: .85rem; }
.ledger th button { all: unset; cursor: pointer; }
.ledger th button:focus-visible { outline: 2px solid currentColor; }
.ledger [aria-sort=ascending] button::after { content: " \\2191"; }
.ledger [aria-sort=descending] button::after { content: " \\2193"; }
@media (max-width: 40rem) {
  .ledger .every thead { display: none; }
  .ledger .every :is(tr:not([hidden]), th, td) { display: block; text-align: left; }
  .ledger .every tbody tr { border-bottom: 1px solid var(--pst-color-border, #ccc); }
  .ledger .every td::before { content: attr(data-head) ": "; font-weight: normal; }
}
html[data-theme="dark"] .bd-content div.cell_output .text_html:has(div.ledger) {
  background: transparent; color: inherit; padding: 0; }
</style>"""

References = Callable[[str, str], Sequence[Reference]]


def rules_html() -> str:
    """Return the rule of the verdicts, as the code has it."""
    items = (
        f"<li><b>{escape(name)}</b> &ndash; {escape(text)}</li>"
        for name, text in RULES.items()
    )
    return f'<div class="ledger"><ul>{"".join(items)}</ul></div>'


def summary_html(ledger: Sequence[Row]) -> str:
    """Return, for each paper, its rows, its printed numbers and our own claims."""
    found = counts(ledger)
    tables = (
        (
            "Figures and tables: stored runs, those live on a page, and neither",
            {key: key for key in ("rows", "stored", "live", "neither")},
        ),
        (
            "Published numbers: how many are printed, and how ours stand beside them",
            {key: key for key in ("printed", *MARKS, "not run")},
        ),
        (
            "Claims of our own that their null fails; sanity checks left out, and "
            "apart those whose null is still to be computed",
            {
                "claims": "claims",
                "kept": "kept",
                "missed": "missed",
                "claims not told from null": "not told from null",
                "without a null": "no null yet",
            },
        ),
    )
    parts = []
    for caption, heads in tables:
        head = "".join(f"<th>{name}</th>" for name in heads.values())
        body = "".join(
            f"<tr><th>{paper}</th>"
            + "".join(f"<td>{row[key]}</td>" for key in heads)
            + "</tr>"
            for paper, row in found.items()
        )
        parts.append(
            f'<p class="muted">{caption}</p>{_box(caption)}<table><thead><tr>'
            f"<th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
    return f'{STYLE}<div class="ledger">{"".join(parts)}</div>'


def verdicts_html(ledger: Sequence[Row]) -> str:
    """Return every verdict in one table, to be sorted and filtered by the reader."""
    heads = ("paper", "row", "what", "ours", "beside", "null", "verdict")
    head = "".join(f'<th><button type="button">{name}</button></th>' for name in heads)
    body = "".join(
        _verdict_line(row, verdict, heads)
        for row in ledger
        for verdict in row.verdicts()
        if not verdict.sanity
    )
    script = files("ebmtut.ledger").joinpath("every.js").read_text("utf-8")
    label = "Every verdict"
    return (
        f'<div class="ledger"><div class="finder"></div>{_box(label)}'
        f'<table class="every"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"</table></div></div><script>{script}</script>"
    )


def _verdict_line(row: Row, verdict: Verdict, heads: Sequence[str]) -> str:
    published = verdict.cell is not None
    beside = verdict.published if published else verdict.target
    source = "paper" if published else verdict.rule
    shown = "&ndash;" if beside is None else f"{source} {beside:.4g}"
    null = "&ndash;" if verdict.null is None else f"{verdict.null:.4g}"
    ours = "not finite" if verdict.ours is None else f"{verdict.ours:.4g}"
    spread = "" if verdict.stderr is None else f" &plusmn; {verdict.stderr:.2g}"
    word = f'<span class="{verdict.verdict}">{verdict.verdict}</span>'
    what = escape(verdict.name)
    cells = (row.fact.id, what, ours + spread, shown, null, word)
    inner = "".join(
        f'<td data-head="{name}">{cell}</td>'
        for name, cell in zip(heads[1:], cells, strict=True)
    )
    return f"<tr><th>{row.fact.paper}</th>{inner}</tr>"


def _box(label: str) -> str:
    """Open a box that scrolls sideways, by the keyboard, too."""
    name = escape(label, quote=True)
    return f'<div class="box" role="region" aria-label="{name}" tabindex="0">'


def paper_html(ledger: Sequence[Row], references: References) -> str:
    """Return a paper's rows: those with numbers in full, then what is not run.

    Parameters
    ----------
    ledger
        Rows of one paper.
    references
        ``references(id, table) -> list of Reference``, the null and exact rows.
    """
    told = [row for row in ledger if row.fact.tables or _is_begun(row)]
    rest = [row for row in ledger if row not in told]
    sections = "".join(_section(row, references) for row in told)
    return f'{STYLE}<div class="ledger">{sections}{_not_run(rest)}</div>'


def _is_begun(row: Row) -> bool:
    return any(at.state != "not run" for at in row.scales.values())


def _section(row: Row, references: References) -> str:
    fact, stored = row.fact, row.stored()
    parts = [f"<section><p><b>{escape(fact.title)}</b> ({escape(fact.shown_in)}), "]
    parts.append(f"<code>{fact.id}</code><br>{_states(row)}</p>")
    parts.append(f"<p>{escape(fact.what)}</p>")
    for table in fact.tables:
        parts.append(_table(row, table, references(fact.id, table.name)))
    parts += [_claims(scale, at.verdicts) for scale, at in stored.items()]
    verdicts = [verdict for at in stored.values() for verdict in at.verdicts]
    reasons = {v.reason: None for v in verdicts if v.verdict == "not comparable"}
    notes = [f"Not comparable: {reason}." for reason in reasons]
    protocols = {at.protocol: None for at in stored.values() if at.protocol}
    notes += [f"Protocol: {protocol}" for protocol in protocols]
    origins = {scale: at.provenance for scale, at in stored.items()}
    notes += [_origin(scale, made) for scale, made in origins.items() if made]
    notes += [fact.note] if fact.note else []
    if fact.check and not verdicts:
        notes.append(f"Claim to be tested: {fact.check}")
    parts += [f'<p class="muted">{escape(note)}</p>' for note in notes]
    return "".join([*parts, "</section>"])


def _states(row: Row) -> str:
    shown = [f"{scale}: {at.state}" for scale, at in row.scales.items()]
    if row.scales["quick"].state == "live":
        place = f"../{page_of(row.fact.id)}.html#{label_of(row.fact.id)}"
        shown[0] = f'quick: <a href="{place}">live</a>'
    if row.fact.id in PAPERS_IN_FULL:
        shown[1] += ", the paper's setting"
    if row.scales["paper"].state == "same run":
        shown[2] = "paper: the same run"
    elif row.scales["paper"].state == "not run" and row.fact.id in available():
        ready = "paper" in get_experiment(row.fact.id).presets
        shown[2] = f"paper: {'ready, not run' if ready else 'it runs nothing here'}"
    return " &middot; ".join(shown)


def _table(row: Row, table: PublishedTable, references: Sequence[Reference]) -> str:
    ours: dict[str, dict[Scale, dict[str, Verdict]]] = {}
    for scale, at in row.stored().items():
        for verdict in at.verdicts:
            if verdict.cell and verdict.cell[0] == table.name:
                _, method, column = verdict.cell
                ours.setdefault(method, {}).setdefault(scale, {})[column] = verdict
    body = [_reference(ref, table) for ref in references if ref.kind == "null"]
    for method in dict.fromkeys([*table.published, *ours]):
        if method in table.published:
            cells = (_printed(table, method, column) for column in table.columns)
            body.append(_line("paper", method, "paper", cells))
        for scale, found in ours.get(method, {}).items():
            cells = (_ours(found.get(column)) for column in table.columns)
            body.append(_line("ours", method, _source(scale, found), cells))
    if not ours:
        state = "live" if row.scales["quick"].state == "live" else "not run"
        body.append(_line("ours", "ours", "", (state for _ in table.columns)))
    body += [_reference(ref, table) for ref in references if ref.kind == "exact"]
    side = "the number itself" if table.better == "equal" else table.better
    unit = f" [{table.unit}]" if table.unit else ""
    caption = f"{table.name}{unit}: {table.metric}; better: {side}"
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    return (
        f'<p class="muted">{escape(caption)}</p>{_box(table.name)}<table><thead><tr>'
        f"<th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _source(scale: str, cells: dict[str, Verdict]) -> str:
    seeds = {verdict.n_seeds for verdict in cells.values() if verdict.n_seeds}
    counts = "-".join(str(n) for n in sorted(seeds))
    plural = "seed" if counts == "1" else "seeds"
    return f"ours, {scale}" + (f", {counts} {plural}" if counts else "")


def _line(kind: str, label: str, source: str, cells: Iterable[str]) -> str:
    inner = "".join(f"<td>{cell}</td>" for cell in cells)
    head = f"{escape(label)}{_small(source)}"
    return f'<tr class="{kind}"><th>{head}</th>{inner}</tr>'


def _small(text: str, kind: str = "muted") -> str:
    return f'<small class="{kind}">{text}</small>' if text else ""


def _spread(deviation: float | None, decimals: int = 3) -> str:
    return "" if deviation is None else _small(f"&plusmn; {deviation:.{decimals}f}")


def _printed(table: PublishedTable, method: str, column: str) -> str:
    number = table.number(method, column)
    if number is None:
        return "&ndash;"
    spread = _spread(table.deviation(method, column), table.decimals)
    return f"{number:.{table.decimals}f}{spread}"


def _ours(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    number = "not finite" if verdict.ours is None else _number(verdict.ours)
    word = _small(verdict.verdict, verdict.verdict)
    return f"{number}{_spread(verdict.stderr)}{word}"


def _number(value: float) -> str:
    """Three decimals, one where the number is so large that they mean nothing."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _reference(reference: Reference, table: PublishedTable) -> str:
    def cell(column: str) -> str:
        spread = _spread(reference.stderr.get(column))
        return f"{_number(reference.values[column])}{spread}"

    cells = (cell(column) for column in table.columns)
    source = f"{reference.kind}, {reference.size}".removesuffix(", ")
    return _line(reference.kind, reference.label, source, cells)


def _claims(scale: Scale, verdicts: Sequence[Verdict]) -> str:
    """Return our own claims of a run, folded away unless one of them failed."""
    verdicts = [verdict for verdict in verdicts if verdict.cell is None]
    if not verdicts:
        return ""
    counted = [verdict for verdict in verdicts if not verdict.sanity]
    kept = sum(verdict.verdict == "match" for verdict in counted)
    n_guards = len(verdicts) - len(counted)
    also = f", and {n_guards} sanity checks" if n_guards else ""
    lines = "".join(
        f"<tr><th>{escape(v.name)}{_small('sanity check' if v.sanity else '')}</th>"
        f"<td>{_ours(v)}</td><td>{v.rule} {v.target:.4g}</td>"
        f"<td>{'&ndash;' if v.null is None else _number(v.null)}</td></tr>"
        for v in verdicts
    )
    holds = all(verdict.verdict == "match" for verdict in verdicts)
    return (
        f"<details{'' if holds else ' open'}><summary>{kept} of {len(counted)} claims "
        f"of our own hold ({scale}){also}</summary>{_box('Claims of our own')}"
        '<table class="claims"><thead><tr><th></th><th>ours</th><th>claimed</th>'
        f"<th>null</th></tr></thead><tbody>{lines}</tbody></table></div></details>"
    )


def _origin(scale: Scale, origin: Provenance) -> str:
    minutes = origin.duration_s / 60
    of_jobs = origin.jobs_s / 60
    # A run of several processes, or one that went on where another had stopped.
    if of_jobs > 1.05 * minutes:
        took = f"jobs of {of_jobs:.1f} min in all"
    else:
        took = f"{minutes:.1f} min"
    return (
        f"Stored run ({scale}): seed {origin.seed}, {origin.device}, "
        f"{took}, commit {origin.commit[:10]}"
    )


def _not_run(rest: Sequence[Row]) -> str:
    if not rest:
        return ""
    items = "".join(
        f"<li><code>{row.fact.id}</code> {escape(row.fact.title)} "
        f"({escape(row.fact.shown_in)}). {escape(row.fact.note)}</li>"
        for row in rest
    )
    return (
        "<section><p><b>Not run</b>, and without numbers that could be read:</p>"
        f"<ul>{items}</ul></section>"
    )
