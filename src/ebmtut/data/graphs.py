"""Random graphs by seed, the instances of combinatorial problems, by NetworkX.

The sizes are those of Ou et al. (2025, Appendix E.3), who do not print edge densities.
With the densities chosen here the mean optimum agrees with the paper's on all but the
smallest Erdős-Rényi graphs, where it is larger by 0.8.
"""

from __future__ import annotations

from typing import Any

import torch

from ebmtut.checks import Count, InputError, check_choice, check_range, checked
from ebmtut.energies import GraphBatch
from ebmtut.random import check_generator

__all__ = ["GRAPH_SIZES", "random_graphs"]

#: Least and most vertices of a graph, by the name of the size.
GRAPH_SIZES = {"16-20": (16, 20), "32-40": (32, 40), "64-75": (64, 75)}

#: What can be drawn: the density parameter of each family.
_FAMILIES = {"erdos-renyi": 0.15, "barabasi-albert": 4}


@checked
def random_graphs(
    family: str,
    n_graphs: Count,
    n_low: int,
    n_high: int,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> GraphBatch:
    """Sample random graphs whose sizes are uniform between two bounds.

    Parameters
    ----------
    family
        "erdos-renyi", every edge with probability 0.15, or "barabasi-albert", each
        vertex attached to 4 others.
    n_low, n_high
        Least and most vertices; above 4 for Barabasi-Albert.
    """
    check_choice("family", family, tuple(_FAMILIES))
    least = 5 if family == "barabasi-albert" else 1
    check_range("n_low", n_low, low=least, integer=True)
    check_range("n_high", n_high, low=n_low, integer=True)
    check_generator(generator)
    try:
        import networkx as nx
    except ImportError:
        raise InputError(
            "random_graphs needs NetworkX: pip install 'ebmtut[graphs]'"
        ) from None
    of: Any = {"generator": generator, "device": generator.device}
    sizes = torch.randint(n_low, n_high + 1, (n_graphs,), **of)
    seeds = torch.randint(2**31, (n_graphs,), **of)
    graphs = []
    for n, seed in zip(sizes.tolist(), seeds.tolist(), strict=True):
        if family == "erdos-renyi":
            graph = nx.fast_gnp_random_graph(n, _FAMILIES[family], seed=seed)
        else:
            graph = nx.barabasi_albert_graph(n, _FAMILIES[family], seed=seed)
        graphs.append((n, list(graph.edges)))
    return GraphBatch.from_edges(graphs, dtype=dtype)
