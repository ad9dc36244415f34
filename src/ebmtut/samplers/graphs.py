"""What finds good states of a graph problem without learning: annealing and greed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, checked
from ebmtut.energies import GraphBatch, GraphEnergy
from ebmtut.random import bernoulli, check_generator
from ebmtut.samplers.chain import Sampler, StepInfo, run_chain, start_energy
from ebmtut.samplers.gibbs import ColorGibbsState
from ebmtut.tensor_checks import check_bits

__all__ = ["anneal", "greedy_independent_set", "repair_independent_set", "vertex_gibbs"]


@checked
def anneal(
    kernel: Callable[[float], Sampler],
    x: Float[Tensor, "batch n_sites"],
    inverse_temperatures: Iterable[float],
    *,
    generator: torch.Generator,
    n_steps: Count = 1,
) -> Float[Tensor, "batch n_sites"]:
    """Run a chain whose distribution is annealed from step to step.

    Parameters
    ----------
    kernel, inverse_temperatures
        Inverse temperature to sampler, and those to take one after another.
    n_steps
        At each temperature.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import anneal, gibbs
    >>> x = torch.zeros(20, 9).index_fill(1, torch.tensor([0, 4]), 1.0)
    >>> x = anneal(
    ...     lambda beta: gibbs(LatticeIsing(3, beta)),
    ...     x,
    ...     [0.1, 0.3, 1.0, 3.0],
    ...     n_steps=90,
    ...     generator=make_generator(0),
    ... )
    >>> sorted(set(x.mean(1).tolist()))  # at low temperature all spins agree
    [0.0, 1.0]
    """
    check_bits("x", x)
    for inverse_temperature in inverse_temperatures:
        sampler = kernel(inverse_temperature)
        x = run_chain(sampler, x, n_steps, generator=generator).x_final
    return x


@checked
def vertex_gibbs(energy: GraphEnergy) -> Sampler:
    """Gibbs sampling on a batch of graphs; one step resamples every vertex in turn.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch, MaxCut
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import run_chain, vertex_gibbs
    >>> energy = MaxCut(GraphBatch.from_edges([(2, [(0, 1)])]), inverse_temperature=9)
    >>> g = make_generator(0)
    >>> x = run_chain(vertex_gibbs(energy), torch.zeros(5, 2), 20, generator=g).x_final
    >>> x.sum(1)  # one vertex on either side
    tensor([1., 1., 1., 1., 1.])
    """

    def init(x: Tensor) -> ColorGibbsState:
        start_energy(energy, x)
        return ColorGibbsState(x)

    @torch.no_grad()
    def step(
        state: ColorGibbsState, *, generator: torch.Generator
    ) -> tuple[ColorGibbsState, StepInfo]:
        x = state.x.clone()
        for site in range(x.shape[1]):
            chance = torch.sigmoid(energy.site_log_ratio(x, site))
            x[:, site] = (x[:, site] - bernoulli(chance, generator=generator)).abs()
        n_changed = (x - state.x).abs().sum(1)
        return ColorGibbsState(x), StepInfo(torch.ones_like(n_changed), n_changed)

    return Sampler(init, step)


@checked
def repair_independent_set(
    graphs: GraphBatch, x: Float[Tensor, "batch n_sites"], *, complete: bool = False
) -> Float[Tensor, "batch n_sites"]:
    """Drop vertices until no edge is left inside the chosen ones.

    Ou et al. (2025, Appendix D.3): in turn, a vertex that is still chosen drops its
    chosen neighbours.

    Parameters
    ----------
    complete
        Whether to choose, in turn, every vertex that then has no chosen neighbour.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.samplers import repair_independent_set
    >>> path = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])])
    >>> repair_independent_set(path, torch.ones(1, 3))
    tensor([[1., 0., 1.]])
    """
    check_bits("x", x, graphs.n_sites)
    inside = graphs.is_vertex[:, None].to(x)
    chosen = graphs.by_graph(x) * inside
    adjacency = graphs.adjacency.to(x)
    for site in range(graphs.n_sites):
        chosen = chosen * (1 - chosen[..., site, None] * adjacency[:, site, None])
    for site in range(graphs.n_sites) if complete else ():
        crowd = (chosen @ adjacency[:, site, :, None]).squeeze(2)
        alone = (crowd == 0) & graphs.is_vertex[:, site, None]
        chosen[..., site] = torch.where(alone, 1.0, chosen[..., site])
    return chosen.flatten(0, 1)


@checked
def greedy_independent_set(
    graphs: GraphBatch, n_copies: Count, *, generator: torch.Generator
) -> Float[Tensor, "batch n_sites"]:
    """Choose vertices in random order, each that has no chosen neighbour.

    Returns
    -------
    sets
        Maximal independent sets, ordered as in `GraphBatch.by_graph`.

    Examples
    --------
    >>> from ebmtut.energies import GraphBatch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import greedy_independent_set
    >>> star = GraphBatch.from_edges([(4, [(0, 1), (0, 2), (0, 3)])])
    >>> x = greedy_independent_set(star, 50, generator=make_generator(0))
    >>> sorted(set(x.sum(1).tolist()))  # the centre, or all others
    [1.0, 3.0]
    """
    adjacency = graphs.adjacency
    check_generator(generator, adjacency.device)
    chosen = adjacency.new_zeros(len(graphs), n_copies, graphs.n_sites)
    chance = torch.rand(
        chosen.shape, generator=generator, device=chosen.device, dtype=torch.float32
    )
    order = chance.argsort(2)
    inside = graphs.is_vertex[:, None].to(chosen)
    free = inside.expand_as(chosen).clone()
    graph = torch.arange(len(graphs), device=chosen.device)[:, None]
    for place in range(graphs.n_sites):
        site = order[..., place, None]
        take = free.gather(2, site)
        chosen = chosen.scatter_add(2, site, take)
        free = free * (1 - take * adjacency[graph, order[..., place]])
        free = free.scatter(2, site, 0.0)
    return chosen.flatten(0, 1)
