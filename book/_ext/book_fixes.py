"""Small repairs of what reaches the pages: docstrings, scripts."""

import os
import re
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import GenericAlias
from typing import Annotated, Any, get_origin

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.ext import autosummary
from sphinx.util.parallel import ParallelTasks
from sphinx_codeautolink import extension as codeautolink

__all__ = [
    "fold_setup",
    "number_visible_figures",
    "plain_signs",
    "reachable",
    "result_first",
    "setup",
    "single_attributes",
]

_BACK_LINK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>')
# How autodoc writes the types that the code gives a name to.
_ALIASES = {
    "~collections.abc.Callable["
    "[~jaxtyping.Float[Tensor, 'batch n_sites']], "
    "~jaxtyping.Float[Tensor, 'batch']]": "EnergyFunction",
}
_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_LINK_IN_SUMMARY = re.compile(
    r"(<summary>Expand for references to )"
    r"<a [^>]*>(.*?)</a>(</summary>)"
)
_WIDGET = '<script type="application/vnd.jupyter.widget-view+json">'
_NO_WIDGET = (
    "<noscript><p>An interactive figure, which needs JavaScript, "
    "stands here.</p></noscript>"
)
_EMPTY_HEAD = re.compile(r"<th([^>]*)>(\s*)</th>")
_LINES = re.MULTILINE | re.DOTALL
_LISTING = re.compile(
    r'<div class="(?:doctest )?highlight-[\w-]+ notranslate">'
    r'<div class="highlight"><pre>.*?</pre></div>\s*</div>',
    re.DOTALL,
)
_link_html = codeautolink.link_html
_KEPT = re.compile(r"(``.+?``|`[^`]+`)")  # literals and roles


def plain_signs(lines: list[str]) -> list[str]:
    """Make stars and bars mean themselves in a docstring.

    Docstrings here are plain text with literals and roles, where |v| is
    an absolute value and (*shape, n) a shape, not a substitution and an
    emphasis.

    Parameters
    ----------
    lines
        A docstring.

    Returns
    -------
    list of str
        The same with stars and bars escaped, but in literals and code.
    """
    result = []
    code_below: int | None = (
        None  # indentation of the line that announced code
    )
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if (
            code_below is not None
            and line.strip()
            and indent <= code_below
        ):
            code_below = None
        is_code = code_below is not None or line.lstrip().startswith(
            (">>>", "...")
        )
        if is_code:
            result.append(line)
        else:
            parts = _KEPT.split(line)
            parts[::2] = [
                re.sub(r"(?<!\\)([*|])", r"\\\1", part)
                for part in parts[::2]
            ]
            result.append("".join(parts))
            if line.rstrip().endswith("::"):
                code_below = indent
    return result


def single_attributes(lines: list[str]) -> list[str]:
    """Give each attribute its own entry: napoleon reads no shared ones.

    Parameters
    ----------
    lines
        A docstring.

    Returns
    -------
    lines
        The same with the entry ``a, b`` of a section of attributes
        written out for ``a`` and for ``b``.
    """
    text = "\n".join(lines)
    section = re.search(
        r"(?<=^Attributes\n-{10}\n).*?(?=^\S[^\n]*\n-{3,}$|\Z)",
        text,
        _LINES,
    )
    if section is None:
        return lines
    entries = re.sub(
        r"^(\w+(?:, \w+)+)\n((?:    .*\n?|\n(?=    ))*)",
        lambda entry: "".join(
            f"{name}\n{entry[2].rstrip()}\n"
            for name in entry[1].split(", ")
        ),
        section[0],
        flags=re.MULTILINE,
    )
    return (
        text[: section.start()] + entries + text[section.end() :]
    ).split("\n")


def _repair_docstring(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    lines: list[str],
) -> None:
    lines[:] = single_attributes(plain_signs(lines))


