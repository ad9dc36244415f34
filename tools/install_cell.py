"""Give every notebook a first code cell that installs the package where it is missing.

On Colab a notebook arrives alone. The cell then clones the repository, which holds the
package, the stored results and the other pages' files, and installs it. Elsewhere the
cell does nothing. The book's pages do not show it. The repository and its branch are
those of ``_config.yml``, from which the launch buttons take them as well.

    python -m tools.install_cell    # insert or renew the cell in every notebook
"""

from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.paths import ROOT, book_notebooks

#: Tag of the cell.
INSTALL = "install"

TEMPLATE = """\
# Install the package where it is missing, for example on Colab.
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("ebmtut") is None:
    print("Installing ebmtut. This takes a few minutes, once.")
    url = "{url}"
    clone = ["git", "clone", "-q", "--depth=1", "-b", "{branch}", url]
    subprocess.run([*clone, "ebmtut-book"], check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "-e"]
    extras = "ebmtut-book[book,transport,graphs]"
    subprocess.run([*pip, extras], check=True)
    sys.path.insert(0, str(Path("ebmtut-book/src").resolve()))"""


def install_source(root: Path = ROOT) -> str:
    """Return the code of the cell, for the repository that ``_config.yml`` names."""
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    repository = config["repository"]
    return TEMPLATE.format(url=repository["url"], branch=repository["branch"])


def lacks_cell(notebook: NotebookNode, source: str) -> bool:
    """Whether the first code cell of a notebook is not this one."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return not code or code[0].source != source


def insert(notebook: NotebookNode, source: str) -> None:
    """Put the cell before the other code cells, in place of an older one.

    The other cells keep their outputs; their execution counts make room.
    """
    cells = [
        cell for cell in notebook.cells if INSTALL not in cell.metadata.get("tags", ())
    ]
    first = next(k for k, cell in enumerate(cells) if cell.cell_type == "code")
    cell = new_code_cell(
        source, id="install", metadata={"tags": ["remove-cell", INSTALL]}
    )
    cells.insert(first, cell)
    notebook.cells = cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output["execution_count"] = count


def main() -> None:
    """Insert or renew the cell in every notebook that lacks it."""
    source = install_source()
    for path in book_notebooks():
        notebook = nbformat.read(path, as_version=4)
        if lacks_cell(notebook, source):
            print(path.relative_to(ROOT))
            insert(notebook, source)
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
