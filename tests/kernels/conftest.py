"""GPU kernels run on a GPU, or on the CPU by Triton's interpreter: the same tests.

Which of both is settled once a process, when Triton is imported: without a GPU
(see the conftest above), or with TRITON_INTERPRET=1, it is the interpreter.
"""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

if find_spec("triton") is None:  # there is none for this system
    collect_ignore_glob = ["test_*.py"]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture(
    params=[
        pytest.param(
            "cpu",
            id="interpreter",
            marks=pytest.mark.skipif(not INTERPRETED, reason="kernels are compiled"),
        ),
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.cuda,
                pytest.mark.skipif(INTERPRETED, reason="needs a CUDA device"),
            ],
        ),
    ]
)
def device(request):
    """Where kernels run; tensors made there are for them."""
    return torch.device(request.param)


@pytest.fixture
def by_kernel(monkeypatch):
    """Send an operation to its kernel wherever its tensors lie."""

    def send(*modules):
        for module in map(import_module, modules):
            monkeypatch.setattr(module, "runs_triton", lambda x: True)

    return send
