"""The ledger as HTML: counts for each paper, every number, and how each was run."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib.metadata import metadata
from importlib.resources import files

from ebmtut.checks import InputError
from ebmtut.experiments.facts import Fact, papers
from ebmtut.experiments.registry import (
    PAPERS_IN_FULL,
    Scale,
    available,
    get_experiment,
    label_of,
    page_of,
)
from ebmtut.experiments.verdicts import RULES
from ebmtut.ledger.listing import KINDS, MARKS, QUOTED, Kind, Line, Row, lines, tally
from ebmtut.ledger.reference import Reference
from ebmtut.results import Provenance

__all__ = ["STYLE", "numbers_html", "paper_html", "rules_html", "summary_html"]

# Words that a reader sees, where they are not those of the code.
_SHOWN = {QUOTED: "quoted, no code here"}
_KIND_NAMES = {
    "own method": "its own method",
    "other method": "other methods",
    "claim": "claims of this book",
    "sanity check": "sanity checks",
}

# The theme's variables make it follow dark mode. On a phone a line of the long table
# becomes a card, so that nothing scrolls sideways.
STYLE = """<style>
.ledger p, .ledger ul { margin: .25rem 0; }
.ledger ul { padding-left: 1.2rem; }
.ledger .box { overflow-x: auto; margin: .25rem 0 .75rem; }
.ledger table { border-collapse: collapse; font-size: .85rem; margin: 0; }
.ledger :is(th, td) { padding: .25rem .4rem; text-align: right;
  vertical-align: top; font-weight: normal; }
