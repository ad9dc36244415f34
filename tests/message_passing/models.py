"""Random models that the tests of message passing share."""

import torch

from ebmtut.energies import PairwiseGraph
from ebmtut.random import make_generator
from tests.shared import normal


def random_tree(n, seed, *, biased=True):
    """Each site is joined to a random earlier one."""
    generator = make_generator(seed)
    parents = [int(torch.randint(i, (), generator=generator)) for i in range(1, n)]
    edges = torch.tensor([parents, list(range(1, n))], dtype=torch.int64)
    bias = normal(n, seed=seed + 1) if biased else torch.zeros(n)
    return PairwiseGraph(edges, 2 * normal(n - 1, seed=seed), bias)
