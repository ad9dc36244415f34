"""What energies refuse to be made of."""

import networkx as nx
import torch

from ebmtut.data import random_graphs
from ebmtut.energies import (
    RBM,
    BoltzmannMachine,
    FourierEnergy,
    GraphBatch,
    Ising,
    MaxCut,
    MLPEnergy,
    PairwiseGraph,
    PerceptronEnergy,
    WideResNetConfig,
    WideResNetEnergy,
    at_level,
    conditional_energy,
    lattice_coloring,
)
from ebmtut.energies.wide_resnet import sinusoidal_embedding
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from tests.shared import refusals

SQUARE, LINE = torch.zeros(2, 2), torch.zeros(2)
NAN = torch.full((2,), torch.nan)
X, LEVEL = torch.zeros(3, 2), torch.zeros(3).long()
LEVELS = FourierEnergy(2, 3)
SMALL = WideResNetConfig(8, 2, (1, 2), 0.9, 4, channels=8, n_colors=1, n_levels=3)


def pairwise(*edges, n=3):
    edges = torch.tensor(edges).T
    return PairwiseGraph(edges, torch.ones(edges.shape[1]), torch.zeros(n))


def given(*clamp):
    return pairwise([0, 1]).given(torch.tensor(clamp))


def graphs(*edges, n=2):
    return GraphBatch.from_edges([(n, edges)])


def padded(adjacency, n):
    return GraphBatch(torch.tensor(adjacency)[None], torch.tensor([n]))


def conditional(level):
    return conditional_energy(LEVELS, NoiseLevels((0.3, 0.6, 1.0)), X, level)


def drawn(*sizes):
    return random_graphs("barabasi-albert", 1, *sizes, generator=make_generator(0))


CASES = {
    "square": (lambda: Ising(torch.zeros(3, 2)), r"coupling must have shape \(3, 3\)"),
    "integers": (lambda: Ising(SQUARE.long()), "coupling must be a floating .*int64"),
    "bias": (lambda: BoltzmannMachine(SQUARE, NAN[:1]), "bias must have shape"),
    "visible": (lambda: RBM(SQUARE, LINE, LINE[:1]), "visible_bias must have shape"),
    "loop": (lambda: pairwise([0, 0]), ".*different"),
    "twice": (lambda: pairwise([0, 1], [1, 0]), ".*once"),
    "edges": (lambda: pairwise([0.0, 1.0]), ".*integers"),
    "values": (lambda: given(2.0, 0.0, torch.nan), ".*0, 1, or NaN"),
    "nothing free": (lambda: given(1.0, 1.0, 1.0), ".*leave a site free"),
    "no graph": (lambda: GraphBatch.from_edges([]), ".*at least 1 graph, got 0"),
    "no vertex": (lambda: graphs(n=0), ".*n_vertices must be an integer >= 1, got 0"),
    "vertices": (lambda: graphs((0, 2)), r".*vertices of 0 to 1, got \(0, 2\)"),
    "a loop": (lambda: graphs((1, 1)), r".*two different vertices .* got \(1, 1\)"),
    "entries": (lambda: padded([[0.0, 0.5], [0.5, 0.0]], 2), ".*only 0 and 1"),
    "diagonal": (lambda: padded([[1.0, 0.0], [0.0, 1.0]], 2), ".*a loop"),
    "a loop of networkx": (
        lambda: GraphBatch.from_networkx(nx.Graph([("u", "u")])),
        "graphs must have no loop, got one at 'u'",
    ),
    "directed": (lambda: GraphBatch.from_networkx(nx.DiGraph([(0, 1)])), "graphs must"),
    "a graph alone": (lambda: MaxCut(nx.path_graph(3)), r".*got Graph:"),
    "rows": (lambda: MaxCut(GraphBatch.from_edges([(2, []), (2, [])]))(X), ".*each of"),
    "few vertices": (lambda: drawn(4, 6), "n_low must be an integer >= 5, got 4"),
    "side": (lambda: lattice_coloring(2), "side of a periodic lattice must .* >= 3"),
    "base": (
        lambda: MLPEnergy(3, base_probs=torch.tensor([0.0, 0.5, 1.0])),
        r"base_probs must lie in \(0, 1\), got \[0, 1\]",
    ),
    "dtype": (lambda: LEVELS(X.double(), LEVEL), "x must have the dtype .*float32"),
    "kind of levels": (lambda: conditional(X[:, 0]), "level must be integers"),
    "a level": (lambda: at_level(LEVELS, -1), "level .*>= 0, got -1"),
    "no noise": (lambda: PerceptronEnergy((8, 8), (0.0, 0.5)), "noises"),
    "image": (
        lambda: WideResNetEnergy(SMALL)(torch.zeros(3, 3, 8, 8), LEVEL),
        "x must",
    ),
    "scales": (lambda: WideResNetEnergy(SMALL, (1.0,)), r"len\(scales\) must be 3"),
    "embedding": (lambda: sinusoidal_embedding(LEVEL, 7), "n_features % 2 must be 0"),
}


test_refusals = refusals(CASES)
