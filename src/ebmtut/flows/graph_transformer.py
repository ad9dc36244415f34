"""leGF: the locally equivariant transformer over graphs, with Graphormer's biases.

Ou et al. (2025, Appendix D.4). Two streams read the vertices forwards and backwards. A
learned number for each distance is added to every attention score (Ying et al., 2021),
degrees are embedded, and a last attention reads both streams for each vertex.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmtut._layers import linear, normal_weights, source_of_weights
from ebmtut.checks import Count, checked
from ebmtut.energies import GraphBatch
from ebmtut.flows.graphs import GraphWeights, NetworkOnGraphs
from ebmtut.flows.networks import TimeFeatures, check_heads
from ebmtut.flows.transformer import CausalBlock, _attend, split_heads

__all__ = ["HollowGraphTransformer"]

#: Distances from here on share one bias.
FARTHEST = 8
#: Degrees from here on share one embedding.
MOST_NEIGHBORS = 48


def hop_distances(graphs: GraphBatch) -> Int[Tensor, "n_graphs n_sites n_sites"]:
    """Least number of edges between every two sites, -1 where no path exists."""
    n, adjacency = graphs.n_sites, graphs.adjacency
    itself = torch.eye(n, dtype=torch.float32, device="cpu").to(adjacency)
    step, reached = adjacency + itself, itself.expand_as(adjacency)
    distance = torch.where(reached > 0, 0, -1)
    for length in range(1, n):
        reached = (reached @ step).clamp(max=1)
        fresh = (reached > 0) & (distance < 0)
        if not fresh.any():
            break
        distance = torch.where(fresh, length, distance)
    return distance


class HollowGraphTransformer(GraphWeights):
    """leGF, for every graph; `on` gives the network of a batch of graphs.

    G depends on the order in which vertices are named, but not on its direction.

    Parameters
    ----------
    width, n_layers
        Features of a vertex, and causal layers; the paper has 5 of width 256.
    n_heads
        Heads of every attention; divides the width.
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.flows import HollowGraphTransformer
    >>> graphs = GraphBatch.from_edges([(3, [(0, 1), (1, 2)]), (2, [(0, 1)])])
    >>> network = HollowGraphTransformer(width=8, n_heads=2)
    >>> network.on(graphs)(torch.zeros(2, 3), torch.tensor([0.5, 0.5])).shape
    torch.Size([2, 3])
    """

    @checked
    def __init__(
        self,
        *,
        width: Count = 32,
        n_layers: Count = 2,
        n_heads: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = source_of_weights(generator)
        check_heads(n_heads, width)
        self.width = width
        self.n_heads = n_heads
        self.token = normal_weights(2, width, generator=generator)
        self.degree = normal_weights(
            MOST_NEIGHBORS + 1, width, scale=0.5, generator=generator
        )
        self.time = TimeFeatures(width, generator=generator)
        # One number a head and distance, shared by all layers; the last is for
        # vertices without a path between them.
        self.far = normal_weights(FARTHEST + 2, n_heads, scale=0.5, generator=generator)
        self.blocks = nn.ModuleList(
            CausalBlock(width, n_heads, generator) for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.keys_values = linear(width, 2 * width, generator)
        self.query = linear(width, width, generator)
        # Key and value that are always there, even if no vertex is before or behind.
        self.nobody = normal_weights(2, width, scale=0.5, generator=generator)
        self.merge = linear(width, width, generator)
        self.after = linear(width, width, generator)
        self.readout = linear(width, 1, generator)

    def on(self, graphs: GraphBatch) -> NetworkOnGraphs:
        """Return the network of some graphs."""
        return _TransformerOnGraphs(self, graphs)


class _TransformerOnGraphs(NetworkOnGraphs):
    """Its streams over the vertices of the graphs."""

    weights: HollowGraphTransformer

    def __init__(self, weights: HollowGraphTransformer, graphs: GraphBatch) -> None:
        super().__init__(weights, graphs)
        distance = hop_distances(graphs)
        near = distance.clamp(max=FARTHEST)
        self.far = torch.where(distance < 0, FARTHEST + 1, near)
        degree = graphs.adjacency.sum(2).long()
        self.degree = degree.clamp(max=MOST_NEIGHBORS)
        n = graphs.n_sites
        before = torch.ones(n, n, dtype=torch.bool, device="cpu").tril(-1)
        # Of both streams: the vertices on the side that has been read.
        read = torch.stack([before, before.mT]).to(self.far.device)
        self.read = read[:, None] & graphs.is_vertex[:, None, :]

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site of every state that its own bit is no part of."""
        w, graphs = self.weights, self.graphs
        place = w.degree[self.degree]
        time = w.time(t.unflatten(0, (len(graphs), -1))[:, 0])
        place = (place + time[:, None])[:, None]
        near = w.far[self.far].movedim(-1, 1)[:, None]
        # In the blocks a site also reads itself, which the last attention leaves out.
        itself = torch.eye(graphs.n_sites, dtype=torch.bool, device=x.device)
        bias = _closed(near, (self.read | itself)[:, :, None, None])
        bits = graphs.by_graph(x)[..., None]
        h = (1 - bits) * w.token[0] + bits * w.token[1] + place
        h = h.expand(2, *h.shape)
        for block in w.blocks:
            h = block(h, bias)
        k, v = split_heads(w.keys_values(w.norm(h)), 2, w.n_heads)
        # Both streams side by side, behind the one key that is always there.
        nobody = w.nobody.unflatten(1, (1, w.n_heads, -1)).transpose(1, 2)
        shape = (*k.shape[1:4], 1, k.shape[5])
        k, v = (
            torch.cat([own.expand(shape), *streams], 3)
            for own, streams in zip(nobody, (k, v), strict=True)
        )
        bias = _closed(near, self.read[:, :, None, None])
        bias = nn.functional.pad(torch.cat(list(bias), -1), (1, 0))
        q = split_heads(w.query(place), 1, w.n_heads)[0]
        q = q.expand(-1, k.shape[1], -1, -1, -1)
        seen = _attend(q, k, v, bias)
        hidden = place + w.merge(seen.transpose(2, 3).flatten(3))
        hidden = hidden + silu(w.after(hidden))
        return hidden.flatten(0, 1)


def _closed(
    bias: Float[Tensor, "..."], is_open: Bool[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """Minus infinity where a site must not read: a factor of zero would leak."""
    return torch.where(is_open, bias, -math.inf)
