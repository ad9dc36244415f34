"""GFlowNets against enumerated distributions."""

import itertools
import math

import pytest
import torch

from ebmtut.exact import exact_log_partition, exact_probabilities
from ebmtut.flows import gflownet
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
