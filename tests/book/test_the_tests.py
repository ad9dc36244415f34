"""The checks of the book catch what they are for, shown on a tiny book."""

import copy
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.book.test_built_book import dead_links
from tools import contract
from tools.compare import compare_notebooks, is_fresh
from tools.execute import ExecutionError, Run, execute_all, run_all
from tools.pages import PHONE, serve, visitor
from tools.paths import ROOT
from tools.render import RenderError, build, missing_pages

TOC = "format: jb-book\nroot: book/index\nchapters:\n- file: book/toy\n"

FRONT = """(front)=
# A tiny book

It has $a^2 + b^2$, a [way to the other page](toy.ipynb), an anchor [here](front),
and a picture in the other page.
"""

PARAMETERS = """scale: str = "quick"
seed: int = 0
device: str = "auto"
results_dir: str = \"\""""

CHECK = """class InputError(ValueError):
    pass

if scale not in ("quick", "full", "paper"):
    raise InputError(f"scale is {scale!r}, not quick, full, paper")"""

NUMBERS = """print(f"energy {0.1234 + seed:.4f} in 0.12 s")"""

PICTURE = """import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(3, 2))
ax.plot([0, 1], [0, 1])
plt.show()"""

WIDGET = """import io
import ipywidgets as widgets

def picture(height):
    fig, ax = plt.subplots(figsize=(3, 2))
    ax.bar([0], [height])
    ax.set_ylim(0, 3)
    file = io.BytesIO()
    fig.savefig(file)
    plt.close(fig)
    return widgets.Image(value=file.getvalue())

pages = widgets.Stack([picture(k) for k in (1, 2, 3)])
pages.selected_index = 0
slider = widgets.IntSlider(max=2)
widgets.jslink((slider, "value"), (pages, "selected_index"))
widgets.VBox([slider, pages])"""

FIGURE = {
    "image": {"alt": "A straight line from the origin to one, one."},
    "figure": {"name": "fig-line", "caption": "The line rises."},
}


@dataclass
class TinyBook:
    """A healthy book, built: its sources, its notebook as stored, its HTML."""

    root: Path
    stored: NotebookNode
    html: Path


def toy_notebook():
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# Toy\n\nIt leads [back](front)."),
            new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
            new_code_cell(CHECK),
            new_code_cell(NUMBERS),
            new_code_cell(PICTURE, metadata={"mystnb": FIGURE}),
            new_code_cell(WIDGET, metadata={"tags": ["nbval-ignore-output"]}),
        ]
    )
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata.kernelspec = kernel
    return notebook


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, worker_id):
    """Return a book with the real configuration, made once for all processes."""
    base = tmp_path_factory.getbasetemp()
    root = (base if worker_id == "master" else base.parent) / "tiny"
    html = root.with_name("tiny-html")
    with FileLock(root.with_suffix(".lock")):
        if not html.is_dir():
            make_tiny(root, html)
    stored = nbformat.read(root / "book" / "toy.ipynb", as_version=4)
    stored.metadata.pop("papermill")
    return TinyBook(root, stored, html)


def make_tiny(root, html):
    root.mkdir()
    shutil.copy(ROOT / "_config.yml", root)
    for name in ("_static", "_ext"):
        shutil.copytree(ROOT / "book" / name, root / "book" / name)
    shutil.copy(ROOT / "book" / "references.bib", root / "book")
    (root / "_toc.yml").write_text(TOC)
    (root / "book" / "index.md").write_text(FRONT)
    toy = root / "book" / "toy.ipynb"
    nbformat.write(toy_notebook(), toy)
    (executed,) = execute_all(out_dir=root / "executed", root=root)
    shutil.copy(executed, toy)
    shutil.rmtree(root / "executed")
    build(root, html)


@pytest.fixture
def notebook(tiny):
    return copy.deepcopy(tiny.stored)


@pytest.fixture
def html(tiny, tmp_path):
    """Return the built book again, in hard links, to be spoilt file by file."""
    return shutil.copytree(tiny.html, tmp_path / "html", copy_function=os.link)


