"""The code before a kernel stays on one device and does not wait for the device.

On torch's "meta" device tensors have no values: reading a value raises, and so does a
sum of tensors on different devices. The kernels are not run; the tests check that their
arguments are on the device and contiguous, as the kernels assume.
"""

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ebmtut import _gpu
from ebmtut._gpu import runs_triton
from ebmtut.energies import RBM, BoltzmannMachine, LatticeIsing, PairwiseGraph
from ebmtut.kernels import grid_min_plus
from ebmtut.transport import GridCost, gibbs_ot_iteration, min_plus

META = torch.device("meta")


@pytest.fixture
def launches(monkeypatch):
    """Put a note in the place of every kernel; return the notes."""
    from ebmtut.kernels import gibbs_triton as gibbs
    from ebmtut.kernels import min_plus_triton as min_plus
    from ebmtut.kernels import pairwise_triton as pairwise

    noted = []

    class Aside:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            return self.launch

        def launch(self, *arguments, **options):
            for tensor in (a for a in arguments if isinstance(a, torch.Tensor)):
                assert tensor.device == META and tensor.is_contiguous()
            noted.append(self.name)

    for module, name in (
        (pairwise, "tile_sweep"),
        (pairwise, "site_sweep"),
        (gibbs, "word_sweep"),
        (gibbs, "class_sweep"),
        (min_plus, "least_sums_tile"),
    ):
        monkeypatch.setattr(module, name, Aside(name))
    return noted


def zeros(*shape):
    return torch.zeros(shape, device=META)


class Launched(TorchDispatchMode):
    """Counts operations on the device that compute or copy, which are launches each."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        schema = function._schema
        is_view = not schema.is_mutable and any(r.alias_info for r in schema.returns)
        there = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
        there = any(x.device == META for x in there) and not is_view
        if there and not schema.name.startswith(("aten::empty", "aten::new_empty")):
            self.names.append(schema.name)
        return found


def few_chains(n, by_kernel=False):
    """One iteration of Gibbs-OT with so many problems."""
    from ebmtut.kernels.min_plus_triton import iteration_over

    p, q, cost, temperature = zeros(n, 6), zeros(n, 7), zeros(6, 7), zeros(2)
    iterate = iteration_over(cost) if by_kernel else gibbs_ot_iteration
    return lambda: iterate(p, p, q, cost, temperature, q, p)


def lattice_call(side, n_chains):
    from ebmtut.kernels.gibbs_triton import lattice_gibbs

    x = zeros(n_chains, side * side)
    return lambda: lattice_gibbs(LatticeIsing(side, 0.1), x, 3, 5)


def graph_call():
    from ebmtut.kernels.gibbs_triton import graph_gibbs

    path = PairwiseGraph(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), torch.zeros(4))
    x = zeros(3, 4)
    return lambda: graph_gibbs(path, x, 3, 5)


def product_call(model):
    from ebmtut.kernels.pairwise_triton import triton_sweeps

    model = model.to(META)
    terms = model.pair_terms()
    unaries = zeros(3, len(terms.bias))
    return lambda: triton_sweeps(model, terms, unaries, None, 3, 0.5, False, True)


def pairs_call(model):
    return lambda: model.to(META).pair_terms().first


MATRIX = BoltzmannMachine(torch.zeros(40, 40), torch.zeros(40))
HIDDEN = RBM(torch.zeros(5, 40), torch.zeros(5), torch.zeros(40))
IMAGES = (zeros(3, 4, 5), GridCost(zeros(4, 4), zeros(5, 5)))
# Of torch, and of kernels, in a second call, which finds what the first has made.
CALLS = {
    "pairs of a matrix": (lambda: pairs_call(MATRIX), 7, 0),
    "max-product, 3 sweeps": (lambda: product_call(MATRIX), 43, 4),
    "max-product of an RBM": (lambda: product_call(HIDDEN), 45, 4),
    "small lattice, 3 sweeps": (lambda: lattice_call(6, 3), 12, 1),
    "large lattice, 3 sweeps": (lambda: lattice_call(66, 3), 12, 6),
    "graph, 3 sweeps": (graph_call, 9, 1),
    "min-plus of images": (lambda: lambda: min_plus(*IMAGES), 3, 2),
    "Gibbs-OT, plain": (lambda: few_chains(1), 16, 0),
    "Gibbs-OT, kernel": (lambda: few_chains(16, True), 16, 2),
}


@pytest.mark.parametrize("which", CALLS)
def test_a_call_launches_no_more_than_it_did(which, launches, monkeypatch):
    monkeypatch.setattr(grid_min_plus, "runs_triton", lambda x: True)
    make, n_of_torch, n_of_kernels = CALLS[which]
    call = make()
    call()
    launches.clear()
    with Launched() as launched:
        call()
    assert len(launched.names) <= n_of_torch, launched.names
    assert len(launches) == n_of_kernels


@pytest.mark.parametrize("fault", [None, RuntimeError("no C compiler")])
def test_without_a_compiler_plain_torch_runs(fault, monkeypatch, recwarn):
    from triton.runtime import driver

    class Active:
        def get_current_device(self):
            if fault:
                raise fault

    _gpu._works.cache_clear()
    monkeypatch.setattr(driver, "_active", Active())
    assert [_gpu._works() for _ in range(2)] == [fault is None] * 2
    told = [str(w.message) for w in recwarn if "Triton" in str(w.message)]
    assert len(told) == (fault is not None)
    assert all("no C compiler" in line for line in told)
    _gpu._works.cache_clear()


def test_triton_is_imported_only_where_it_runs():
    code = (
        "import sys, ebmtut.message_passing, ebmtut.samplers, ebmtut.transport; "
        "sys.exit('triton' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert not runs_triton(torch.zeros(1)) and not runs_triton(zeros(1))
