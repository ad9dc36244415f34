"""The GPU's sweeps give what plain torch gives, to rounding."""

import pytest
import torch

from ebmtut.energies import RBM, BoltzmannMachine, PairwiseGraph
from ebmtut.message_passing import STARTS, max_product, max_product_reference
from ebmtut.random import make_generator
from tests.shared import normal


def some_graph(n):
    """Sites of unlike degree, one of them alone."""
    first, second = torch.triu_indices(n - 1, n - 1, 1)
    there = torch.rand(len(first), generator=make_generator(1)) < 0.3
    edges = torch.stack([first, second])[:, there]
    return PairwiseGraph(edges, normal(edges.shape[1]), torch.zeros(n))


MODELS = {
    "dense": lambda: BoltzmannMachine(normal(21, 21), torch.zeros(21)),
    "rbm": lambda: RBM(normal(9, 19), torch.zeros(9), torch.zeros(19)),
    "wide rbm": lambda: RBM(normal(19, 9), torch.zeros(19), torch.zeros(9)),
    "graph": lambda: some_graph(11),
    "sparse matrix": lambda: some_graph(11).dense(),
    "no pairs": lambda: PairwiseGraph(
        torch.zeros(2, 0).long(), torch.zeros(0), torch.zeros(3)
    ),
}


# Graphs sweep by sweep, or in one program a chain; matrices are swept in tiles.
LAUNCHES, ONE_LAUNCH = 0, 2**14
EVERY_WAY = [(which, LAUNCHES) for which in MODELS]
EVERY_WAY += [(which, ONE_LAUNCH) for which in ("graph", "sparse matrix", "no pairs")]


@pytest.fixture
def small():
    """Return how many messages one program sweeps."""
    return LAUNCHES


@pytest.fixture(autouse=True)
def _tiny_blocks(small, monkeypatch, by_kernel):
    from ebmtut.kernels import pairwise_triton as kernels

    by_kernel("ebmtut.kernels.max_product")
    sizes = {"_BLOCK": 16, "_CHAINS": 4, "_PLACES": 16, "SMALL": small}
    for name, value in sizes.items():
        monkeypatch.setattr(kernels, name, value)


@pytest.mark.parametrize(
    ("which", "small", "init"),
    [(*way, STARTS[0]) for way in EVERY_WAY]
    + [(which, LAUNCHES, STARTS[1]) for which in ("rbm", "graph")],
)
def test_sweeps_are_the_plain_ones(which, init, device):
    """From the start, kept; then from where they were left, not kept."""
    model = MODELS[which]().to(device)
    unaries = normal(5, len(model.pair_terms().bias), seed=3).to(device)
    options = {"damping": 0.3, "init": init}
    want = max_product_reference(model, unaries, 2, return_messages=True, **options)
    got = max_product(model, unaries, 2, return_messages=True, **options)
    # Fewer than 30 messages of size 5 are summed to 2^-52, in another order; a sweep
    # multiplies an error by the number of neighbours at the most.
    atol = 30**2 * 150 * 2.0**-52
    torch.testing.assert_close(got.beliefs, want.beliefs, rtol=0, atol=atol)
    torch.testing.assert_close(got.messages, want.messages, rtol=0, atol=atol)
    options |= {"messages": want.messages}
    want = max_product_reference(model, unaries, 1, **options)
    got = max_product(model, unaries, 1, **options)
    torch.testing.assert_close(got.beliefs, want.beliefs, rtol=0, atol=atol)
    assert got.messages is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU replays")
@pytest.mark.parametrize("which", ["dense", "graph"])
def test_replayed_sweeps_are_the_launched_ones(which, device, monkeypatch):
    from ebmtut import _gpu
    from ebmtut.kernels import pairwise_triton as kernels

    monkeypatch.setattr(kernels, "SMALL", 0)
    model = MODELS[which]().to(device)
    unaries = normal(5, len(model.pair_terms().bias), seed=3).to(device)
    replayed = max_product(model, unaries, 21, return_messages=True)
    monkeypatch.setattr(_gpu, "_WORTH", 1000)
    launched = max_product(model, unaries, 21, return_messages=True)
    assert torch.equal(replayed.beliefs, launched.beliefs)
    assert torch.equal(replayed.messages, launched.messages)


@pytest.mark.parametrize(
    ("which", "small"),
    [("dense", LAUNCHES), ("graph", LAUNCHES), ("graph", ONE_LAUNCH)],
)
def test_groups_of_chains_change_nothing(which, device, monkeypatch):
    """And no sweep at all leaves the initial messages."""
    from ebmtut.kernels import pairwise_triton as kernels

    model = MODELS[which]().to(device)
    unaries = normal(5, len(model.pair_terms().bias), seed=5).to(device)
    whole = max_product(model, unaries, 1, return_messages=True)
    none = max_product(model, unaries, 0, init="zero", return_messages=True)
    assert torch.equal(none.messages, torch.zeros_like(none.messages))
    assert (none.beliefs - unaries).abs().max() < 30 * 5 * 2.0**-52
    monkeypatch.setattr(kernels, "_GROUP_BYTES", 0)
    parts = max_product(model, unaries, 1, return_messages=True)
    assert torch.equal(parts.beliefs, whole.beliefs)
    assert torch.equal(parts.messages, whole.messages)
