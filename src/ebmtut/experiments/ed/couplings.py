"""How the couplings of an Ising model are learned from its samples.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import Count, NonNegative, OneOf, checked
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments.experiment import Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.losses import (
    Bernoulli,
    Grid,
    Perturbation,
    Pool,
    coupling_discrepancy_losses,
    energy_discrepancy_loss,
    pseudo_likelihood_loss,
)
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import make_generator
from ebmtut.training import CpuClock, TrainConfig, train

__all__ = [
    "METHODS",
    "PROBLEMS",
    "IsingConfig",
    "cells",
    "column_name",
    "edge_precision",
    "fit_couplings",
    "held_out_loss",
    "ising_job",
    "perturbation_of",
    "true_couplings",
]

METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")

# Columns of Table 3: side of the lattice and coupling sigma.
PROBLEMS = (
    (10, 0.1),
    (10, 0.2),
    (10, 0.3),
    (10, 0.4),
    (10, 0.5),
    (9, -0.1),
    (9, -0.2),
)


@checked
@dataclass(frozen=True)
class IsingConfig:
    """Which lattices, and how their couplings are learned.

    Parameters
    ----------
    problems
        Pairs (side, sigma): J is sigma times the adjacency of the periodic
        side x side lattice.
    methods
        Some of "ED-Bern", "ED-Grid", "ED-Pool".
    penalties
        Weights of the l1 penalty, mean |J_ij| over all entries; as in the
        paper, the best one for each cell is reported, and beside it the one
        that would have been chosen without knowing the truth.
    n_seeds
        Independent data sets and runs; run k has seed ``seed + k``.
    n_data, n_sweeps
        Samples, and Gibbs sweeps that each of them takes.
    n_negatives, stabilizer, eps
        M, w, and the noise of ED-Bern. The window of ED-Pool is the lattice.
    train
        How to train.
    """

    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    penalties: tuple[NonNegative, ...] = (10.0, 25.0, 60.0)
    n_seeds: Count = 1
    n_data: int = 2000
    n_sweeps: int = 10_000
    n_negatives: int = 32
    stabilizer: float = 1.0
    eps: float = 0.1
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            n_steps=1000,
            batch_size=256,
            learning_rate=1e-2,
            ema_decay=0.99,
            precision="float32",
        )
    )


def edge_precision(estimate: Tensor, truth: Tensor) -> float:
    """Part of the true edges among as many largest learned couplings.

    Parameters
    ----------
    estimate, truth
        Symmetric couplings, shape (d, d); an edge is a non-zero of ``truth``.
    """
    upper = torch.triu_indices(len(truth), len(truth), 1)
    is_edge = truth[upper[0], upper[1]] != 0
    strength = estimate[upper[0], upper[1]].abs()
    largest = strength.topk(int(is_edge.sum())).indices
    return float(is_edge[largest].double().mean())


def perturbation_of(method: str, config: IsingConfig, n_sites: int) -> Perturbation:
    """Return the perturbation that a method stands for."""
    if method == "ED-Bern":
        return Bernoulli(config.eps)
    return Grid() if method == "ED-Grid" else Pool(n_sites)


def fit_couplings(
    x: Float[Tensor, "n_data n_sites"],
    method: str,
    penalties: Sequence[float],
    config: IsingConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
    clock: CpuClock | None = None,
) -> Float[Tensor, "n_models n_sites n_sites"]:
    """Learn couplings from samples by energy discrepancy, or by its rival.

    All penalties side by side: a matrix each, with the same minibatches and negatives.

    Parameters
    ----------
    x
        Bits.
    method, penalties, config
        See `IsingConfig`; also "PL", pseudo-likelihood, whose loss is a sum
        over sites and asks for penalties some fifteen times as large.
    seed
        Seed of minibatches and noise.
    checkpoint
        File for the state of learning, which goes on from it; None for none.
    clock
        That counts the seconds of learning, of all goes.

    Returns
    -------
    couplings
        For each penalty, symmetric with a zero diagonal.
    """
    n_sites = x.shape[1]
    perturbation = None if method == "PL" else perturbation_of(method, config, n_sites)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        pick = torch.randint(len(x), (n,), generator=generator, device=x.device)
        return x[pick]

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        models = [model for model in energy.children() if isinstance(model, Ising)]
        if perturbation is None:
            values = torch.stack([pseudo_likelihood_loss(m, x) for m in models])
        else:
            values = coupling_discrepancy_losses(
                torch.stack([model.coupling for model in models]),
                x,
                perturbation,
                n_negatives=config.n_negatives,
                stabilizer=config.stabilizer,
                n_backward=8,
                generator=generator,
            )
        sizes = torch.stack([m.symmetric_coupling.abs().mean() for m in models])
        return (values + sizes.new_tensor(penalties) * sizes).sum()

    start = torch.zeros(n_sites, n_sites, device=x.device)
    models = nn.ModuleList(Ising(start, learnable=True) for _ in penalties)
    # No gradient of one model may shorten another's: each is clipped on its own.
    for parameter in models.parameters():
        parameter.register_hook(partial(_shortened, longest=config.train.clip_norm))
    together = config.train.clip_norm * 2 * len(penalties)
    clock = clock or CpuClock()
    result = train(
        models,
        loss,
        sample,
        replace(config.train, clip_norm=together),
        generator=make_generator(seed, str(x.device)),
        label=f"{method} Ising",
        buffers={"seconds": clock.seconds},
        on_step=clock.tick,
        checkpoint=checkpoint,
        identity={"method": method, "penalties": list(penalties), "seed": seed},
    )
    learned = [m for m in result.energy.children() if isinstance(m, Ising)]
    return torch.stack([model.symmetric_coupling for model in learned]).detach()


def _shortened(gradient: Tensor, *, longest: float) -> Tensor:
    """Scale a gradient down to the longest norm that it may have."""
    return gradient * (longest / (gradient.norm() + 1e-6)).clamp(max=1.0)


def held_out_loss(
    coupling: Tensor, x: Tensor, method: str, config: IsingConfig, seed: int
) -> float:
    """Energy discrepancy of couplings on fresh data, without the penalty."""
    generator = make_generator(seed, str(x.device))
    with torch.no_grad():
        return energy_discrepancy_loss(
            Ising(coupling),
            x,
            perturbation_of(method, config, x.shape[1]),
            n_negatives=config.n_negatives,
            stabilizer=config.stabilizer,
            generator=generator,
        ).item()


def ising_job(
    side: int,
    sigma: float,
    method: str,
    config: IsingConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Draw data of one lattice and learn its couplings at every penalty.

    Returns
    -------
    outcome
        Scalars at the best penalty and (``*_chosen``) at the one with the
        smallest held-out loss; the couplings at the best penalty.
    """
    generator = make_generator(seed, device)
    x = ising_samples(
        side, sigma, config.n_data, n_sweeps=config.n_sweeps, generator=generator
    )
    fresh = ising_samples(
        side, sigma, config.n_data, n_sweeps=config.n_sweeps, generator=generator
    )
    truth = sigma * lattice_adjacency(side).to(x)
    clock = CpuClock()
    fits = fit_couplings(
        x,
        method,
        config.penalties,
        config,
        seed=seed,
        checkpoint=checkpoint,
        clock=clock,
    )
    scores = [negative_log_rmse(fit, truth) for fit in fits]
    losses = [held_out_loss(fit, fresh, method, config, seed) for fit in fits]
    best, chosen = int(np.argmax(scores)), int(np.argmin(losses))
    return Outcome(
        {
            "nlr": scores[best],
            "penalty": config.penalties[best],
            "precision": edge_precision(fits[best], truth),
            "nlr_chosen": scores[chosen],
            "penalty_chosen": config.penalties[chosen],
            "null": negative_log_rmse(torch.zeros_like(truth), truth),
            "seconds": float(clock.seconds),
        },
        {"coupling": fits[best].cpu().numpy()},
    )


def column_name(side: int, sigma: float) -> str:
    """Name a column of Table 3 as the facts do."""
    return f"{side}x{side}, {sigma:g}"


def cells(config: IsingConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and lattice."""
    alone = replace(config, problems=(), methods=())
    return {
        (method, column_name(side, sigma)): {
            "side": side,
            "sigma": sigma,
            "method": method,
            "config": alone,
        }
        for method in config.methods
        for side, sigma in config.problems
    }


def true_couplings(config: IsingConfig, seed: int) -> Outcome:
    """Return the couplings of each lattice, as arrays ``truth/column``."""
    return Outcome(
        arrays={
            f"truth/{column_name(side, sigma)}": (sigma * lattice_adjacency(side))
            .float()
            .numpy()
            for side, sigma in config.problems
        }
    )
