"""Samples of a magnet, and how the couplings that are learned from them are scored.

The data are those of the row ed/ising-rmse: the same lattices, samples and score.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.data import ising_samples
from ebmtut.energies import lattice_adjacency
from ebmtut.experiments.ed.couplings import edge_precision
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import make_generator


def magnet(
    side: int, sigma: float, n_data: int, n_sweeps: int, *, seed: int
) -> tuple[Float[Tensor, "n_data n_sites"], Float[Tensor, "n_sites n_sites"]]:
    """Draw data of a periodic lattice."""
    generator = make_generator(seed)
    x = ising_samples(side, sigma, n_data, n_sweeps=n_sweeps, generator=generator)
    return x, sigma * lattice_adjacency(side).to(x)


def coupling_scores(
    learned: Float[Tensor, "n_sites n_sites"], truth: Float[Tensor, "n_sites n_sites"]
) -> dict[str, float]:
    """Score couplings against the true ones."""
    return {
        "nlr": negative_log_rmse(learned, truth),
        "null": negative_log_rmse(torch.zeros_like(truth), truth),
        "precision": edge_precision(learned, truth),
    }
