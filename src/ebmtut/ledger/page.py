"""The ledger as HTML: what was reached, what was missed, and every number."""

from collections.abc import Callable, Sequence
from functools import cache
from html import escape
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
from ebmtut.ledger.listing import KINDS, MARKS, QUOTED, Line, Row, lines, tally
from ebmtut.ledger.reference import Reference
from ebmtut.results import Provenance

__all__ = ["STYLE", "numbers_html", "paper_html", "rules_html", "summary_html"]

#: Where the stored results can be read, one folder for each experiment and scale.
RESULTS = "https://github.com/ebmtut/ebmtut/tree/main/results"
STUDIES = "https://github.com/ebmtut/ebmtut/tree/main/benchmarks/results"

# Words that a reader sees, where they are not those of the code.
_SHOWN = {"not told from null": "like the baseline", QUOTED: "quoted, no code here"}

# The theme's variables make it follow dark mode. On a phone a line of the long table
# becomes a card, so that nothing scrolls sideways.
STYLE = """<style>
.ledger p, .ledger ul { margin: .25rem 0; }
.ledger ul { padding-left: 1.2rem; }
.ledger .box { overflow-x: auto; margin: .25rem 0 .75rem; }
.ledger table { border-collapse: collapse; font-size: .85rem; margin: 0; }
.ledger th, .ledger td { padding: .25rem .4rem; text-align: right;
  vertical-align: top; font-weight: normal; }
.ledger thead th { border-bottom: 1px solid var(--pst-color-border, #999);
  vertical-align: bottom; }
.ledger th:first-child, .ledger .every :is(td, th) { text-align: left; }
.ledger .every td:nth-child(2) { min-width: 12rem; }
.ledger .match, .ledger .better { color: var(--pst-color-success, #196b24); }
.ledger .miss { color: var(--pst-color-danger, #b3261e); }
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
  .ledger .tally table { font-size: .75rem; }
  .ledger .tally :is(th, td) { padding: .2rem .2rem; }
  .ledger .every thead { display: none; }
  .ledger .every, .ledger .every :is(tbody, tr, th, td) { display: block; }
  .ledger .every tr { padding: .5rem 0;
    border-bottom: 1px solid var(--pst-color-border, #ccc); }
  .ledger .every :is(th, td) { padding: 0; }
  .ledger .every td:nth-child(3)::before { content: "book "; }
  .ledger .every td:nth-child(4)::before { content: "paper or bound "; }
  .ledger .every td:nth-child(5)::before { content: "baseline "; }
  .ledger .every td:nth-child(6)::before { content: "exact "; }
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
    return f'<div class="ledger"><ul>{"".join(items)}</ul></div>'


def summary_html(ledger: Sequence[Row]) -> str:
    """Return how many numbers and claims of all papers have which verdict."""
    return f'{STYLE}<div class="ledger">{_tally(lines(ledger), "all papers")}</div>'


def paper_html(ledger: Sequence[Row], references: References) -> str:
    """Return how one paper's numbers stand, what was missed, and how it was run.

    Parameters
    ----------
    ledger
        Rows of one paper.
    references
        ``references(id, table) -> list of Reference``, the baseline and the exact
        value of each column.
    """
    found = lines(ledger)
    name = papers()[ledger[0].fact.paper].title if ledger else ""
    runs = "".join(_experiment(row, references) for row in ledger)
    return (
        f'{STYLE}<div class="ledger">{_tally(found, name)}{_misses(found)}'
        f"<details><summary>How each figure and table was run</summary>{runs}"
        "</details></div>"
    )


def _tally(found: Sequence[Line], name: str) -> str:
    labels = {
        "own method": "numbers of its own method",
        "other method": "numbers of other methods",
        "claim": "claims of this book",
        "sanity check": "sanity checks",
    }
    counted = {kind: count for kind, count in tally(found).items() if count}
    shown = {"match": "match, or kept"} | _SHOWN
    head = "".join(f"<th>{labels[kind]}</th>" for kind in counted)
    body = "".join(
        f"<tr><th>{shown.get(word, word)}</th>"
        + "".join(f"<td>{count[word] or '&middot;'}</td>" for count in counted.values())
        + "</tr>"
        for word in (*MARKS, "not run", QUOTED)
        if word != QUOTED or any(count[word] for count in counted.values())
    )
    totals = "".join(f"<td>{count.total()}</td>" for count in counted.values())
    return (
        f"{_box('Counts: ' + name, 'tally')}<table><thead><tr><th>verdict</th>{head}"
        f"</tr></thead><tbody>{body}<tr><th>all</th>{totals}</tr></tbody></table></div>"
    )


def _misses(found: Sequence[Line]) -> str:
    """List what was missed; sanity checks are folded."""
    missed = [line for line in found if line.word == "miss" and not line.superseded]
    results = [line for line in missed if line.kind != "sanity check"]
    checks = [line for line in missed if line.kind == "sanity check"]
    if not results:
        listed = "<p><b>Missed:</b> nothing that was run.</p>"
    else:
        listed = f"<p><b>Missed ({len(results)}):</b></p>{_missed(results)}"
    if checks:
        listed += (
            f"<details><summary>Sanity checks that failed ({len(checks)})</summary>"
            f"{_missed(checks)}</details>"
        )
    return listed


def _missed(found: Sequence[Line]) -> str:
    rows = "".join(
        f"<tr><th>{_place(line.fact)}</th><td>{escape(line.name)}</td>"
        f"<td>{_ours(line, 3)}</td><td>{_beside(line)}</td></tr>"
        for line in sorted(found, key=_order)
    )
    heads = ("figure or table", "what", "book", "paper or bound")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f'{_box("Missed")}<table class="every"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _order(line: Line) -> int:
    return KINDS.index(line.kind)


def _place(fact: Fact) -> str:
    """Link a figure or table to the section that shows it."""
    page = page_of(fact.id)
    title = escape(fact.title)
    if page is None:
        return title
    return f'<a href="../{page}.html#{label_of(fact.id)}">{title}</a>'


def numbers_html(ledger: Sequence[Row], references: References) -> str:
    """Return every number and claim in one table, which the reader can search.

    Parameters
    ----------
    ledger, references
        As for `paper_html`.
    """
    heads = "figure or table|what|book|paper or bound|baseline|exact|verdict|stored run"
    head = "".join(f"<th>{name}</th>" for name in heads.split("|"))
    look_up = cache(lambda id, table: tuple(references(id, table)))
    body = "".join(_number_line(line, look_up) for line in lines(ledger))
    script = files("ebmtut.ledger").joinpath("every.js").read_text("utf-8")
    # In a box that a keyboard reaches, since it scrolls where the window is narrow.
    return (
        f'{STYLE}<div class="ledger"><div class="finder"></div>'
        f'<p class="muted" aria-live="polite"></p>{_box("Every number")}'
        f'<table class="every"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"</table></div></div><script>{script}</script>"
    )


def _number_line(line: Line, references: References) -> str:
    id, scale, verdict = line.fact.id, line.scale, line.verdict
    baseline, exact = _around(line, references)
    word = line.word
    shown = _SHOWN.get(word, word)
    run = ""
    if scale is not None:
        smaller = ", smaller" if line.superseded else ""
        run = f'<a href="{RESULTS}/{id}/{scale}">{scale}{smaller}</a>'
    if line.study:
        run = f'<a href="{STUDIES}/{line.study}/full">study, reduced scale</a>'
    why = verdict.reason if verdict and word == "not comparable" else ""
    also = f' title="{escape(why, quote=True)}"' if why else ""
    return (
        f'<tr data-k="{line.fact.paper}|{line.kind}|{word}"><th>{_place(line.fact)}'
        f"</th><td>{escape(line.name)}</td><td>{_ours(line)}</td>"
        f"<td>{_beside(line)}</td><td>{baseline}</td><td>{exact}</td>"
        f'<td class="{word.split()[0]}"{also}>{shown}</td><td>{run}</td></tr>'
    )


def _ours(line: Line, digits: int = 4) -> str:
    verdict = line.verdict
    if verdict is None:
        return ""
    if verdict.ours is None:
        return "not finite"
    seeds = f" ({verdict.n_seeds} seeds)" if (verdict.n_seeds or 1) > 1 else ""
    spread = "" if verdict.stderr is None else f" &plusmn; {verdict.stderr:.2g}"
    return f"{verdict.ours:.{digits}g}{spread}{seeds}"


def _beside(line: Line) -> str:
    if line.published is not None:
        spread = "" if line.spread is None else f" &plusmn; {line.spread:.4g}"
        return f"paper {_printed(line)}{spread}"
    if line.verdict is None or line.verdict.target is None:
        return ""
    return f"{line.verdict.rule} {line.verdict.target:.4g}"


def _printed(line: Line) -> str:
    """Return a published number with the decimals of the paper."""
    assert line.published is not None
    for table in line.fact.tables:
        if line.name.startswith(f"{table.name}: "):
            return f"{line.published:.{table.decimals}f}"
    return f"{line.published:g}"


def _around(line: Line, references: References) -> tuple[str, str]:
    """Return the baseline and the exact value of a line, where there are any."""
    found = {"null": "", "exact": ""}
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
    if line.verdict is not None and line.verdict.null is not None:
        found["null"] = f"{line.verdict.null:.4g}"
    return found["null"], found["exact"]


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
            f"{ref.label} is a row of kind {_KIND[ref.kind]}, {ref.size}: "
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


_KIND = {"null": "baseline", "exact": "exact"}


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
