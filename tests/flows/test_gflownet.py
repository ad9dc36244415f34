"""GFlowNets of bits and of graphs against enumerated distributions."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch
from ebmtut.exact import exact_log_partition, exact_probabilities
from ebmtut.flows import gflownet
from ebmtut.flows.graph_gflownet import (
    SetPolicy,
    balance_variance,
    free_vertices,
    set_ways,
)
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index


def energy(x):
    """Three bits with all terms, and no symmetry."""
    a, b, c = x.T
    return a - 1.5 * b * c + 0.7 * a * b - 2 * a * b * c


def network(seed=0, n_sites=3, hidden=32):
    net = gflownet.BitsGFlowNet(n_sites, hidden, generator=make_generator(seed))
    return net.to(torch.float64)


def train(net, n_steps):
    generator = make_generator(0)
    # log Z is one number that moves far: it takes longer steps, as is usual.
    groups = [
        {"params": net.net.parameters(), "lr": 1e-2},
        {"params": [net.log_z], "lr": 0.1},
    ]
    optimizer = torch.optim.Adam(groups)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(n_steps):
        ways = gflownet.forward_trajectories(net, 64, generator=generator, explore=0.1)
        loss = gflownet.trajectory_balance_loss(net, energy, ways)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()


def test_balance_gives_the_distribution():
    """|log q - log p| of an end is at most the largest imbalance of a way to it."""
    net = network()
    target = exact_probabilities(energy, 3)
    untrained = float(
        (gflownet.terminal_distribution(net).exp() - target.exp()).abs().sum() / 2
    )
    train(net, 300)
    x = enumerate_states(3).repeat(200, 1)
    with torch.no_grad():
        ways = gflownet.backward_trajectories(net, x, generator=make_generator(1))
        balance = net.log_z + ways.log_forward - ways.log_backward + energy(x)
    # 200 draws of six ways each see them all but for one in 1e14.
    worst = float(balance.abs().max())
    distribution = gflownet.terminal_distribution(net)
    off = abs(float(net.log_z.detach() - exact_log_partition(energy, 3)))
    assert off <= worst + 1e-9
    assert (distribution - target).abs().max() <= worst + off + 1e-9
    distance = float((distribution.exp() - target.exp()).abs().sum() / 2)
    assert distance < untrained / 10


def test_the_terminal_distribution_is_that_of_the_draws():
    net, n = network(seed=3), 20_000
    distribution = gflownet.terminal_distribution(net).exp()
    assert abs(float(distribution.sum()) - 1) < 1e-12
    with torch.no_grad():
        ways = gflownet.forward_trajectories(net, n, generator=make_generator(0))
    seen = torch.bincount(states_to_index(ways.x), minlength=8) / n
    assert (
        (seen - distribution).abs() < 5 * (distribution * (1 - distribution) / n).sqrt()
    ).all()


def test_both_policies_are_normalised():
    """A partial state's moves sum to 1, and none leaves what is possible."""
    net = network()
    partial = torch.tensor(
        [[-1.0, 0, -1], [1, -1, 0], [-1, -1, -1], [1, 1, 0]]
    ).double()
    forth, back = (logits.exp() for logits in net(partial))
    assert torch.allclose(forth[:3].sum(1), torch.ones(3).double())
    assert torch.allclose(back[[0, 1, 3]].sum(1), torch.ones(3).double())
    assert not forth[3].any() and not back[2].any()
    assert not forth[:, :3][partial != -1].any() and not back[partial == -1].any()


def test_importance_weights_of_ways_have_the_right_mean():
    """E[P_B(way | x) exp(-E(x)) / P_F(way)] = Z for any policies."""
    net, n = network(seed=5), 20_000
    with torch.no_grad():
        ways = gflownet.forward_trajectories(net, n, generator=make_generator(0))
    weight = (ways.log_backward - ways.log_forward - energy(ways.x)).exp()
    want = exact_log_partition(energy, 3).exp()
    assert abs(weight.mean() - want) < 5 * weight.std() / n**0.5


def test_a_known_solution_has_no_loss():
    """With one site the policy is the target distribution itself."""
    net = gflownet.BitsGFlowNet(1, 4, generator=make_generator(0)).to(torch.float64)
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        net.net[-1].bias[1] = -0.8  # the bit 1 by exp(-0.8) as likely as 0
        net.log_z.fill_(math.log1p(math.exp(-0.8)))
    ways = gflownet.forward_trajectories(net, 50, generator=make_generator(0))
    loss = gflownet.trajectory_balance_loss(net, lambda x: 0.8 * x.sum(1), ways)
    assert float(loss.detach()) < 1e-20


