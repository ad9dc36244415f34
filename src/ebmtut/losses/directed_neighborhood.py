"""Neighbourhoods of an enumerated space, as a perturbation of energy discrepancy.

Source: Schröder, Ou, Li and Duncan (2023), "Training Discrete Energy-Based
Models with Energy Discrepancy", Appendix C.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.losses.perturbations import Negatives, check_draw

__all__ = ["DirectedNeighborhood"]


@dataclass(frozen=True)
class DirectedNeighborhood:
    """Neighbourhoods that differ from their inverses (Appendix C.4).

    Enumerated spaces only. The reverse step is uniform on N^-1(y), and each x' carries
    the weight |N^-1(y)| / |N(x')|.

    Parameters
    ----------
    neighbors
        ``neighbors[i]`` lists the neighbours of state ``i``, at least one.
    index
        Maps states to their rows in ``states``.

    Examples
    --------
    One bit rises, and 11 falls to 00. From 01 or 10 the step leads to 11, whose inverse
    neighbourhood has two states with one neighbour each: they weigh 2.

    >>> from ebmtut.losses import DirectedNeighborhood
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.states import enumerate_states, states_to_index
    >>> states, near = enumerate_states(2).float(), ((1, 2), (3,), (3,), (0,))
    >>> rising = DirectedNeighborhood(states, near, states_to_index)
    >>> negatives = rising.negatives(states, 5, generator=make_generator(0))
    >>> negatives.log_weight.exp()[:, 0]  # of 00, 01, 10 and 11
    tensor([0.5000, 2.0000, 2.0000, 1.0000])
    """

    states: Float[Tensor, "n_all n_sites"]
    neighbors: tuple[tuple[int, ...], ...]
    index: Callable[[Float[Tensor, "batch n_sites"]], Int[Tensor, " batch"]]

    def __post_init__(self) -> None:
        if len(self.neighbors) != len(self.states):
            raise InputError(
                f"neighbors has {len(self.neighbors)} lists for "
                f"{len(self.states)} states: give one a state"
            )
        for i, near in enumerate(self.neighbors):
            if not near:
                raise InputError(
                    f"neighbors[{i}] is empty: every state needs a neighbour"
                )
            for j in near:
                high = len(self.states) - 1
                check_range(f"neighbors[{i}]", j, low=0, high=high, integer=True)

    def adjacency(self) -> Float[Tensor, "n_all n_all"]:
        """Return A with A[x, y] = 1 where y is in N(x)."""
        n = len(self.states)
        adjacency = self.states.new_zeros(n, n)
        for i, near in enumerate(self.neighbors):
            adjacency[i, list(near)] = 1
        return adjacency

    def negatives(
        self,
        x: Float[Tensor, "batch n_sites"],
        n_negatives: int,
        *,
        generator: torch.Generator,
    ) -> Negatives:
        """Draw y from N(x) and x' from N^-1(y), with log-weights."""
        check_draw(x, n_negatives, generator)
        adjacency = self.adjacency().to(x)
        y = torch.multinomial(adjacency[self.index(x)], 1, generator=generator)
        inverse = adjacency.T[y.squeeze(1)]  # row: who has y as a neighbour
        back = torch.multinomial(
            inverse, n_negatives, replacement=True, generator=generator
        )
        n_out = adjacency.sum(1)[back]
        n_in = inverse.sum(1, keepdim=True)
        return Negatives(self.states.to(x)[back], n_in.log() - n_out.log())
