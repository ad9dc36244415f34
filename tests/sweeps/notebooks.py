"""A small notebook to sweep, without torch, so that a run takes a second or two."""

import nbformat

PARAMETERS = """\
seed: int = 0  # of the noise
scale: str = "quick"  # quick | full
eps: float = 0.1  # strength
n_steps: int = 2  # of nothing
careful: bool = False
results_dir: str = ""  # folder for the numbers
"""
WORK = """\
import os, pathlib, signal, time
from ebmtut.results import record
if eps == 0.5:
    raise ValueError("eps is too dear")
if eps == 0.6:
    os.kill(os.getpid(), signal.SIGKILL)
if eps == 0.7:
    time.sleep(600)
log = pathlib.Path("log")
log.mkdir(exist_ok=True)
with (log / f"{eps}-{seed}-{n_steps}").open("a") as file:
    file.write("ran\\n")
"""
RECORD = """\
found = {"loss": eps * n_steps + 0.01 * seed, "table": {"ED": [1.0, float(seed)]}}
record("found", found, results_dir)
"""


def write_notebook(path, parameters=PARAMETERS, work=WORK, last=RECORD):
    cells = [nbformat.v4.new_markdown_cell("# A page")]
    for source in (parameters, work, last):
        cells.append(nbformat.v4.new_code_cell(source))
    cells[1].metadata["tags"] = ["parameters"]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, path)
    return path