.ledger thead th { border-bottom: 1px solid var(--pst-color-border, #999);
  vertical-align: bottom; }
.ledger th:first-child, .ledger .every :is(td, th) { text-align: left; }
.ledger .paper { padding-top: .6rem; font-weight: bold; }
.ledger .summary th:first-child { max-width: 22rem; }
.ledger .summary thead th + th { max-width: 8.5rem; }
.ledger .summary table { font-size: .95rem; }
.ledger .every td:nth-child(2) { min-width: 12rem; overflow-wrap: anywhere; }
.ledger .match, .ledger .better { color: var(--pst-color-success, #196b24); }
.ledger .miss { color: var(--pst-color-danger, #b3261e); font-weight: bold; }
.ledger .muted { color: var(--pst-color-text-muted, #666); font-size: .85em; }
.ledger details { margin: .25rem 0; }
.ledger summary { min-height: 2.75rem; padding: .6rem 0; cursor: pointer; }
.ledger .finder { display: flex; flex-wrap: wrap; gap: .5rem 1rem;
  font-size: .9rem; align-items: end; }
.ledger .finder label { display: grid; gap: .1rem; flex: 1 1 9rem; }
.ledger .finder :is(input, select), .ledger .more { min-height: 44px;
  font-size: 1rem; width: 100%; }
.ledger .more { width: auto; padding: 0 1rem; }
.ledger [hidden] { display: none !important; }
@media (max-width: 40rem) {
  .ledger :is(.tally, .summary) table { font-size: .72rem; }
  .ledger :is(.tally, .summary) :is(th, td) { padding: .2rem .15rem; }
  .ledger .tally thead th + th { writing-mode: vertical-rl; transform: rotate(180deg);
    text-align: left; }
  .ledger .every thead { display: none; }
  .ledger .every, .ledger .every :is(tbody, tr, th, td) { display: block; }
  .ledger .every tr { padding: .5rem 0;
    border-bottom: 1px solid var(--pst-color-border, #ccc); }
  .ledger .every :is(th, td) { padding: 0; }
  .ledger .every td:nth-child(3)::before { content: "book "; }
  .ledger .every td:nth-child(5)::before { content: "baseline "; }
  .ledger .every td:empty { display: none; }
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
    head = "<summary>The rules of the verdicts</summary>"
    return (
        f'<div class="ledger"><details>{head}<ul>{"".join(items)}</ul></details></div>'
    )


def summary_html(ledger: Sequence[Row]) -> str:
    """Return how each paper's numbers and the book's claims came out, in one table."""
    found = lines(ledger)
    kinds: tuple[Kind, ...] = ("own method", "other method", "claim")
    head = ""
    for kind in kinds:
        told = "hold" if kind == "claim" else "match or are better, of those compared"
        head += f'<th>{_KIND_NAMES[kind]}<br><span class="muted">{told}</span></th>'
    body = ""
    for key, paper in papers().items():
        counted = tally([line for line in found if line.fact.paper == key])
        if any(counted.values()):
            cells = "".join(_kept(kind, counted[kind]) for kind in kinds)
            link = (
                f'<a href="#ledger-{key}">{escape(paper.method)}</a><br>'
                f'<span class="muted">{escape(paper.title)}</span>'
            )
            body += f"<tr><th>{link}</th>{cells}</tr>"
    return (
        f'{STYLE}<div class="ledger"><p>{_headline(found)}</p>'
        f"{_box('Summary of all papers', 'summary')}<table><thead><tr><th>paper</th>"
        f"{head}</tr></thead><tbody>{body}</tbody></table></div><details>"
        f"<summary>Every verdict, counted</summary>{_tally_html(found)}</details></div>"
    )


def _compared(count: Counter[str]) -> int:
    """Count what can be compared: run, and not by another protocol."""
    return sum(count[word] for word in MARKS if word != "not comparable")


def _kept(kind: str, count: Counter[str]) -> str:
    """Show how many of the compared numbers came out as printed or as claimed."""
    if not count.total():
        return "<td></td>"
    compared = _compared(count)
    held = f"{count['match'] + count['better']} of {compared}" if compared else "none"
    printed = "" if kind == "claim" else f"{count.total()} printed"
    return f'<td>{held}<br><span class="muted">{printed}</span></td>'


def _tally_html(found: Sequence[Line]) -> str:
    words = (*MARKS, "not run", QUOTED)
    head = "".join(f"<th>{_SHOWN.get(word, word)}</th>" for word in words)
    body = ""
    for key, paper in papers().items():
        counted = tally([line for line in found if line.fact.paper == key])
        if any(counted.values()):
            name = escape(paper.method)
            body += f'<tr><th class="paper" colspan="{len(words) + 1}">{name}</th></tr>'
        for kind, count in counted.items():
            numbers = "".join(_count(word, count) for word in words)
            if count:
                body += f"<tr><th>{_KIND_NAMES[kind]}</th>{numbers}</tr>"
    return (
        f"{_box('Counts of all verdicts', 'tally')}<table><thead><tr>"
        f"<th>numbers of</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _count(word: str, count: Counter[str]) -> str:
    kind = ' class="miss"' if word == "miss" and count[word] else ""
    return f"<td{kind}>{count[word] or '&middot;'}</td>"


def _headline(found: Sequence[Line]) -> str:
    """Say in words how the papers' numbers and the book's claims came out."""
    counted = tally(found)
    printed = counted["own method"] + counted["other method"]
    claims = counted["claim"]
    return (
        f"The papers print <b>{printed.total()} numbers</b> that we could read. "
        f"{_compared(printed)} of them can be compared with a run of this book, and "
        f"{printed['match'] + printed['better']} of these match or are better; "
        f"{_others(printed)}. Of the <b>{claims.total()} claims</b> that the book "
        f"makes itself, {claims['match']} hold; {_others(claims)}."
    )


def _others(count: Counter[str]) -> str:
    """Say what the verdicts are that are neither a match nor better."""
    missed, alike = count["miss"], count["like the baseline"]
    return f"{missed} are missed, {alike} not clearly better than the baseline"


def paper_html(ledger: Sequence[Row], references: References) -> str:
    """Return how one paper's figures and tables were run, folded.

    Parameters
    ----------
    references
        ``references(id, table)``: the baseline and exact value of each column.
    """
    runs = "".join(_experiment(row, references) for row in ledger)
    return (
        f'{STYLE}<div class="ledger"><details><summary>How each figure and table was '
        f"run</summary>{runs}</details></div>"
    )


def _place(fact: Fact) -> str:
    """Link a figure or table to the section that shows it."""
    page = page_of(fact.id)
    title = escape(fact.title)
    if page is None:
        return title
    return f'<a href="../{page}.html#{label_of(fact.id)}">{title}</a>'


def numbers_html(ledger: Sequence[Row], references: References) -> str:
    """Return every number and claim in one table, which the reader can search.

    What was missed comes first: numbers of the papers, claims, sanity checks.
    """
    heads = ("figure or table", "what", "book", "paper or bound", "baseline", "verdict")
    head = "".join(f"<th>{name}</th>" for name in heads)
    look_up = cache(lambda id, table: tuple(references(id, table)))
    found = sorted(lines(ledger), key=_order)
    body = "".join(_number_line(line, look_up) for line in found)
    script = files("ebmtut.ledger").joinpath("every.js").read_text("utf-8")
    # In a box that a keyboard reaches, since it scrolls where the window is narrow.
    return (
        f'{STYLE}<div class="ledger"><div class="finder"></div>'
        f'<p class="muted" aria-live="polite"></p>{_box("Every number")}'
        f'<table class="every"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"</table></div></div><script>{script}</script>"
    )


def _order(line: Line) -> int:
    missed = line.word == "miss" and not line.superseded
    return KINDS.index(line.kind) if missed else len(KINDS)


@cache
def _source() -> str:
    """Return the address of the repository, from the package's own metadata."""
    addresses = metadata("ebmtut").get_all("Project-URL") or []
    (source,) = (url for url in addresses if url.startswith("Source, "))
    return f"{source.removeprefix('Source, ')}/tree/HEAD"


def _number_line(line: Line, references: References) -> str:
    scale, verdict = line.scale, line.verdict
    word = _SHOWN.get(line.word, line.word)
    shown = word
    if scale is not None:
        smaller = ", a larger one exists" if line.superseded else ""
        run = f'<a href="{_source()}/results/{line.fact.id}/{scale}">{scale} run</a>'
        shown = f'{word}<br><span class="muted">{run}{smaller}</span>'
    if line.study:
        address = f"{_source()}/benchmarks/results/{line.study}/full"
        study = f'<a href="{address}">study, reduced scale</a>'
        shown = f'{word}<br><span class="muted">{study}</span>'
    size = "smaller" if line.superseded else "largest"
    why = verdict.reason if verdict and word == "not comparable" else ""
    also = f' title="{escape(why, quote=True)}"' if why else ""
    return (
        f'<tr data-k="{line.fact.paper}|{line.kind}|{word}|{size}"><th>'
        f"{_place(line.fact)}</th><td>{escape(line.name)}</td><td>{_measured(line)}</td>"
        f"<td>{_beside(line)}</td><td>{'<br>'.join(_around(line, references))}</td>"
        f'<td class="{word.split()[0]}"{also}>{shown}</td></tr>'
    )


def _measured(line: Line) -> str:
    verdict = line.verdict
    if verdict is None:
        return ""
    if verdict.measured is None:
        return "not finite"
    seeds = f" ({verdict.n_seeds} seeds)" if (verdict.n_seeds or 1) > 1 else ""
    if verdict.stderr:
        decimals = _decimals(verdict.stderr)
        spread = f" &plusmn; {verdict.stderr:.{decimals}f}"
        return f"{verdict.measured:.{decimals}f}{spread}{seeds}"
    beside = [verdict.published, verdict.target]
    return _short(verdict.measured, *(x for x in beside if x is not None)) + seeds


def _beside(line: Line) -> str:
    if line.published is not None:
        spread = "" if line.spread is None else f" &plusmn; {line.spread:.4g}"
        return f"paper {_printed(line)}{spread}"
    if line.verdict is None or line.verdict.target is None:
        return ""
    found = [] if line.verdict.measured is None else [line.verdict.measured]
    return f"{line.verdict.rule} {_short(line.verdict.target, *found)}"


def _printed(line: Line) -> str:
    """Return a published number with the decimals of the paper."""
    assert line.published is not None
    for table in line.fact.tables:
        if line.name.startswith(f"{table.name}: "):
            return f"{line.published:.{table.decimals}f}"
    return f"{line.published:g}"


def _around(line: Line, references: References) -> list[str]:
    """Return the baseline and the exact value of a line, where there are any."""
    found = {"baseline": "", "exact": ""}
    table, _, place = line.name.partition(": ")
    column = place.partition(", ")[2]
    if line.verdict is not None and line.verdict.cell is not None:
        table, _, column = line.verdict.cell
    if line.published is not None or (line.verdict and line.verdict.cell):
        try:
            around = references(line.fact.id, table)
        except InputError:  # a number in a table that the paper does not print
            around = []
        for reference in around:
            if column in reference.values:
                found[reference.kind] = _number(reference.values[column])
    if line.verdict is not None and line.verdict.baseline is not None:
        found["baseline"] = _short(line.verdict.baseline)
    exact = f"exact {found['exact']}" if found["exact"] else ""
    return [text for text in (found["baseline"], exact) if text]


def _decimals(stderr: float) -> int:
    """Decimals that show the first digit of a standard error, two if that is a 1."""
    first, power = f"{stderr:e}".split("e")
    return max(0, -int(power) + first.startswith("1"))


def _short(value: float, *others: float) -> str:
    """Three digits, or as many more as tell a number from those beside it."""
    for digits in range(3, 7):
        text = f"{value:.{digits}g}"
        if all(text != f"{x:.{digits}g}" or x == value for x in others):
            break
    return text


def _number(value: float) -> str:
    """Three decimals, one where the number is so large that they mean nothing."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _box(label: str, kind: str = "") -> str:
    """Open a box that scrolls sideways, by the keyboard, too."""
    name = escape(label, quote=True)
    also = f" {kind}" if kind else ""
    return f'<div class="box{also}" role="region" aria-label="{name}" tabindex="0">'


def _experiment(row: Row, references: References) -> str:
    """Return what a figure or table shows, its states, protocol and origin."""
    fact, stored = row.fact, row.stored()
    parts = [f"<p><b>{_place(fact)}</b> ({escape(fact.shown_in)}), "]
    parts.append(f"<code>{fact.id}</code>. {_states(row)}.</p>")
    parts.append(f"<p>{escape(fact.what)}</p>")
    found = [*(at.verdicts for at in stored.values()), *row.studies.values()]
    verdicts = [verdict for verdicts in found for verdict in verdicts]
    notes = []
    for table in fact.tables:
        side = "the number itself" if table.better == "equal" else table.better
        unit = f" [{table.unit}]" if table.unit else ""
        notes.append(f"{table.name}{unit}: {table.metric}; better: {side}.")
        notes += [
            f"{ref.label} is a row of kind {ref.kind}, {ref.size}: "
            + ", ".join(
                f"{column} {_number(value)}"
                + (f" ± {ref.stderr[column]:.3f}" if column in ref.stderr else "")
                for column, value in ref.values.items()
            )
            for ref in references(fact.id, table.name)
        ]
    reasons = {v.reason: None for v in verdicts if v.verdict == "not comparable"}
    notes += [f"Not comparable: {reason}." for reason in reasons]
    protocols = {at.protocol: None for at in stored.values() if at.protocol}
    notes += [f"Protocol: {protocol}" for protocol in protocols]
    origins = {scale: at.provenance for scale, at in stored.items()}
    notes += [_origin(scale, made) for scale, made in origins.items() if made]
    notes += [fact.note] if fact.note else []
    if fact.check and not verdicts:
        notes.append(f"Claim to be tested: {fact.check}")
    parts += [f'<p class="muted">{escape(note)}</p>' for note in notes]
    return "".join(parts)


def _states(row: Row) -> str:
    shown = [f"{scale}: {at.state}" for scale, at in row.scales.items()]
    if row.fact.id in PAPERS_IN_FULL:
        shown[1] += ", the paper's setting"
    if row.scales["paper"].state == "same run":
        shown[2] = "paper: the same run"
    elif row.scales["paper"].state == "not run" and row.fact.id in available():
        ready = "paper" in get_experiment(row.fact.id).presets
        shown[2] = f"paper: {'ready, not run' if ready else 'it runs nothing here'}"
    return ", ".join(shown)


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
