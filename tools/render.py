"""Render executed notebooks and the book's other pages to HTML.

The renderer executes nothing: it works on a staged copy of the book in which every
notebook has been replaced by its executed copy, and to which the API pages and the
table of the floors have been added. A warning is an error, and so are a
page of the table of contents that did not come out and an empty output folder.

    python -m tools.render                     # _build/executed -> _build/html
    python -m tools.render --stored            # the notebooks as they are stored
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from click import unstyle
from sphinx_external_toc.parsing import parse_toc_yaml

from tools.api_pages import write_pages
from tools.architecture import floors_table
from tools.paths import EXECUTED, HTML, ROOT, book_notebooks
from tools.widget_states import add_stills, restore_widgets, widgets_without_state

SMALLEST_PAGE = 2000  # bytes; less than this is an empty shell


class RenderError(RuntimeError):
    """The book was not rendered, or not without warnings."""


def render(executed_dir: Path = EXECUTED, out_dir: Path = HTML) -> Path:
    """Render the book from executed notebooks."""
    staged = out_dir.parent / "staged"
    stage(executed_dir, staged)
    return build(staged, out_dir)


def stage(executed_dir: Path, staged: Path, root: Path = ROOT) -> Path:
    """Copy the book with executed notebooks in place of the stored ones."""
    shutil.rmtree(staged, ignore_errors=True)
    skip = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__", ".tmp*")
    staged.mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy2(root / name, staged / name)
    for name in ("book", "src", "results"):
        if (root / name).is_dir():
            shutil.copytree(root / name, staged / name, ignore=skip)
    for notebook in book_notebooks(root):
        relative = notebook.relative_to(root)
        executed = executed_dir / relative
        if not executed.is_file():
            raise RenderError(f"{relative} has no executed copy in {executed_dir}")
        content = nbformat.read(executed, as_version=4)
        restore_widgets(content)
        if missing := widgets_without_state(content):
            print(
                f"{relative}: {missing} widgets will be missing, as their state is not "
                f"stored; make notebooks NOTEBOOKS={relative} stores it",
                file=sys.stderr,
            )
        add_stills(content)
        nbformat.write(content, staged / relative)
    write_pages(staged / "book" / "api")
    drawn = staged / "book" / "_drawn"
    drawn.mkdir(exist_ok=True)
    (drawn / "floors.txt").write_text(floors_table(), "utf-8")
    return staged


def build(staged: Path, out_dir: Path) -> Path:
    """Run Jupyter Book on a staged tree, warnings being errors."""
    tool = Path(sys.executable).with_name("jupyter-book")
    command = [str(tool), "build", str(staged)]
    command += ["-W", "-n", "--keep-going", "--all"]
    done = subprocess.run(command, capture_output=True, text=True)
    made = staged / "_build" / "html"
    shutil.rmtree(out_dir, ignore_errors=True)
    if made.is_dir():
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, out_dir)
    if done.returncode:
        raise RenderError("the book has warnings or errors:\n" + _complaints(done))
    if absent := missing_pages(staged, out_dir):
        raise RenderError("pages that did not come out: " + ", ".join(absent))
    return out_dir / "index.html"


def toc_pages(root: Path = ROOT) -> list[str]:
    """Documents of ``_toc.yml``, in order, without a suffix; those of patterns last."""
    site = parse_toc_yaml(root / "_toc.yml")
    found = [path for pattern in sorted(site.globs()) for path in root.glob(pattern)]
    names = (path.relative_to(root).with_suffix("").as_posix() for path in found)
    return [*site, *sorted(names)]


def missing_pages(root: Path, html: Path) -> list[str]:
    """Pages of the table of contents, and the front door, that are not in `html`."""
    wanted = {"index.html": 1}
    wanted |= {
        f"{Path(page).with_suffix('')}.html": SMALLEST_PAGE for page in toc_pages(root)
    }
    return [
        name
        for name, size in wanted.items()
        if not (html / name).is_file() or (html / name).stat().st_size < size
    ]


def _complaints(done: subprocess.CompletedProcess[str]) -> str:
    """Return the lines of a build's output that say what is wrong."""
    text = unstyle(done.stdout + "\n" + done.stderr)
    wrong = re.compile(r"WARNING|ERROR|CRITICAL|[Ee]xception|Error:")
    lines = [line for line in text.splitlines() if wrong.search(line)]
    return "\n".join(dict.fromkeys(lines)) or text[-4000:]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Render the executed book.")
    parser.add_argument(
        "--stored", action="store_true", help="render the outputs that are stored"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    try:
        index = render(ROOT if options.stored else EXECUTED)
    except RenderError as error:
        print(error, file=sys.stderr)
        return 1
    seconds = time.perf_counter() - started
    print(f"The book was rendered in {seconds:.0f} s. Open\n  {index.as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
