"""What flows refuse beyond the ranges that their signatures declare."""

import math

import torch

from ebmtut.energies import GraphBatch, LatticeIsing, MaxCut
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    GraphFlowNetwork,
    HollowMLP,
    HollowTransformer,
    OddLatticeNetwork,
    back_and_forth,
    backward_trajectories,
    effective_sample_size,
    flow_distributions,
    simulate_exact,
)
from ebmtut.flows.graph_gflownet import SetWays, balance_variance
from ebmtut.importance import estimate_log_mean_exp
from ebmtut.losses import kolmogorov_variance_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from tests.shared import refusals

PATH = AnnealingPath(LatticeIsing(3, 0.1))
GRAPHS = GraphBatch.from_edges([(3, [(0, 1)]), (3, [(1, 2)]), (3, [])])
POLICY = BitsGFlowNet(3, 4, generator=make_generator(0))
BITS = torch.zeros(2, 3)


def flow(**how):
    return Flow(PATH, HollowMLP(9), **how)


def on_graphs(*order):
    graphs = GRAPHS.select(torch.tensor(order))
    return Flow(AnnealingPath(MaxCut(GRAPHS)), GraphFlowNetwork(width=4).on(graphs))


def back(x):
    backward_trajectories(POLICY, x, generator=make_generator(0))


CASES = {
    "sites": (lambda: Flow(PATH, HollowMLP(4)), "network must have n_sites=9, got 4"),
    "states": (lambda: Flow(PATH, HollowMLP(9, n_states=3)), "network must have"),
    "one state of a time": (
        lambda: kolmogorov_variance_loss(flow(), torch.ones(2, 1, 9), torch.rand(2)),
        "states of one time must be a number >= 2, got 1",
    ),
    "fewer graphs": (lambda: on_graphs(0, 1), ".*must be on the target's 3 graphs"),
    "turned graphs": (lambda: on_graphs(1, 0, 2), ".*must be on the target's 3 graphs"),
    "window": (lambda: OddLatticeNetwork(4, window=5), "window must be an integer"),
    "larger": (lambda: OddLatticeNetwork(4).grown(4), "side must be an integer >= 5"),
    "heads": (lambda: HollowTransformer(4, width=6, n_heads=4), "width % n_heads"),
    "cut ratios": (
        lambda: simulate_exact(
            flow(max_log_ratio=5.0), 2, bound=9.0, generator=make_generator(0)
        ),
        ".*max_log_ratio",
    ),
    "many sites": (
        lambda: flow_distributions(
            Flow(AnnealingPath(lambda x: x.sum(1), 25), OddLatticeNetwork(5)), 4
        ),
        ".*states of all sites",
    ),
    "nan": (lambda: effective_sample_size(torch.tensor([math.nan, 0.0])), "log_weight"),
    **{
        f"all zero: {mean.__name__}": (
            lambda mean=mean: mean(torch.full((3,), -math.inf)),
            "log_weights must .*got all weights are zero",
        )
        for mean in (effective_sample_size, estimate_log_mean_exp)
    },
    "dtype": (lambda: back(BITS.double()), "x must have the dtype of the policy"),
    "halves": (lambda: back(BITS + 0.5), "x must hold only 0 and 1, got 0.5"),
    "spins": (lambda: back(BITS - 1), "x must hold only 0 and 1, got -1"),
    "steps back": (
        lambda: back_and_forth(
            POLICY, lambda x: x.sum(1), BITS, 4, generator=make_generator(0)
        ),
        r"n_sites must be an integer in \[1, 3\]",
    ),
    "one way": (
        lambda: balance_variance(
            GRAPHS.select(torch.tensor([0])), SetWays(BITS[:1], *torch.zeros(2, 1)), 1.0
        ),
        "ways of a graph must be a number >= 2",
    ),
}


test_refusals = refusals(CASES)
