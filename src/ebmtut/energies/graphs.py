"""Combinatorial problems as energies, over a batch of graphs of different sizes.

Ou et al. (2025), Section 4.3 and Appendix D.3. States are bits on the vertices of a
`GraphBatch`, whose padding enters no energy.
"""

from __future__ import annotations

from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import NonNegative, Range, checked
from ebmtut.energies.base import Energy
from ebmtut.energies.graph_batch import GraphBatch
from ebmtut.states import bits_to_spins
from ebmtut.tensor_checks import check_states

__all__ = ["GraphEnergy", "MaxCut", "MaxIndependentSet"]


class GraphEnergy(Energy):
    """An energy of bits on the vertices of a batch of graphs.

    Rows of `x` come graph by graph, as many for each (`GraphBatch.by_graph`).

    Parameters
    ----------
    inverse_temperature
        1/T of Ou et al. (2025), Eq. 14.
    """

    @checked
    def __init__(
        self, graphs: GraphBatch, *, inverse_temperature: NonNegative = 1
    ) -> None:
        super().__init__()
        self.graphs = graphs
        self.n_sites = graphs.n_sites
        self.inverse_temperature = inverse_temperature

    def constructor_arguments(self) -> dict[str, Any]:
        """The graphs as tensors, and the numbers."""
        graphs = self.graphs
        tensors = {"adjacency": graphs.adjacency, "n_vertices": graphs.n_vertices}
        return tensors | self._numbers()

    def _numbers(self) -> dict[str, Any]:
        """What the problem has besides its graphs."""
        return {"inverse_temperature": self.inverse_temperature}

    @classmethod
    def from_arguments(
        cls, adjacency: Tensor, n_vertices: Tensor, **numbers: float
    ) -> GraphEnergy:
        """Make the energy that has these `constructor_arguments`."""
        return cls(GraphBatch(adjacency, n_vertices), **numbers)

    def at(self, inverse_temperature: float) -> GraphEnergy:
        """Return the same problem at another inverse temperature."""
        numbers = self._numbers() | {"inverse_temperature": inverse_temperature}
        return type(self)(self.graphs, **numbers)

    def of(self, graphs: GraphBatch) -> GraphEnergy:
        """Return the same problem on other graphs."""
        return type(self)(graphs, **self._numbers())

    def score(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Return what is to be made large, in units of the problem."""
        raise NotImplementedError

    def site_log_ratio(
        self, x: Float[Tensor, "batch n_sites"], site: int
    ) -> Float[Tensor, " batch"]:
        """Log p(x with one site flipped) - log p(x) at a site.

        The n_sites of them together cost what `flip_log_ratios` costs.
        """
        raise NotImplementedError


class MaxIndependentSet(GraphEnergy):
    """Maximum independent set: E(x) = (-1'x + penalty x'Ax / 2) / T.

    Ou et al. (2025), Eqs. 14 and 46. Above 1 the penalty makes every optimum
    an independent set; the paper takes 1.0001.

    Parameters
    ----------
    penalty, inverse_temperature
        lambda, at least 1, and 1/T.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch, MaxIndependentSet
    >>> path = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])])
    >>> energy = MaxIndependentSet(path, penalty=2)
    >>> energy(torch.tensor([[1.0, 0.0, 1.0]]))  # minus the size of the set
    tensor([-2.])
    """

    @checked
    def __init__(
        self,
        graphs: GraphBatch,
        *,
        penalty: Annotated[float, Range(low=1)] = 1.0001,
        inverse_temperature: float = 1,
    ) -> None:
        super().__init__(graphs, inverse_temperature=inverse_temperature)
        self.penalty = penalty

    def _numbers(self) -> dict[str, Any]:
        return super()._numbers() | {"penalty": self.penalty}

    def score(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Chosen vertices less the penalty of the edges among them."""
        crowd = self.penalty * self.graphs.neighbor_sums(x) / 2
        inside = x * self.graphs.of_rows(self.graphs.is_vertex.to(x), len(x))
        return (inside - x * crowd).sum(1)

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of bits."""
        return -self.inverse_temperature * self.score(x)

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x) = (1-2x_i)(1 - penalty Ax)_i / T.

        Eq. 47 prints x for the 1, and a penalty twice as small: it counts half of each
        edge.
        """
        gain = 1 - self.penalty * self.graphs.neighbor_sums(x)
        inside = self.graphs.of_rows(self.graphs.is_vertex.to(x), len(x))
        return self.inverse_temperature * inside * (1 - 2 * x) * gain

    def site_log_ratio(
        self, x: Float[Tensor, "batch n_sites"], site: int
    ) -> Float[Tensor, " batch"]:
        """Log p(x with the site flipped) - log p(x)."""
        x = self.graphs.by_graph(x)
        crowd = x @ self.graphs.adjacency[:, site, :, None].to(x)
        inside = self.graphs.is_vertex[:, site, None].to(x)
        gain = inside * (1 - self.penalty * crowd.squeeze(2))
        return (self.inverse_temperature * (1 - 2 * x[..., site]) * gain).flatten()


class MaxCut(GraphEnergy):
    """Maximum cut: E(x) = s'As / 4T on spins s = 2x - 1, which is n_edges/2 - cut.

    Ou et al. (2025), Eq. 49.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch, MaxCut
    >>> energy = MaxCut(GraphBatch(1 - torch.eye(3)[None], torch.tensor([3])))
    >>> energy.score(torch.tensor([[1.0, 0.0, 0.0]]))  # edges that are cut
    tensor([2.])
    """

    def score(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Edges between the two sides."""
        return (x * self.graphs.neighbor_sums(1 - x)).sum(1)

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of bits."""
        s = self._spins(x)
        return self.inverse_temperature * (s * self.graphs.neighbor_sums(s)).sum(1) / 4

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x) = s_i (As)_i / T.

        Eq. 50 prints -As/2: the site's own spin and both ends of an edge are missing.
        """
        s = self._spins(x)
        return self.inverse_temperature * s * self.graphs.neighbor_sums(s)

    def site_log_ratio(
        self, x: Float[Tensor, "batch n_sites"], site: int
    ) -> Float[Tensor, " batch"]:
        """Log p(x with the site flipped) - log p(x)."""
        s = self.graphs.by_graph(self._spins(x))
        field = (s @ self.graphs.adjacency[:, site, :, None].to(s)).squeeze(2)
        return (self.inverse_temperature * s[..., site] * field).flatten()

    def _spins(self, x: Tensor) -> Tensor:
        check_states("x", x, self.n_sites)
        return bits_to_spins(x)
