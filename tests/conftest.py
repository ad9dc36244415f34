"""What all tests share: one thread each, and calls that keep to the signatures."""

import gc
import os
from importlib.util import find_spec
from pathlib import Path

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook
from joblib import parallel_config

SOURCE = Path(__file__).parents[1] / "src"

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

if not torch.cuda.is_available():  # before anything imports Triton, which asks once
    os.environ["TRITON_INTERPRET"] = "1"


def modules():
    """Every module but those with functions to compile: they are taken bare."""
    for file in (SOURCE / "ebmtut").rglob("*.py"):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        text = file.read_text("utf-8")
        marks = ("@compiled", "@inlined", "@fused", "@reordered", "@triton.jit")
        compiled = any(mark in text for mark in marks)
        if file.stem != "__init__" and not compiled:
            yield name


if find_spec("beartype"):  # a Python that is there for its GPU may lack it
    from tests import signatures

    # The hook decorates each function by this name.
    jaxtyping.jaxtyped = signatures.once_per_kind(jaxtyping.jaxtyped)
    install_import_hook(
        list(modules()),
        f"{signatures.__name__}.{signatures.checked_when_done.__name__}",
    )


@pytest.fixture(autouse=True, scope="session")
def _in_this_process():
    """Compute jobs here, where signatures are held to, unless a test asks for more."""
    with parallel_config(n_jobs=1):
        yield


@pytest.fixture(autouse=True)
def _as_many_threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


gc.disable()  # until tests run: modules are no garbage, and take long to search


def pytest_collection_finish():
    """From here on collect garbage, but only what tests leave."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item):
    """Skip what is marked for a GPU where there is none."""
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture
def threads_for_little_work(monkeypatch):
    """Spread the work of compiled kernels over threads even if it is little."""
    monkeypatch.setattr("ebmtut._compiled._WORTHWHILE", 0)
