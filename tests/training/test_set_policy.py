"""A GFlowNet of independent sets learns, and does better on graphs it never saw."""

import torch

from ebmtut.data import random_graphs
from ebmtut.flows.graph_gflownet import SetPolicy, set_ways
from ebmtut.random import make_generator
from ebmtut.training import TrainConfig, train_set_policy

GRAPHS = random_graphs("erdos-renyi", 20, 9, 12, generator=make_generator(0))
CONFIG = TrainConfig(
    60, learning_rate=1e-2, n_warmup=5, ema_decay=0.9, precision="float32"
)


def mean_size(policy, graphs, n=200):
    with torch.no_grad():
        x = set_ways(policy, graphs, n, generator=make_generator(5)).x
    return x.sum(1).unflatten(0, (len(graphs), -1))


def test_it_finds_larger_sets_on_graphs_it_never_saw():
    new = random_graphs("erdos-renyi", 8, 9, 12, generator=make_generator(7))
    fresh = SetPolicy(width=16, generator=make_generator(0))
    before = mean_size(fresh, new)
    trained, losses, _ = train_set_policy(
        fresh, GRAPHS, 5.0, CONFIG, generator=make_generator(1)
    )
    gain = mean_size(trained, new).mean(1) - before.mean(1)
    noise = float((before.var(1) / 200 * 2).mean() ** 0.5) / len(new) ** 0.5
    assert float(gain.mean()) > 5 * noise
    assert losses[-10:].mean() < losses[:10].mean() / 2
