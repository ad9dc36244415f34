"""Gibbs sweeps of models of pairs by the fastest kernel on the tensor's device."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._gpu import runs_triton
from ebmtut.energies import Ising, LatticeIsing, PairwiseGraph
from ebmtut.kernels import dense_gibbs, graph_gibbs, lattice_gibbs
from ebmtut.random import spawn_seed


def gibbs_by_kernel(
    model: Ising | LatticeIsing | PairwiseGraph,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    generator: torch.Generator,
) -> Float[Tensor, "batch n_sites"] | None:
    """Sweep chains, which the generator seeds; the same distribution as the reference.

    The plain references are `ebmtut.samplers.ising_gibbs_reference` and `color_gibbs`.
    Returns None, and samples nothing, where no kernel runs on the device of ``x``.
    """
    task = (x, n_sweeps)
    if runs_triton(x) and not isinstance(model, Ising):
        from ebmtut.kernels.gibbs_triton import graph_gibbs as graph_on_gpu
        from ebmtut.kernels.gibbs_triton import lattice_gibbs as lattice_on_gpu

        if isinstance(model, LatticeIsing):
            return lattice_on_gpu(model, *task, spawn_seed(generator))
        return graph_on_gpu(model, *task, spawn_seed(generator))
    if isinstance(model, Ising):
        # Nine launches for each site would take longer than a copy there and back.
        swept = dense_gibbs.dense_gibbs(model, x.cpu(), n_sweeps, spawn_seed(generator))
        return swept.to(x.device)
    if x.device.type != "cpu":
        return None
    if isinstance(model, LatticeIsing):
        return lattice_gibbs.lattice_gibbs(model, *task, spawn_seed(generator))
    return graph_gibbs.graph_gibbs(model, *task, spawn_seed(generator))
