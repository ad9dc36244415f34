"""The flow over graphs: locally equivariant, and fit for all graphs of a batch."""

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch, MaxCut, MaxIndependentSet
from ebmtut.flows.graphs import GraphFlowNetwork
from ebmtut.random import make_generator

GRAPHS = random_graphs(
    "erdos-renyi", 3, 5, 9, generator=make_generator(4), dtype=torch.float64
)
N_COPIES = 4


def network():
    return GraphFlowNetwork(width=8).to(torch.float64)


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


def test_local_equivariance():
    assert oddness(network().on(GRAPHS)) < 1e-14


def test_two_ordinary_rounds_of_messages_are_not():
    """A vertex would hear itself from its neighbours: the test sees it."""

    def leaky(x, t):
        s = 2 * x - 1
        return -s * GRAPHS.neighbor_sums(torch.tanh(GRAPHS.neighbor_sums(s)))

    assert oddness(leaky) > 0.1


def test_hollow_by_jacobian():
    net = network().on(GRAPHS)
    x, t = states()
    n = GRAPHS.n_sites

    def features(x):
        wide = net.hollow(x, t).unflatten(1, (len(GRAPHS), n))
        return wide.transpose(0, 1).flatten(0, 1).sum(2)

    jacobian = torch.autograd.functional.jacobian(lambda x: features(x).sum(0), x)
    own = jacobian.diagonal(dim1=0, dim2=2)
    assert float(own.abs().max()) < 1e-14 < float(jacobian.abs().max())


def test_graphs_do_not_hear_of_each_other():
    """Each graph alone, unpadded, gives the same."""
    net = network()
    x, t = states()
    together = net.on(GRAPHS)(x, t).unflatten(0, (len(GRAPHS), -1))
    for number in range(len(GRAPHS)):
        alone = GRAPHS.select(torch.tensor([number]))
        n = alone.n_sites
        rows = slice(number * N_COPIES, (number + 1) * N_COPIES)
        want = net.on(alone)(x[rows, :n], t[rows])
        torch.testing.assert_close(together[number, :, :n], want, rtol=0, atol=1e-13)
        assert not together[number, :, n:].any()


def test_names_of_vertices_do_not_matter():
    net = network()
    one = GRAPHS.select(torch.tensor([0]))
    x, t = states(graphs=one)
    order = torch.randperm(one.n_sites, generator=make_generator(2))
    shuffled = GraphBatch(one.adjacency[:, order][:, :, order], one.n_vertices)
    want = net.on(one)(x, t)[:, order]
    got = net.on(shuffled)(x[:, order], t)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


def test_all_weights_learn():
    net = network()
    x, t = states()
    net.on(GRAPHS)(x, t).square().sum().backward()
    assert all(bool(p.grad.abs().sum() > 0) for p in net.parameters())


def test_input_is_refused():
    with pytest.raises(InputError, match="width must be an integer >= 1, got 0"):
        GraphFlowNetwork(width=0)
    with pytest.raises(InputError, match="x must have shape"):
        network().on(GRAPHS)(torch.zeros(3, 2).double(), torch.zeros(3).double())


@pytest.mark.parametrize("problem", [MaxCut, MaxIndependentSet])
def test_problems_on_other_graphs(problem):
    energy = problem(GRAPHS, inverse_temperature=3)
    few = GRAPHS.select(torch.tensor([1]))
    assert type(energy.of(few)) is problem
    assert energy.of(few).inverse_temperature == 3
    assert energy.of(few).graphs is few
