"""One flow for many graphs: a locally equivariant network that passes messages.

Lighter than the transformer of Ou et al. (2025, Appendix D.4). A neighbour's message is
about its spin and the spins around it *without the receiving vertex*, so that no
message depends on the receiver's state; after two ordinary rounds one would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmtut._layers import linear, source_of_weights
from ebmtut.checks import Count, Natural, checked
from ebmtut.energies import GraphBatch
from ebmtut.flows.networks import TimeFeatures
from ebmtut.tensor_checks import check_shape

__all__ = ["GraphFlowNetwork", "GraphWeights", "NetworkOnGraphs"]


class GraphWeights(nn.Module, ABC):
    """Weights that serve every graph; `on` gives the network of a batch of graphs."""

    readout: nn.Linear

    @abstractmethod
    def on(self, graphs: GraphBatch) -> NetworkOnGraphs:
        """Return the network of some graphs."""


class NetworkOnGraphs(nn.Module, ABC):
    """G of every vertex's flip, zero at padded sites; see `GraphWeights.on`."""

    @checked
    def __init__(self, weights: GraphWeights, graphs: GraphBatch) -> None:
        super().__init__()
        self.weights = weights
        self.graphs = graphs
        self.n_sites = graphs.n_sites
        self.n_states = 2

    @abstractmethod
    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site of every state that its own bit is no part of."""

    def forward(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites"]:
        """G of every flip of the bits, which lie graph by graph."""
        check_shape("x", x, (None, self.n_sites))
        score: Tensor = self.weights.readout(self.hollow(x, t)).squeeze(2)
        inside = self.graphs.of_rows(self.graphs.is_vertex.to(x), len(x))
        return inside * (1 - 2 * x) * score


class GraphFlowNetwork(GraphWeights):
    """The network of messages, for every graph.

    Parameters
    ----------
    width, n_rounds
        Features of a vertex and of a message; rounds that do not see its state.
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.flows import GraphFlowNetwork
    >>> graphs = GraphBatch.from_edges([(3, [(0, 1), (1, 2)]), (2, [(0, 1)])])
    >>> network = GraphFlowNetwork(width=8)
    >>> network.on(graphs)(torch.zeros(2, 3), torch.tensor([0.5, 0.5])).shape
    torch.Size([2, 3])
    """

    @checked
    def __init__(
        self,
        *,
        width: Count = 32,
        n_rounds: Natural = 3,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = source_of_weights(generator)
        self.width = width
        self.first = linear(2, width, generator)
        self.rounds = nn.ModuleList(
            linear(3 * width, width, generator) for _ in range(n_rounds)
        )
        self.time = TimeFeatures(width, generator=generator)
        self.sender = linear(width, width, generator, bias=False)
        self.receiver = linear(width, width, generator)
        self.said = linear(3, width, generator, bias=False)
        self.heard = linear(width + 1, width, generator)
        self.after = linear(width, width, generator)
        self.readout = linear(width, 1, generator)

    def on(self, graphs: GraphBatch) -> NetworkOnGraphs:
        """Return the network of some graphs."""
        return _MessagesOnGraphs(self, graphs)

    def places(
        self, adjacency: Float[Tensor, "n_graphs n_sites n_sites"]
    ) -> Float[Tensor, "n_graphs n_sites width"]:
        """Features of every vertex that depend on the graph alone."""
        degree = adjacency.sum(2, keepdim=True)
        share = degree / degree.sum(1, keepdim=True).clamp(min=1)
        hidden = silu(self.first(torch.cat([degree.add(1).log(), share], 2)))
        for layer in self.rounds:
            total = adjacency @ hidden
            mean = total / degree.clamp(min=1)
            inputs = torch.cat([hidden, mean, total / 8], 2)
            hidden = hidden + silu(layer(inputs))
        return hidden


class _MessagesOnGraphs(NetworkOnGraphs):
    """Its messages along the edges of the graphs."""

    weights: GraphFlowNetwork

    def __init__(self, weights: GraphFlowNetwork, graphs: GraphBatch) -> None:
        super().__init__(weights, graphs)
        graph, tail, head = graphs.adjacency.nonzero(as_tuple=True)
        self.tail = graph * graphs.n_sites + tail
        self.head = graph * graphs.n_sites + head

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site of every state that its own bit is no part of."""
        w, graphs = self.weights, self.graphs
        place = w.places(graphs.adjacency.to(x)).flatten(0, 1)
        s = (2 * x - 1) * graphs.of_rows(graphs.is_vertex.to(x), len(x))
        # All graphs' sites as rows, copies as columns: an edge is a pair of rows.
        field = self.by_site(graphs.neighbor_sums(s))
        s = self.by_site(s)
        time = w.time(t.unflatten(0, (len(graphs), -1))[:, 0])
        time = time.repeat_interleave(graphs.n_sites, 0)
        sender, receiver = w.sender(place), w.receiver(place + time)
        spoken = s[self.tail]
        others = field[self.tail] - s[self.head]
        words = torch.stack([spoken, others / 4, spoken * others / 4], 2)
        known = (sender[self.tail] + receiver[self.head])[:, None]
        # A small product for each edge: the gradient of one long and thin product
        # takes ten times as long.
        said = w.said.weight.T.expand(len(words), -1, -1)
        message = silu(torch.baddbmm(known, words, said))
        total = message.new_zeros(*s.shape, w.width).index_add(0, self.head, message)
        heard = torch.cat([total / 4, field[..., None] / 4], 2)
        hidden = silu(w.heard(heard) + (place + time)[:, None])
        hidden = hidden + silu(w.after(hidden))
        return hidden.unflatten(0, (len(graphs), -1)).transpose(1, 2).flatten(0, 1)

    def by_site(self, values: Float[Tensor, "batch n_sites"]) -> Tensor:
        """Lay out what belongs to sites of states as (all graphs' sites, copies)."""
        return self.graphs.by_graph(values).transpose(1, 2).flatten(0, 1)
