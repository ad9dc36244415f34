"""What data refuse beyond the ranges that their signatures declare."""

import networkx as nx
import torch

from ebmtut.data import (
    contours,
    density_log_prob,
    density_scale,
    glyph_digits,
    ising_samples,
    load_celeba,
    load_lsun,
    pairwise_graph,
)
from ebmtut.random import make_generator
from tests.shared import refusals

EDGE = nx.path_graph(2)
CASES = {
    "density": (lambda: density_scale("moon"), ".*2spirals.*got 'moon' .*'moons'"),
    "points": (lambda: density_log_prob("moons", torch.zeros(3)), "points must have"),
    "nan": (
        lambda: density_log_prob("checkerboard", torch.full((1, 2), torch.nan)),
        "points must be finite, got 2 NaN",
    ),
    "lattice": (
        lambda: ising_samples(2, 0.1, 5, generator=make_generator(0)),
        "side must be an integer >= 3, got 2",
    ),
    "digits": (
        lambda: glyph_digits(1, generator=make_generator(0), side=4),
        "side must be an integer >= 8, got 4",
    ),
    "shrink": (lambda: contours(torch.zeros(1, 3, 9), shrink=4), "shrink must be a"),
    "images": (lambda: contours(torch.zeros(4, 4)), "images"),
    "faces": (lambda: load_celeba("train", n=162_771, offline=True), "n must"),
    "category": (lambda: load_lsun("tower", offline=True), "category"),
    "split": (lambda: load_lsun("bedroom", split="test", offline=True), "split"),
    "no graph": (lambda: pairwise_graph([(0, 1)]), "graph must be a networkx.Graph"),
    "directed": (lambda: pairwise_graph(nx.DiGraph([(0, 1)])), ".*got DiGraph"),
    "no vertex": (lambda: pairwise_graph(nx.Graph()), "graph must have a vertex"),
    "loop": (lambda: pairwise_graph(nx.Graph([(0, 0)])), ".*no loop, got one at 0"),
    "weight": (lambda: pairwise_graph(EDGE, weight="w"), "weight must be an"),
    "number": (
        lambda: pairwise_graph(nx.Graph([(0, 1, {"w": "2"})]), weight="w"),
        ".*w at 0 and 1 must be a number",
    ),
    "dtype": (lambda: pairwise_graph(EDGE, dtype=torch.int64), "dtype must be"),
}


test_refusals = refusals(CASES)
