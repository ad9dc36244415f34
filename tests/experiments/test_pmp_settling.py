"""Where messages come to rest, checked against what is known of trees and loops."""

import math

import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.pmp.settling import settled, share_of_ties
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