def moves(net):
    """Probabilities of both policies at every partial state of three bits."""
    states = torch.tensor(list(itertools.product([-1.0, 0, 1], repeat=3))).double()
    with torch.no_grad():
        forth, back = (logits.exp().tolist() for logits in net(states))
    keys = [tuple(state.int().tolist()) for state in states]
    return dict(zip(keys, forth, strict=True)), dict(zip(keys, back, strict=True))


def ways_down(x, n_back, forth, back):
    """Every way from x to a partial state: (state, P_B of it, P_F of its reverse)."""
    for sites in itertools.permutations(range(3), n_back):
        now, down, up = list(x), 1.0, 1.0
        for site in sites:
            down *= back[tuple(now)][site]
            move = site + 3 * now[site]
            now[site] = -1
            up *= forth[tuple(now)][move]
        yield tuple(now), down, up


def step_matrix(net, n_back):
    """Transition matrix of the Metropolis-Hastings step, summed over all ways."""
    forth, back = moves(net)
    bits = [tuple(row) for row in enumerate_states(3).int().tolist()]
    e = energy(enumerate_states(3).double()).tolist()
    matrix = torch.zeros(8, 8, dtype=torch.float64)
    for i, x in enumerate(bits):
        for middle, down, up in ways_down(x, n_back, forth, back):
            for j, y in enumerate(bits):
                for other, down_y, up_y in ways_down(y, n_back, forth, back):
                    if other == middle:
                        ratio = math.exp(e[i] - e[j]) * down_y * up / (down * up_y)
                        matrix[i, j] += down * up_y * min(1, ratio)
        matrix[i, i] += 1 - matrix[i].sum()
    return matrix


@pytest.mark.parametrize("n_back", [1, 2, 3])
def test_a_step_back_and_forth_is_in_detailed_balance(n_back):
    matrix = step_matrix(network(seed=7), n_back)
    assert (matrix >= -1e-15).all()
    flow = exact_probabilities(energy, 3).exp()[:, None] * matrix
    torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_back", [1, 3])
def test_steps_are_drawn_from_that_matrix(n_back):
    net, n = network(seed=7), 4000
    matrix = step_matrix(net, n_back)
    x = enumerate_states(3).double().repeat_interleave(n, 0)
    y, taken = gflownet.back_and_forth(
        net, energy, x, n_back, generator=make_generator(2)
    )
    assert torch.equal(y[~taken], x[~taken])
    place = states_to_index(y).view(8, n)
    seen = torch.stack([torch.bincount(row, minlength=8) for row in place]) / n
    noise = (matrix * (1 - matrix)).clamp(min=0).sqrt() / n**0.5
    assert ((seen - matrix).abs() <= 5 * noise + 1e-12).all()


def test_no_states_are_a_batch_too():
    policy = gflownet.BitsGFlowNet(3, 2, generator=make_generator(0))
    none = (policy, lambda x: x.sum(1), torch.zeros(0, 3))
    x, accepted = gflownet.back_and_forth(*none, 2, generator=make_generator(0))
    assert x.shape == (0, 3) and accepted.shape == (0,)


def test_the_last_distribution_does_not_underflow():
    """Rare ends have log-probabilities far below that of the least number."""
    net = network()
    with torch.no_grad():
        net.net[-1].bias[3:6] = -500.0
        distribution = gflownet.terminal_distribution(net)
    assert bool(distribution.isfinite().all()) and float(distribution.min()) < -1400
    assert float(distribution.logsumexp(0)) == pytest.approx(0, abs=1e-12)


BETA = 1.5
# Answers of two sizes: {0, 2, 4}, {0, 3}, {1, 3}, {1, 4}.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4)]
CHAIN = GraphBatch.from_edges([(5, EDGES)], dtype=torch.float64)
X = enumerate_states(5).double()


@torch.no_grad()
def answer_probabilities(policy, graph):
    """Exact probabilities of the answers of one graph, by summing over all paths."""
    n = graph.n_sites
    x = enumerate_states(n, dtype=graph.adjacency.dtype)
    independent = (x * graph.neighbor_sums(x)).sum(1) == 0
    chance = policy(graph, x).exp() * independent[:, None]
    place = 2 ** torch.arange(n - 1, -1, -1)
    passed = torch.zeros(len(x), dtype=x.dtype)
    passed[0] = 1
    for size in range(n):
        row, move = ((x.sum(1) == size)[:, None] & (chance > 0)).nonzero(as_tuple=True)
        mass = passed[row] * chance[row, move]
        passed = passed.index_add(0, row + place[move], mass)
    final = independent & (free_vertices(graph, x).sum(1) == 0)
    return passed * final


