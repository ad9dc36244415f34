"""Flows over graphs: locally equivariant, and fit for all graphs of a batch."""

import networkx as nx
import pytest
import torch

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch
from ebmtut.flows import GraphFlowNetwork, HollowGraphTransformer
from ebmtut.flows import graph_transformer as transformer
from ebmtut.flows.graph_transformer import hop_distances
from ebmtut.random import make_generator

GRAPHS = random_graphs(
    "erdos-renyi", 3, 5, 9, generator=make_generator(4), dtype=torch.float64
)
N_COPIES = 4


def transform():
    return HollowGraphTransformer(width=8, n_heads=2).to(torch.float64)


@pytest.fixture(params=["messages", "transformer"])
def weights(request):
    return transform() if request.param == "transformer" else messages()


def messages():
    return GraphFlowNetwork(width=8).to(torch.float64)


def some(graphs, number):
    """One graph of a batch, without its padding."""
    return graphs.select(torch.tensor([number]))


def states(seed=0, graphs=GRAPHS):
    shape = len(graphs) * N_COPIES, graphs.n_sites
    x = torch.randint(2, shape, generator=make_generator(seed)).double()
    t = torch.rand(len(graphs), generator=make_generator(1), dtype=torch.float64)
    return x, t.repeat_interleave(N_COPIES)


def oddness(network, graphs=GRAPHS):
    """How far G of a flip is from minus itself once the flip is made."""
    x, t = states()
    here, worst = network(x, t), 0.0
    for site in range(graphs.n_sites):
        y = x.clone()
        y[:, site] = 1 - y[:, site]
        off = (network(y, t) + here)[:, site].abs().max()
        worst = max(worst, float(off.detach()))
    return worst


def test_local_equivariance(weights):
    assert oddness(weights.on(GRAPHS)) < 1e-14


@pytest.mark.parametrize("leak", ["itself", "a factor of zero"])
def test_a_leaky_mask_is_found(monkeypatch, leak):
    """What if a site is asked for itself, or scores are multiplied by the mask?"""
    if leak == "itself":
        net = transform().on(GRAPHS)
        net.read = net.read | torch.eye(GRAPHS.n_sites, dtype=torch.bool)
    else:
        monkeypatch.setattr(transformer, "_closed", lambda bias, mask: bias * mask)
        net = transform().on(GRAPHS)
    assert oddness(net) > 1e-3


def test_hollow_by_jacobian(weights):
    net = weights.on(GRAPHS)
    x, t = states()

    def features(x):
        return net.hollow(x, t).sum((0, 2))

    jacobian = torch.autograd.functional.jacobian(features, x)
    own = jacobian.diagonal(dim1=0, dim2=2)
    assert float(own.abs().max()) < 1e-14 < float(jacobian.abs().max())


def test_graphs_do_not_hear_of_each_other(weights):
    net = weights
    x, t = states()
    together = net.on(GRAPHS)(x, t).unflatten(0, (len(GRAPHS), -1))
    for number in range(len(GRAPHS)):
        alone = some(GRAPHS, number)
        n = alone.n_sites
        rows = slice(number * N_COPIES, (number + 1) * N_COPIES)
        want = net.on(alone)(x[rows, :n], t[rows])
        torch.testing.assert_close(together[number, :, :n], want, rtol=0, atol=1e-13)
        assert not together[number, :, n:].any()


def renamed(net, order):
    """How far G of a graph with renamed vertices is from G, renamed."""
    one = some(GRAPHS, 0)
    x, t = states(graphs=one)
    shuffled = GraphBatch(one.adjacency[:, order][:, :, order], one.n_vertices)
    off = net.on(shuffled)(x[:, order], t) - net.on(one)(x, t)[:, order]
    return float(off.abs().max().detach())


def test_names_of_vertices_do_not_matter_to_messages():
    order = torch.randperm(some(GRAPHS, 0).n_sites, generator=make_generator(2))
    assert renamed(messages(), order) < 1e-13


def test_streams_have_an_order_but_no_direction():
    """Causal attention reads vertices by name; backwards is as good as forwards."""
    n = some(GRAPHS, 0).n_sites
    assert renamed(transform(), torch.arange(n).flip(0)) < 1e-13
    assert renamed(transform(), torch.arange(n).roll(1)) > 1e-3


def test_the_transformer_is_told_the_graph():
    """Another edge between the same vertices is another G, by degrees or distances."""
    path = GraphBatch.from_edges([(4, [(0, 1), (1, 2), (2, 3)])], dtype=torch.float64)
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    cycle = GraphBatch.from_edges([(4, ring)], dtype=torch.float64)
    x, t = torch.tensor([[0.0, 1, 0, 1]]).double(), torch.tensor([0.3]).double()
    net = transform()
    with torch.no_grad():
        net.degree.zero_()
        assert (net.on(path)(x, t) - net.on(cycle)(x, t)).abs().max() > 1e-3
        net.far.zero_()
        assert torch.equal(net.on(path)(x, t), net.on(cycle)(x, t))


def test_distances_are_those_of_networkx():
    pairs = hop_distances(GRAPHS)
    for number, want in enumerate(pairs):
        n = int(GRAPHS.n_vertices[number])
        graph = nx.from_numpy_array(GRAPHS.adjacency[number, :n, :n].numpy())
        known = dict(nx.all_pairs_shortest_path_length(graph))
        for i in range(GRAPHS.n_sites):
            for j in range(GRAPHS.n_sites):
                apart = 0 if i == j else -1
                assert want[i, j] == known.get(i, {}).get(j, apart)
    assert (pairs == -1).any()
