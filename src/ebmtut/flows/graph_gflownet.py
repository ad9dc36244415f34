"""A GFlowNet on independent sets, the neural baseline of Ou et al. (2025, Table 1).

Zhang et al., "Let the flows tell" (2023): a move adds a vertex that has no chosen
neighbour, until none is left. With Z P_F(trajectory) = exp(k / T) / k! for all
trajectories to k vertices, maximal sets are sampled in proportion to exp(k / T).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmtut._layers import linear, source_of_weights
from ebmtut.checks import Count, Natural, NonNegative, Probability, check_range, checked
from ebmtut.energies import GraphBatch
from ebmtut.flows.gflownet import explored
from ebmtut.random import check_generator

__all__ = ["SetPolicy", "SetWays", "balance_variance", "set_ways"]

_MOVES_BETWEEN_LOOKS = 4


class SetWays(NamedTuple):
    """Trajectories from the empty set to maximal independent sets.

    Attributes
    ----------
    x
        Last states: bits, graph by graph.
    log_forward
        Log-probability under the policy.
    log_backward
        Under the uniform backward policy, -log k! for k vertices.
    """

    x: Float[Tensor, "batch n_sites"]
    log_forward: Float[Tensor, " batch"]
    log_backward: Float[Tensor, " batch"]


def free_vertices(
    graphs: GraphBatch, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, "batch n_sites"]:
    """Mark vertices that are not chosen and have no chosen neighbour."""
    inside = graphs.of_rows(graphs.is_vertex.to(x), len(x))
    return inside * (x + graphs.neighbor_sums(x) == 0)


class SetPolicy(nn.Module):
    """Which free vertex to add next: one network of messages for all graphs.

    The network sees the graph of the free vertices alone, and how many were chosen.

    Parameters
    ----------
    width, n_rounds
        Hidden features of a vertex, and rounds of messages.
    generator
        Source of the weights; None takes a fresh one of seed 0.
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
        self.first = linear(2, width, generator)
        self.rounds = nn.ModuleList(
            linear(3 * width, width, generator) for _ in range(n_rounds)
        )
        self.readout = linear(width, 1, generator)

    def forward(
        self, graphs: GraphBatch, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log-probabilities of the next vertex; all -inf where none is free."""
        free = free_vertices(graphs, x)
        left = graphs.by_graph(free)[..., None]
        adjacency = graphs.adjacency.to(x)[:, None]
        degree = adjacency @ left
        chosen = graphs.by_graph(x).sum(2, keepdim=True)[..., None].expand_as(left)
        seen = torch.cat([degree.add(1).log(), chosen.add(1).log()], 3)
        hidden = silu(self.first(seen))
        for layer in self.rounds:
            total = adjacency @ (left * hidden)
            mean = total / degree.clamp(min=1)
            hidden = hidden + silu(layer(torch.cat([hidden, mean, total / 8], 3)))
        score = self.readout(hidden).squeeze(3).flatten(0, 1)
        # A value in the place of -inf, so that a row without a move has no NaN.
        score = score.masked_fill(free == 0, torch.finfo(score.dtype).min)
        return score.log_softmax(1).masked_fill(free == 0, -torch.inf)


@checked
def set_ways(
    policy: nn.Module,
    graphs: GraphBatch,
    n_copies: Count,
    *,
    generator: torch.Generator,
    explore: Probability = 0,
) -> SetWays:
    """Add vertices until none is free, differentiably.

    Parameters
    ----------
    policy
        Maps graphs and sets to log-probabilities of the next vertex.
    n_copies
        Trajectories for each graph.
    explore
        Probability of a uniform move; the log-probabilities are still the policy's.
    """
    check_generator(generator, graphs.adjacency.device)
    x = graphs.adjacency.new_zeros(len(graphs) * n_copies, graphs.n_sites)
    log_forward = x.new_zeros(len(x))
    for number in range(graphs.n_sites):
        free = free_vertices(graphs, x)
        # Checked only every few moves, since a GPU waits for the result; a move
        # where no vertex is free changes nothing.
        if number % _MOVES_BETWEEN_LOOKS == 0 and not bool(free.any()):
            break
        logits = policy(graphs, x)
        move = explored(logits, explore, generator=generator)[:, None]
        is_open = free.gather(1, move).squeeze(1)
        taken = logits.gather(1, move).squeeze(1)
        log_forward = log_forward + torch.where(is_open > 0, taken, 0.0)
        x = x.scatter_add(1, move, is_open[:, None])
    return SetWays(x, log_forward, -(x.sum(1) + 1).lgamma())


@checked
def balance_variance(
    graphs: GraphBatch, ways: SetWays, inverse_temperature: NonNegative
) -> Float[Tensor, ""]:
    """Mean over graphs of the variance of log P_F - log P_B - k/T among trajectories.

    It is zero if and only if all trajectories of a graph are balanced with the same Z,
    which need not be known.

    Parameters
    ----------
    ways, inverse_temperature
        At least two trajectories for each graph, and 1/T.
    """
    check_range("ways of a graph", len(ways.x) // len(graphs), low=2)
    size = ways.x.sum(1)
    off = ways.log_forward - ways.log_backward - inverse_temperature * size
    return off.unflatten(0, (len(graphs), -1)).var(1).mean()