def answers():
    """Bits that are independent and that nothing can be added to, by hand."""
    found = []
    for bits in itertools.product([0, 1], repeat=5):
        if any(bits[i] and bits[j] for i, j in EDGES):
            continue
        near = [{j for e in EDGES if i in e for j in e} - {i} for i in range(5)]
        if all(bits[i] or any(bits[j] for j in near[i]) for i in range(5)):
            found.append(bits)
    return torch.tensor(found).double()


def target():
    distribution = torch.zeros(len(X), dtype=torch.float64)
    ends = answers()
    distribution[states_to_index(ends)] = (BETA * ends.sum(1)).exp()
    return distribution / distribution.sum()


def flow(x):
    """What flows through a set if all ways balance: sum of e^{k/T} / C(k, size)."""
    total = 0.0
    for end in answers():
        if bool((end >= x).all()):
            k = int(end.sum())
            total += math.exp(BETA * k) / math.comb(k, int(x.sum()))
    return total


class Solved(torch.nn.Module):
    """The policy that balances, from the flows."""

    def forward(self, graphs, x):
        logits = torch.full_like(x, -torch.inf)
        for row, site in free_vertices(graphs, x).nonzero().tolist():
            y = x[row].clone()
            y[site] = 1
            share = flow(y) / (y.sum() * flow(x[row]))
            logits[row, site] = torch.log(share)
        return logits


def test_flows_match_on_a_solved_graph():
    """What flows into a set flows out of it: the policy sums to one at each."""
    sets = [x for x in X if float((x * CHAIN.neighbor_sums(x[None])).sum()) == 0]
    for x in sets:
        out = Solved()(CHAIN, x[None]).exp().sum()
        free = free_vertices(CHAIN, x[None]).any()
        assert float(out) == pytest.approx(float(free), abs=1e-12)
    assert flow(torch.zeros(5)) == pytest.approx(
        float((BETA * answers().sum(1)).exp().sum())
    )


def test_the_solution_has_no_loss_and_draws_exactly():
    ways = set_ways(Solved(), CHAIN, 40, generator=make_generator(0))
    assert float(balance_variance(CHAIN, ways, BETA)) < 1e-20
    # At another temperature it is no solution.
    assert float(balance_variance(CHAIN, ways, BETA + 1)) > 0.01
    torch.testing.assert_close(answer_probabilities(Solved(), CHAIN), target())


def test_the_distribution_is_that_of_the_draws():
    policy, n = SetPolicy(width=8, generator=make_generator(3)).double(), 20_000
    distribution = answer_probabilities(policy, CHAIN)
    assert abs(float(distribution.sum()) - 1) < 1e-12
    with torch.no_grad():
        ways = set_ways(policy, CHAIN, n, generator=make_generator(0))
    seen = torch.bincount(states_to_index(ways.x), minlength=len(X)) / n
    assert (
        (seen - distribution).abs()
        <= 5 * (distribution * (1 - distribution) / n).sqrt()
    ).all()


def test_importance_weights_of_ways_count_the_answers():
    """E[P_B e^{k/T} / P_F] = sum of e^{k/T} over the answers, for any policy."""
    policy, n = SetPolicy(width=8, generator=make_generator(5)).double(), 20_000
    with torch.no_grad():
        ways = set_ways(policy, CHAIN, n, generator=make_generator(0))
    weight = (ways.log_backward - ways.log_forward + BETA * ways.x.sum(1)).exp()
    want = (BETA * answers().sum(1)).exp().sum()
    assert abs(weight.mean() - want) < 5 * weight.std() / n**0.5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_every_answer_is_feasible_and_full(seed):
    """Whatever the weights, the graph, and how it explores."""
    generator = make_generator(seed)
    graphs = random_graphs("erdos-renyi", 3, 1, 12, generator=generator)
    policy = SetPolicy(width=4, generator=generator)
    with torch.no_grad():
        x = set_ways(policy, graphs, 3, generator=generator, explore=0.3).x
    assert not (x * graphs.neighbor_sums(x)).any()
    assert not free_vertices(graphs, x).any()
    outside = 1 - graphs.of_rows(graphs.is_vertex.to(x), len(x))
    assert not (x * outside).any()


def test_graphs_do_not_hear_of_each_other():
    graphs = random_graphs(
        "erdos-renyi", 3, 4, 8, generator=make_generator(4), dtype=torch.float64
    )
    policy = SetPolicy(width=8).double()
    x = torch.zeros(3, graphs.n_sites, dtype=torch.float64)
    x[:, 1] = 1
    together = policy(graphs, x)
    for number in range(3):
        alone = graphs.select(torch.tensor([number]))
        n = alone.n_sites
        want = policy(alone, x[[number], :n])
        torch.testing.assert_close(together[[number], :n], want, rtol=0, atol=1e-13)
        assert (together[number, n:] == -torch.inf).all()