@pytest.fixture
def sources(tiny, tmp_path):
    ignore = shutil.ignore_patterns("_build")
    return shutil.copytree(tiny.root, tmp_path / "sources", ignore=ignore)


@pytest.fixture(scope="module")
def desk(browser):
    with visitor(browser) as visit:
        yield visit


def spoil(html, mark, instead, page="toy.html"):
    file = html / "book" / page
    text = file.read_text("utf-8")
    assert mark in text
    file.unlink()
    file.write_text(text.replace(mark, instead, 1), "utf-8")


def test_healthy_notebook_passes(tiny):
    assert contract.violations(tiny.stored) == []
    assert compare_notebooks(tiny.stored, tiny.stored) == []


@pytest.mark.browser
def test_healthy_pages_pass(tiny, desk):
    """Over http and from a file."""
    assert dead_links(tiny.html) == []
    assert missing_pages(tiny.root, tiny.html) == []
    with serve(tiny.html) as address:
        for where in (address, tiny.html.as_uri()):
            desk.open(f"{where}/book/index.html")
            assert desk.wrong() == []
            desk.open(f"{where}/book/toy.html")
            assert desk.wrong() == []
            assert desk.page.locator(".widget-subarea .jupyter-widgets").count()
            assert desk.dead_sliders() == []
            assert desk.wrong() == []


def test_tampered_number_is_caught(tiny, notebook):
    output = notebook.cells[3].outputs[0]
    output.text = output.text.replace("0.1234", "0.1235")
    (difference,) = compare_notebooks(notebook, tiny.stored)
    assert "0.1234" in difference
    assert "0.1235" in difference


@pytest.mark.parametrize("spoilt", ["missing", "added", "code"])
def test_other_outputs_or_code_are_caught(tiny, notebook, spoilt):
    cell = notebook.cells[3]
    if spoilt == "missing":
        cell.outputs = []
    elif spoilt == "added":
        cell.outputs.append(new_output("display_data", {"text/plain": "1.0"}))
    else:
        cell.source += "  # since changed"
    assert compare_notebooks(notebook, tiny.stored)


def test_outdated_copy_is_caught(tmp_path):
    """The package may have changed since a notebook was executed."""
    made, module = tmp_path / "made.ipynb", tmp_path / "src" / "module.py"
    module.parent.mkdir()
    module.touch()
    assert not is_fresh(made, module.parent)
    made.touch()
    os.utime(module, (1, 1))
    assert is_fresh(made, module.parent, module)
    os.utime(made, (0, 0))
    assert not is_fresh(made, module.parent)


#: What spoils a notebook, and the rule that it breaks.
SPOILERS = (
    ("cells[1].metadata.tags = []", "one_parameters_cell"),
    ("cells[3].update(execution_count=None, outputs=[])", "run_in_order"),
    ("cells[3].outputs = [new_output('error', ename='E', evalue='no')]", "no_errors"),
    ("cells[3].source += '\\nx = 1' * contract.MOST_CODE_LINES", "short_code"),
    ("cells[3].source += '  #' + contract.WIDEST_CODE_LINE * '-'", "short_code"),
    ("del cells[4].metadata.mystnb['image']", "figures_described"),
    ("del cells[4].metadata.mystnb['figure']", "figures_described"),
    ("cells[3].metadata['ebmtut'] = {'tolerance': 1e6}", "small_tolerances"),
    ("metadata.kernelspec.name = 'my-venv'", "plain_kernel"),
    (
        "metadata.widgets['more'] = 'x' * contract.MOST_BYTES_OF_WIDGETS",
        "widgets_that_last",
    ),
    (
        "cells[5].source += '\\nwidgets.interact(picture, height=3)'",
        "widgets_that_last",
    ),
)


@pytest.mark.parametrize(("spoil", "rule"), SPOILERS)
def test_broken_contract_is_caught(notebook, spoil, rule):
    exec(spoil, globals() | dict(notebook))
    caught = contract.violations(notebook)
    assert caught
    assert all(what.startswith(f"{rule}: ") for what in caught)


def test_every_rule_has_its_counterexample():
    assert {rule for _, rule in SPOILERS} == set(contract.RULES)