def _name_aliases(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Call a long type by the name that the package gives it."""
    for text, alias in _ALIASES.items():
        signature = signature and signature.replace(text, alias)
        returns = returns and returns.replace(text, alias)
    return signature, returns


def _repair_types(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    lines: list[str],
) -> None:
    """Let the star of a shape mean itself where napoleon puts types."""
    lines[:] = [
        plain_signs([line])[0] if line.startswith(":vartype") else line
        for line in lines
    ]


def _alias_at_home(app: Sphinx, module: str, name: str) -> str | None:
    """List an alias where it is named: a tuple[str] is no builtin."""
    value = getattr(import_module(module), name, None)
    is_alias = isinstance(value, GenericAlias)
    return (
        module if is_alias or get_origin(value) is Annotated else None
    )


def _is_thebe(item: Any) -> bool:
    """Whether a script or style is thebe's, by its name or text."""
    body = getattr(item, "attributes", {}).get("body") or ""
    return (
        "thebe" in str(getattr(item, "filename", item))
        or "thebe" in body
    )


def _drop_thebe(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Leave out live code: it asks a CDN, and comes twice, an error."""
    for kind in ("script_files", "css_files"):
        context[kind] = [
            item
            for item in context.get(kind, [])
            if not _is_thebe(item)
        ]


def _drop_back_links(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Leave out links from a listing back to the reference.

    viewcode sets it on every name of a module and guesses the anchor,
    which a name that is re-exported or not public does not have.
    """
    if page.startswith("_modules/"):
        context["body"] = _BACK_LINK.sub("", context["body"])


def fold_setup(doctree: nodes.document) -> None:
    """Fold what a notebook sets up into one line.

    The cell of parameters and the hidden cells right before and
    after it, imports and checks without output, become one toggle.

    Parameters
    ----------
    doctree
        Of a notebook, as it was read; changed in place.
    """

    def is_part(node: Any) -> bool:
        kinds = ("tag_parameters", "tag_hide-input")
        return (
            isinstance(node, nodes.container)
            and any(kind in node["classes"] for kind in kinds)
            and len(node.children) == 1  # no output
        )

    for cell in list(doctree.findall(nodes.container)):
        if "tag_parameters" not in cell["classes"]:
            continue
        around = cell.parent.children
        first = last = around.index(cell)
        while first > 0 and is_part(around[first - 1]):
            first -= 1
        while last + 1 < len(around) and is_part(around[last + 1]):
            last += 1
        whole, *others = around[first : last + 1]
        for other in others:
            other.parent.remove(other)
            whole.extend(other.children)
        whole["hide_mode"] = "all"
        whole["prompt_show"] = "Imports and parameters of this page"
        whole["prompt_hide"] = "Fold imports and parameters"


def reachable(body: str) -> str:
    """Tell a screen reader of a page only what is so.

    Where scripts are off, a widget's place says what belongs there.
    A list of parameters within a signature has no terms to describe,
    a summary that unfolds is no place for a link, a cell without text
    is no head of a table, and the roles that
    docutils gives to a bibliography are deprecated.

    Parameters
    ----------
    body
        HTML of a page.
    """

    def signature(match: re.Match[str]) -> str:
        text = match.group().replace("<dl>", '<dl role="presentation">')
        return text.replace("<dd>", '<dd role="presentation">')

    body = _SIGNATURE.sub(signature, body)
    body = _EMPTY_HEAD.sub(r"<td\1>\2</td>", body)
    body = _LINK_IN_SUMMARY.sub(r"\1\2\3", body)
    body = body.replace(_WIDGET, _NO_WIDGET + _WIDGET)
    body = body.replace(' role="doc-biblioentry"', "")
    return body.replace(
        '<div role="list" class="citation-list">',
        '<div class="citation-list">',
    )


def _make_reachable(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    if "body" in context:
        context["body"] = reachable(context["body"])


def _fold_setup(app: Sphinx, doctree: nodes.document) -> None:
    fold_setup(doctree)


def result_first(
    app: Sphinx, doctree: nodes.document, page: str
) -> None:
    """Show what a hidden cell made, and below it the fold of its code.

    Parameters
    ----------
    app
        Unused; Sphinx passes it.
    doctree
        Of a page, with hidden inputs already wrapped; changed in place.
    page
        Unused; Sphinx passes it.
    """
    for cell in doctree.findall(nodes.container):
        match cell.children:
            case [HideCodeCellNode() as code, output] if (
                cell.get("hide_mode") == "input"
            ):
                made = output.pformat()
                kind = (
                    "widget"
                    if "widget-view" in made
                    else "figure"
                    if any(output.findall(nodes.image))
                    else "table"
                    if "<table" in made
                    else "output"
                )
                if code["prompt_show"] == "Show code cell source":
                    code["prompt_show"] = f"Code of this {kind}"
                    code["prompt_hide"] = "Hide the code"
                code["classes"].append("below-result")
                cell.children = [output, code]


def _link_pictures(
    app: Sphinx, doctree: nodes.document, page: str
) -> None:
    """Let a figure of a notebook open at its full size, for phones.

    Sphinx links pictures that it shows at another size than their own.
    """
    for picture in doctree.findall(nodes.image):
        if isinstance(picture.parent, nodes.figure):
            picture.setdefault("width", "auto")


def _box_untitled_sections(
    app: Sphinx, doctree: nodes.document
) -> None:
    """Make boxes of sections without a title.

    sphinx-exercise wraps an exercise into one, and sphinx-codeautolink
    counts sections by their titles.
    """
    for node in list(doctree.findall(nodes.section)):
        if not any(isinstance(c, nodes.title) for c in node.children):
            box = nodes.container("", *node.children, **node.attributes)
            node.replace_self(box)


def _note_folded_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Remember which figures of a page are folded."""
    folds = {"dropdown", "tag_hide-cell", "tag_hide-output"}
    folded = [
        name
        for box in doctree.findall(nodes.Element)
        if folds & set(box.get("classes", ()))
        for figure in box.findall(nodes.figure)
        for name in figure["ids"]
    ]
    app.env.metadata[app.env.docname]["folded_figures"] = folded


def number_visible_figures(
    numbers: dict[str, dict[str, tuple[int | str, ...]]],
    folded: dict[str, list[str]],
) -> None:
    """Count visible figures without gaps; a folded one gets a letter.

    A folded figure behind Figure 2.3 becomes Figure 2.3a. A page
    outside chapters counts from 1.

    Parameters
    ----------
    numbers
        For each page, the number of each figure; changed in place.
    folded
        For each page, the figures that a reader has to unfold.
    """
    everything = sorted(
        (number, page, name)
        for page, figures in numbers.items()
        for name, number in figures.items()
    )
    visible: dict[tuple[int | str, ...], int] = {}  # by chapter or page
    behind: dict[tuple[int | str, ...], int] = {}
    given: dict[tuple[int | str, ...], tuple[int | str, ...]] = {}
    for number, page, name in everything:
        chapter = number[:-1] or (page,)
        # A figure with two labels has one number.
        if number not in given:
            if name in folded.get(page, ()):
                letter = chr(ord("a") + behind.get(chapter, 0))
                behind[chapter] = behind.get(chapter, 0) + 1
                last = f"{visible.get(chapter, 0)}{letter}"
                given[number] = (*number[:-1], last)
            else:
                visible[chapter] = visible.get(chapter, 0) + 1
                behind[chapter] = 0
                given[number] = (*number[:-1], visible[chapter])
        numbers[page][name] = given[number]


def _number_figures(app: Sphinx, env: Any) -> None:
    folded = {
        page: list(about.get("folded_figures", ()))
        for page, about in env.metadata.items()
    }
    # Equations and exercises are counted like figures.
    pages = env.toc_fignumbers
    for kind in {kind for kinds in pages.values() for kind in kinds}:
        numbers = {
            page: kinds[kind]
            for page, kinds in pages.items()
            if kind in kinds
        }
        number_visible_figures(
            numbers, folded if kind == "figure" else {}
        )


def _link_listings(
    document: str, out_dir: str, *args: Any, **options: Any
) -> None:
    """Let sphinx-codeautolink parse the listings of a page only.

    It parses whole pages, twelve times, which took a quarter of the
    time of a build.
    """
    page = Path(out_dir) / f"{document}.html"
    text = page.read_text("utf-8")
    mark = "\n<!-- next listing -->\n"
    with TemporaryDirectory() as folder:
        part = Path(folder) / f"{document}.html"
        part.parent.mkdir(parents=True)
        part.write_text(mark.join(_LISTING.findall(text)), "utf-8")
        _link_html(document, folder, *args, **options)
        linked: Iterator[str] = iter(
            part.read_text("utf-8").split(mark)
        )
    page.write_text(_LISTING.sub(lambda _: next(linked), text), "utf-8")


def _link_on_all_cores(app: Sphinx) -> None:
    """Let sphinx-codeautolink link several pages at the same time.

    One after another they took a sixth of the time of a build.
    """
    tasks = ParallelTasks(app.parallel)

    def link(*args: Any, **options: Any) -> None:
        tasks.add_task(partial(_link_listings, *args, **options))

    def wait(app: Sphinx, exception: Exception | None) -> None:
        tasks.join()

    codeautolink.link_html = (
        link if app.parallel > 1 else _link_listings
    )
    app.connect("build-finished", wait, priority=900)


def _use_all_cores(app: Sphinx) -> None:
    """Read and write pages in several processes.

    Jupyter Book has no option for it. Its extensions that do not say
    whether they allow it keep nothing between pages.
    """
    app.parallel = os.cpu_count() or 1
    for extension in app.extensions.values():
        if extension.parallel_read_safe is None:
            extension.parallel_read_safe = True


def _drop_unused_listings(app: Sphinx, env: Any) -> None:
    """Leave out listings that nothing links to."""
    modules = getattr(env, "_viewcode_modules", {})
    for name, entry in list(modules.items()):
        if entry and not entry[2]:
            del modules[name]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx: before napoleon, and after the theme."""
    # A summary is a first sentence, which "Eq. 2" does not end.
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.",)
    app.connect(
        "autodoc-process-docstring", _repair_docstring, priority=100
    )
    app.connect("builder-inited", _use_all_cores)
    app.connect("builder-inited", _link_on_all_cores, priority=900)
    app.connect("autodoc-process-signature", _name_aliases)
    app.connect(
        "autodoc-process-docstring", _repair_types, priority=900
    )
    app.connect("viewcode-follow-imported", _alias_at_home)
    app.connect("doctree-read", _box_untitled_sections, priority=100)
    app.connect("doctree-read", _fold_setup)
    app.connect("doctree-read", _note_folded_figures)
    app.connect("env-check-consistency", _number_figures)
    app.connect("env-check-consistency", _drop_unused_listings)
    app.connect("doctree-resolved", _link_pictures)
    app.connect("doctree-resolved", result_first)
    app.connect("html-page-context", _drop_thebe, priority=900)
    app.connect("html-page-context", _drop_back_links)
    app.connect("html-page-context", _make_reachable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
