"""Where messages come to rest, checked against what is known of trees and loops."""

import math

import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.pmp.settling import (
    message_paths,
    settled,
    settled_table,
    share_of_ties,
    small_graphs,
)
from ebmtut.random import make_generator


def spins(n, edges):
    """Spins with exp(theta s_i s_j) on each edge, as bits."""
    weight = torch.zeros(n, n).double()
    for i, j, theta in edges:
        weight[i, j] = weight[j, i] = 4 * theta
    return BoltzmannMachine(weight, -weight.sum(1) / 2)


def test_on_a_chain_messages_end_at_the_optimum():
    chain = spins(5, [(i, i + 1, 1.0) for i in range(4)])
    assert settled(chain, 0, 500, generator=make_generator(0)) == (1, 1, 1)


def test_damping_brings_a_frustrated_loop_to_rest_and_not_to_a_decision():
    loop = spins(4, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 0, -1.0)])
    plain, damped = (
        settled(loop, damping, 2000, generator=make_generator(0))
        for damping in (0, 0.5)
    )
    assert plain.at_rest < 0.9 and damped.at_rest == 1
    assert damped.no_zero_belief < 0.9
    # One loop: what settles without a tie is optimal.
    assert plain.optimal == damped.optimal == 1


def test_ties_are_rare_where_couplings_differ():
    share = share_of_ties(5, 10, 50, generator=make_generator(0))
    assert share < 5 / math.sqrt(10 * 50)


def test_messages_of_the_small_graphs_rest_circle_and_rest():
    def solve(model, unaries, n_sweeps, damping, init):
        assert init == "symmetric"
        weight = model.weight.detach()
        messages = (weight / 2).expand(len(unaries), -1, -1)
        for _ in range(n_sweeps):
            heard = (unaries + messages.sum(1))[:, :, None] - messages.mT
            new = (heard + weight).clamp(min=0) - heard.clamp(min=0)
            messages = damping * messages + (1 - damping) * new
        return unaries + messages.sum(1), messages

    cases = small_graphs()
    assert [name for name, (_, damping) in cases.items() if damping] == ["loop, damped"]
    paths = message_paths(solve, cases, 40)
    moved = {name: (path[-1] - path[-2]).abs().max() for name, path in paths.items()}
    assert moved["chain, undamped"] == 0 and moved["loop, undamped"] > 0.1
    assert moved["loop, damped"] < 0.01
    for path in paths.values():
        assert len(path) == 41 and not path[0].any()  # "nothing said yet"
        assert all(messages.abs().max() <= 1 for messages in path)


def test_shares_stand_a_graph_a_row():
    chain, _ = small_graphs()["chain, undamped"]
    shares = {"chain": settled(chain, 0, 100, generator=make_generator(0))}
    table = settled_table(shares)
    assert table.heads == ("graph", "at rest", "no zero belief", "optimal")
    assert table.rows == (("chain", "1", "1", "1"),)
