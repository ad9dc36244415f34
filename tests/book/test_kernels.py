"""A kernel that is forked is to a notebook what any other is."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import kernels
from tools.execute import Run, run_notebook

CELLS = (
    """import os
sorted(os.environ), os.getcwd(), __name__""",
    """[name for name in ("np", "plt", "torch", "ebmtut") if name in globals()]""",
    """import matplotlib.pyplot as plt
plt.plot([0, 1])
plt.get_backend()""",
    """import torch
torch.manual_seed(0)
torch.rand(3), torch.get_num_threads()""",
)


@pytest.mark.skipif(not kernels.can_fork(), reason="needs a system that can fork")
def test_a_forked_kernel_answers_as_another_does(tmp_path, monkeypatch):
    """Its environment, its folder, what is there at the beginning, what it draws."""
    source = tmp_path / "page.ipynb"
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, source)
    outputs = []
    for forks in (True, False):
        monkeypatch.setattr(kernels, "can_fork", lambda forks=forks: forks)
        with kernels.forked_kernels():
            run_notebook(Run(source, tmp_path / f"{forks}.ipynb"))
        done = nbformat.read(tmp_path / f"{forks}.ipynb", as_version=4)
        outputs.append([cell.outputs for cell in done.cells])
    assert outputs[0] == outputs[1]
    shown = outputs[0][2]
    assert any("image/png" in output.get("data", {}) for output in shown)