def test_long_code_is_advised_against_before_it_is_refused(notebook):
    assert contract.advice(notebook) == []
    notebook.cells[3].source += "\nx = 1" * contract.MANY_CODE_LINES
    assert len(contract.advice(notebook)) == 1
    assert contract.violations(notebook) == []
    notebook.cells[3].source += "\nx = 1" * contract.MOST_CODE_LINES
    assert contract.advice(notebook) == []
    assert contract.violations(notebook)


def test_broken_parameter_is_caught(tiny, tmp_path):
    with pytest.raises(ExecutionError, match=r"InputError.*'huge'"):
        toy = tiny.root / "book" / "toy.ipynb"
        run_all([Run(toy, tmp_path / "toy.ipynb", {"scale": "huge"})])


def test_dead_references_and_missing_pages_are_caught(sources):
    """One build with several, to save time: each must be named."""
    (sources / "_toc.yml").write_text(TOC + "- file: book/nowhere-7\n")
    front = sources / "book" / "index.md"
    front.write_text(
        FRONT + "See {ref}`nowhere-1`, [this](nowhere-2), {eq}`nowhere-3`, "
        "{cite}`nowhere-4`, {py:func}`ebmtut.nowhere_5`, ![x](nowhere-6.png).\n"
    )
    with pytest.raises(RenderError) as caught:
        build(sources, sources / "html")
    text = str(caught.value)
    missed = [k for k in range(1, 8) if not re.search(f"nowhere[-_]{k}", text)]
    assert not missed


@pytest.mark.parametrize(
    "broken",
    [
        '<a href="gone.html">x</a>',
        '<a href="index.html#gone">x</a>',
        '<a href="#gone">x</a>',
        '<img src="../_images/gone.png">',
        '<script src="../_static/gone.js"></script>',
    ],
)
def test_dead_link_is_caught(html, broken):
    spoil(html, "</article>", broken + "</article>")
    (dead,) = dead_links(html)
    assert "gone" in dead


#: What breaks a page, and what is said of it.
BROKEN = {
    "<script>throw new Error('oops')</script>": "script error: oops",
    "<script>Promise.reject(new Error('late'))</script>": "script error: late",
    "<script>console.error('oh')</script>": "console: oh",
    "<img src='https://example.org/a.png'>": "outside: https://example.org/a.png",
    "<script>fetch('https://example.org/b').catch(() => 0)</script>": "example.org/b",
    "<script>new WebSocket('wss://example.org')</script>": "outside: wss",
    "<img src='gone.png'>": "picture not loaded: http://127",
    r"<p class='mathjax_ignore'>\(a^2\)</p>": r"raw formula: \(a^2",
    r"<p class='math'>\(\frac{\)</p>": r"formula not typeset: \(\frac",
    "<p style='width: 2000px'>wide</p>": "px wide",
}


@pytest.mark.browser
def test_broken_page_is_caught(html, browser):
    """One page with all of it, to save time: each must be named."""
    spoil(html, "</article>", "".join(BROKEN) + "</article>", "index.html")
    with serve(html) as address, visitor(browser, PHONE) as phone:
        phone.open(f"{address}/book/index.html")
        wrong = phone.wrong()
    missed = [w for w in BROKEN.values() if not any(w in line for line in wrong)]
    assert not missed, wrong


@pytest.mark.browser
def test_widget_that_is_not_drawn_is_caught(html, desk, monkeypatch):
    (html / "_static" / "vendor" / "html-manager" / "embed-amd.js").unlink()
    monkeypatch.setattr(desk, "patience", 3.0)
    with serve(html) as address:
        desk.open(f"{address}/book/toy.html")
        assert "widgets not drawn after 3 s" in desk.wrong()


@pytest.mark.browser
def test_dead_slider_is_caught(html, desk):
    """Without the link between slider and pages, the slider moves and nothing else."""
    spoil(html, '"LinkModel"', '"DirectionalLinkModel"')
    spoil(html, '"source":', '"nothing":')
    with serve(html) as address:
        desk.open(f"{address}/book/toy.html")
        desk.wait_for_widgets()
        dead = desk.dead_sliders()
    assert len(dead) == 2, dead
