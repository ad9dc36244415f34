"""GPU kernels run on a GPU, or on the CPU by Triton's interpreter: the same tests.

Which of both is settled once a process, when Triton is imported: without a GPU
(see the conftest above), or with TRITON_INTERPRET=1, it is the interpreter.
"""

import os
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
import torch

if find_spec("triton") is None:  # there is none for this system
    collect_ignore_glob = ["test_*.py"]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


PLACES = [
    pytest.param("cpu", id="interpreter"),
    pytest.param("cuda", marks=pytest.mark.cuda),
]


@pytest.fixture(params=PLACES)
def device(request):
    """Where kernels run; tensors made there are for them."""
    if (request.param == "cpu") != INTERPRETED:
        pytest.skip(f"kernels are {'interpreted' if INTERPRETED else 'compiled'}")
    return torch.device(request.param)


@pytest.fixture
def by_kernel(monkeypatch):
    """Send an operation to its kernel wherever its tensors lie."""

    def send(*modules):
        for module in map(import_module, modules):
            monkeypatch.setattr(module, "runs_triton", lambda x: True)

    return send


@pytest.fixture
def any_order(monkeypatch):
    """Let the interpreter run the programs of each launch in another, random order."""
    if not INTERPRETED:
        return
    from triton.runtime.interpreter import InterpreterBuilder

    random = np.random.default_rng(0)
    set_dim, set_idx = InterpreterBuilder.set_grid_dim, InterpreterBuilder.set_grid_idx

    def launched(builder, *grid):
        set_dim(builder, *grid)
        builder.order = random.permutation(np.prod(grid, dtype=int))

    def begun(builder, *program):
        flat = np.ravel_multi_index(program, builder.grid_dim)
        at = np.unravel_index(builder.order[flat], builder.grid_dim)
        set_idx(builder, *map(int, at))

    monkeypatch.setattr(InterpreterBuilder, "set_grid_dim", launched)
    monkeypatch.setattr(InterpreterBuilder, "set_grid_idx", begun)
