"""Machine code is that of today's sources, told of and spread over threads."""

import ast
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from ebmtut import _compiled
from ebmtut._compiled import in_threads
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing, PairwiseGraph
from ebmtut.message_passing import deconvolve, mplp
from ebmtut.random import make_generator
from ebmtut.samplers import boltzmann_gibbs, boltzmann_gwg, ising_gibbs


@pytest.fixture(autouse=True)
def three_threads():
    torch.set_num_threads(3)


@pytest.mark.parametrize(
    ("n_rows", "n_turns", "n_slices"),
    [(7, 10, 1), (7, 10**9, 3), (2, 10**9, 2), (1, 10**9, 1), (0, 0, 1)],
)
def test_every_row_is_done_once(n_rows, n_turns, n_slices):
    done = []
    in_threads(done.append, n_rows, n_turns)
    assert len(done) == n_slices
    assert sorted(i for part in done for i in range(n_rows)[part]) == [*range(n_rows)]


@pytest.fixture
def hears_interrupts():
    """Also where the tests were started in the background, which ignores them.

    Without the collector of garbage: Python drops what is raised in its callbacks.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


def interrupt_after(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_interrupt_ends_the_work_after_the_piece_at_hand(n_threads):
    torch.set_num_threads(n_threads)
    done = []

    def work(rows):
        time.sleep(0.05)
        done.append(rows)

    interrupt_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        in_threads(work, 2000, 2**45)
    n_done = len(done)
    assert n_done < 1000
    time.sleep(0.2)
    assert len(done) == n_done, "threads work on after the interrupt"


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.parametrize("n_chains", [1, 2000])
def test_an_interrupt_ends_compiled_chains(n_chains):
    """In CPU seconds, of which the whole work would take some fifty."""
    torch.set_num_threads(1)
    energy, x = Ising(torch.zeros(64, 64)), torch.zeros(n_chains, 64)
    ising_gibbs(energy, x[:1], 1, generator=make_generator(0))  # compiles
    started = time.process_time()
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        ising_gibbs(energy, x, 60_000_000 // n_chains, generator=make_generator(0))
    assert time.process_time() - started < 3


MATRIX = torch.randn(70, 70, generator=make_generator(0)) / 8
MATRIX = (MATRIX + MATRIX.T) * (1 - torch.eye(70))
EDGES = torch.stack([torch.arange(69), torch.arange(1, 70)])
BIAS = torch.randn(70, generator=make_generator(1))
GRAPH = PairwiseGraph(EDGES, torch.ones(69), BIAS)
LONG_CHAINS = {
    "dense": (ising_gibbs, Ising(MATRIX, BIAS), 5, 100),
    "lattice, packed chains": (ising_gibbs, LatticeIsing(8, 0.3), 200, 100),
    "lattice, packed rows": (ising_gibbs, LatticeIsing(8, 0.3), 1, 100),
    "gwg": (boltzmann_gwg, BoltzmannMachine(MATRIX, BIAS), 5, 10_000),
    "graph, by chains": (boltzmann_gibbs, GRAPH, 40, 100),
    "graph, by sites": (boltzmann_gibbs, GRAPH, 3, 100),
}


@pytest.mark.parametrize("name", LONG_CHAINS)
def test_portions_change_no_number(monkeypatch, name):
    sampler, model, n_chains, n_sweeps = LONG_CHAINS[name]
    x = torch.zeros(n_chains, model.n_sites)
    whole = sampler(model, x, n_sweeps, generator=make_generator(2))
    monkeypatch.setattr(_compiled, "_A_PIECE", 1)
    assert torch.equal(sampler(model, x, n_sweeps, generator=make_generator(2)), whole)


def test_portions_of_messages_change_no_number(monkeypatch):
    images = (torch.rand(3, 6, 6, generator=make_generator(0)) < 0.3).double()
    places = torch.randn(3, 2, 4, 4, generator=make_generator(1)).double()
    features = torch.randn(2, 3, 3, generator=make_generator(2)).double()
    unaries = torch.randn(5, 70, generator=make_generator(3))
    model = BoltzmannMachine(MATRIX, BIAS)

    def both():
        found = deconvolve(images, places, features, 7), mplp(model, unaries)
        return [value for one in found for value in vars(one).values()]

    whole = both()
    monkeypatch.setattr(_compiled, "_A_PIECE", 1)
    for one, other in zip(both(), whole, strict=True):
        assert torch.equal(one, other)


def run_without_torch(words, folder):
    """Run a program that compiles; torch takes seconds to import, and does not."""
    (folder / "torch.py").touch()
    known = {k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"}
    where = folder, Path(_compiled.__file__).parents[1]
    known["PYTHONPATH"] = os.pathsep.join(map(str, where))
    known["NUMBA_CACHE_DIR"] = str(folder / "cache")
    return subprocess.run(words, env=known, capture_output=True, text=True, check=True)


def test_machine_code_is_compiled_anew_after_a_change_in_another_file(tmp_path):
    """Values, and how often each was read from the disk: only while nothing changed."""
    package = tmp_path / "ebmtut"
    package.mkdir()
    for name in ("__init__", "_compiled", "_compilation", "_digests"):
        shutil.copy(Path(_compiled.__file__).parent / f"{name}.py", package)
    head = "from ebmtut._compiled import compiled\n"
    (package / "outer.py").write_text(
        f"{head}from ebmtut.inner import inner\n@compiled\n"
        "def outer(x):\n    return inner(x)\n"
    )
    call = (
        "from ebmtut.outer import outer as f; print(f(0), *f.stats.cache_hits.values())"
    )
    told = []
    for k in (1, 1, 20):  # Python itself sees no change of equal size in one second
        inner = f"{head}@compiled\ndef inner(x):\n    return x + {k}\n"
        (package / "inner.py").write_text(inner)
        words = [sys.executable, "-c", call]
        told.append(run_without_torch(words, tmp_path).stdout.split())
    assert told == [["1"], ["1", "1"], ["20"]]


def test_what_kernels_call_is_inlined_where_roundings_are_free():
    """Else the process that compiles rounds in another way than those that follow it.

    Minima over tiles and over costs of Monge are exact, however their sums round.
    """
    free, calls = {}, set()
    for file in Path(_compiled.__file__).parent.rglob("*.py"):
        for part in ast.parse(file.read_text("utf-8")).body:
            if not isinstance(part, ast.FunctionDef):
                continue
            marks = {ast.unparse(mark) for mark in part.decorator_list}
            if marks & {"fused", "reordered"}:
                free[part.name] = file.stem
            if marks & {"fused", "reordered", "inlined_fused", "inlined_reordered"}:
                calls |= {n.func for n in ast.walk(part) if isinstance(n, ast.Call)}
    called = {name for name in map(ast.unparse, calls) if name in free}
    assert {free[name] for name in called} == {"tiles", "monge"}


PROGRAM = """
from ebmtut import _compilation, _compiled

def kernel(n):
    return n + 1

kernel.__module__ = "ebmtut._compiled"
_compilation._PATIENCE = 0.0
assert _compiled.compiled(kernel)(1) == 2
"""


def test_the_first_process_alone_says_so_and_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, program]
    said = [run_without_torch(words, tmp_path).stderr.splitlines() for _ in range(2)]
    assert len(said[0]) == 1
    assert said[0][0].startswith("ebmtut: compiling kernels for this machine")
    assert str(tmp_path / "cache") in said[0][0]
    assert said[1] == []
