"""Kernels at the sizes of tiles that production takes, their programs in random order.

The other tests shrink tiles, so that small problems have several. Here only the limit
below which one program does all is lower, in the interpreter. On a GPU the problems are
as large as those that rates are measured with. Every kernel runs twice, and gives the
same bits.
"""

import pytest
import torch

from ebmtut.energies import RBM, BoltzmannMachine, PairwiseGraph
from ebmtut.kernels import graph_classes as classes
from ebmtut.kernels import lattice_words as lattice
from ebmtut.message_passing import max_product, max_product_reference
from ebmtut.transport import GridCost, min_plus, min_plus_reference
from tests.shared import normal

pytestmark = pytest.mark.usefixtures("any_order")


def torus(side):
    at = torch.arange(side * side).reshape(side, side)
    ahead = [torch.stack([at, at.roll(-1, dim)]).flatten(1) for dim in (0, 1)]
    edges = torch.cat(ahead, 1)
    return PairwiseGraph(edges, normal(edges.shape[1]), normal(side * side, seed=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(28, 28), (34, 66)])
def test_min_plus(shape, dtype, device, by_kernel):
    """Images of one tile that is not full, and of several."""
    by_kernel("ebmtut.kernels.grid_min_plus")
    h = normal(1000 if device.type == "cuda" else 2, *shape).to(device, dtype)
    h[0, :, ::3] = torch.inf
    cost = GridCost(*(normal(n, n, seed=n).to(device, dtype) for n in shape))
    found = min_plus(h, cost)
    assert torch.equal(found, min_plus_reference(h, cost))
    assert torch.equal(found, min_plus(h, cost))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_min_plus(dtype, device):
    """Few tiles, found in parts, of which the last is not full."""
    from ebmtut.kernels.min_plus_triton import least_sums_over

    k, m, n_i = (2000, 64, 2048) if device.type == "cuda" else (130, 20, 70)
    values, cost = (
        x.to(device, dtype) for x in (normal(1, k, m), normal(k, n_i, seed=1))
    )
    found = least_sums_over(values, cost)
    want = torch.stack([(v[:, None] + cost).amin(0) for v in values[0].T])
    assert torch.equal(found[0], want)
    assert torch.equal(found, least_sums_over(values, cost))


def dense(n):
    return BoltzmannMachine(normal(n, n) / n**0.5, torch.zeros(n)), n


def rbm(n):
    weight = normal(n, 2 * n) / n**0.5
    return RBM(weight, torch.zeros(n), torch.zeros(2 * n)), 2 * n


# Beside each model, how many neighbours a site has.
MODELS = {
    "dense": (lambda: dense(70), lambda: dense(900)),
    "rbm": (lambda: rbm(36), lambda: rbm(500)),
    "small graph": (lambda: (torus(18), 4), lambda: (torus(48), 4)),
    "large graph": (lambda: (torus(10), 4), lambda: (torus(128), 4)),
}


@pytest.mark.parametrize("which", MODELS)
def test_max_product(which, device, by_kernel, monkeypatch):
    from ebmtut.kernels import pairwise_triton as kernels

    by_kernel("ebmtut.kernels.max_product")
    if which == "large graph" and device.type == "cpu":
        monkeypatch.setattr(kernels, "SMALL", 0)
    model, n_neighbors = MODELS[which][device.type == "cuda"]()
    n_chains = 100 if device.type == "cuda" else 2
    unaries = normal(n_chains, len(model.pair_terms().bias), seed=3).to(device)
    model = model.to(device)
    want = max_product_reference(model, unaries, 1)
    found = max_product(model, unaries.float(), 1)
    assert found.beliefs.dtype == torch.float32
    # Sums of so many messages of size 3, whose errors a sweep multiplies by as many.
    atol = n_neighbors**2 * 3 * max(1, n_neighbors**0.5) * 2.0**-24
    torch.testing.assert_close(found.beliefs.double(), want.beliefs, rtol=0, atol=atol)
    assert torch.equal(found.beliefs, max_product(model, unaries.float(), 1).beliefs)


@pytest.mark.parametrize(
    ("sides", "n_chains", "n_pooled"),
    [((24, 64), 3, 1), ((18, 512), 33, 4), ((128, 8192), 1, 4)],
)
def test_lattices(sides, n_chains, n_pooled, device):
    """Swept by one program, by several of chains, and by several of pieces of rows."""
    from ebmtut.kernels.gibbs_triton import word_sweeps

    side = sides[device.type == "cuda"]
    bits = (normal(n_chains, side * side) > 0).float().to(device)
    plan = lattice.plan_for(side, n_chains, device)
    if device.type == "cpu":
        plan = plan._replace(n_pooled=n_pooled)
    assert plan.n_pooled == n_pooled
    words = lattice.pack(bits, side, plan)
    digits = lattice.digits_of(0.2, 0.1, device)
    want = lattice.plain_word_sweeps(words, plan, digits, 2**62 + 5, 1)
    for _ in range(2):
        swept = words.clone()
        word_sweeps(swept, plan, digits, 2**62 + 5, 1)
        assert torch.equal(swept, want)


@pytest.mark.parametrize(("side", "n_chains", "alone"), [(18, 6, 1), (8, 70, 0)])
def test_graphs(side, n_chains, alone, device, monkeypatch):
    """Swept by one program for each four chains, and by many."""
    from ebmtut.kernels import gibbs_triton as kernels

    if not alone and device.type == "cpu":
        monkeypatch.setattr(kernels, "_SMALL", 0)
    if not alone and device.type == "cuda":
        side = 512
    plan = classes.classes_of(torus(side), device)
    states = (normal(side * side, n_chains) > 0).to(device, torch.int8)
    want = classes.plain_class_sweeps(states, plan, 2**62 + 5, 1)
    found = []
    for _ in range(2):
        found.append(states.clone())
        kernels.class_sweeps(found[-1], plan, 2**62 + 5, 1)
    assert torch.equal(*found)
    # A GPU's exponential differs in the last bit, and a few neighbours then see it.
    assert (found[0] != want).double().mean() < 1e-5
