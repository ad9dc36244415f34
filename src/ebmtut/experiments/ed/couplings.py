"""How the couplings of an Ising model are learned from its samples.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut import losses
from ebmtut.checks import Count, NonNegative, OneOf, checked
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments.experiment import Cells, Names, Outcome
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import bernoulli, make_generator
from ebmtut.samplers import gwg, ising_gibbs, run_chain
from ebmtut.training import CpuClock, TrainConfig, train

DISCREPANCIES = ("ED-Bern", "ED-Grid", "ED-Pool")
# Pseudo-likelihood, and persistent chains of the likelihood: Gibbs takes a sweep per
# update, Gibbs with gradients as many single moves as stand here.
CHAINS = {"Gibbs": 1, "GWG": 20}
METHODS = (*DISCREPANCIES, "PL", *CHAINS)

# Columns of Table 3: side of the lattice and coupling sigma.
PROBLEMS = (*[(10, s) for s in (0.1, 0.2, 0.3, 0.4, 0.5)], (9, -0.1), (9, -0.2))


@checked
@dataclass(frozen=True)
class IsingConfig:
    """Which lattices (side and coupling), and how their couplings are learned."""

    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = DISCREPANCIES
    # Of the mean of |J_ij|. The likelihood has its own: its losses are sums over sites.
    penalties: tuple[NonNegative, ...] = (10.0, 25.0, 60.0)
    likelihood_penalties: tuple[NonNegative, ...] = (200.0, 400.0, 800.0)
    n_seeds: Count = 1
    n_seeds_near_order: Count = 1  # where couplings are 0.3 or 0.4
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
    """Return the fraction of true edges among as many largest learned couplings."""
    upper = torch.triu_indices(len(truth), len(truth), 1)
    is_edge = truth[upper[0], upper[1]] != 0
    strength = estimate[upper[0], upper[1]].abs()
    largest = strength.topk(int(is_edge.sum())).indices
    return float(is_edge[largest].double().mean())


def noise_of(method: str, config: IsingConfig, n_sites: int) -> losses.Perturbation:
    """Return the perturbation of a method; ED-Pool pools the whole lattice."""
    if method == "ED-Bern":
        return losses.Bernoulli(config.eps)
    return losses.Grid() if method == "ED-Grid" else losses.Pool(n_sites)


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
    """Learn couplings, a matrix for each penalty, from the same batches and noise."""
    n_sites = x.shape[1]
    generator = make_generator(seed, str(x.device))
    chains = torch.zeros(0, device=x.device)
    if method in CHAINS:
        shape = (len(penalties), config.train.batch_size, n_sites)
        chains = bernoulli(torch.full(shape, 0.5).to(x), generator=generator)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        pick = torch.randint(len(x), (n,), generator=generator, device=x.device)
        return x[pick]

    def likelihoods(
        models: Sequence[Ising], x: Tensor, generator: torch.Generator
    ) -> Tensor:
        if method == "PL":
            return torch.stack([losses.pseudo_likelihood_loss(m, x) for m in models])
        for model, chain in zip(models, chains, strict=True):
            n = CHAINS[method]
            if method == "Gibbs":
                chain[:] = ising_gibbs(model, chain, n, generator=generator)
            else:
                moved = run_chain(gwg(model), chain, n, generator=generator)
                chain[:] = moved.x_final
        apart = losses.contrastive_divergence_loss
        pairs = zip(models, chains, strict=True)
        return torch.stack([apart(model, x, chain) for model, chain in pairs])

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        models = [model for model in energy.children() if isinstance(model, Ising)]
        if method in DISCREPANCIES:
            values = losses.coupling_discrepancy_losses(
                torch.stack([model.coupling for model in models]),
                x,
                noise_of(method, config, n_sites),
                n_negatives=config.n_negatives,
                stabilizer=config.stabilizer,
                n_backward=8,
                generator=generator,
            )
        else:
            values = likelihoods(models, x, generator)
        sizes = torch.stack([m.symmetric_coupling.abs().mean() for m in models])
        return (values + sizes.new_tensor(penalties) * sizes).sum()

    start = torch.zeros(n_sites, n_sites, device=x.device)
    models = nn.ModuleList(Ising(start, learnable=True) for _ in penalties)
    # No gradient of one model may shorten another's: each is clipped on its own.
    longest = config.train.clip_norm
    for parameter in models.parameters():
        parameter.register_hook(
            lambda g: g * (longest / (g.norm() + 1e-6)).clamp(max=1.0)
        )
    together = longest * 2 * len(penalties)
    clock = clock or CpuClock()
    result = train(
        models,
        loss,
        sample,
        replace(config.train, clip_norm=together),
        generator=generator,
        label=f"{method} Ising",
        buffers={"seconds": clock.seconds, "chains": chains},
        on_step=clock.tick,
        checkpoint=checkpoint,
        identity={"method": method, "penalties": list(penalties), "seed": seed},
    )
    learned = [m for m in result.energy.children() if isinstance(m, Ising)]
    return torch.stack([model.symmetric_coupling for model in learned]).detach()


def held_out_loss(
    coupling: Tensor, x: Tensor, method: str, config: IsingConfig, seed: int
) -> float:
    """Return the loss on held-out data, for persistent chains the pseudo-likelihood."""
    with torch.no_grad():
        if method not in DISCREPANCIES:
            return losses.pseudo_likelihood_loss(Ising(coupling), x).item()
        noise = noise_of(method, config, x.shape[1])
        how: Any = {"n_negatives": config.n_negatives, "stabilizer": config.stabilizer}
        how["generator"] = make_generator(seed, str(x.device))
        return losses.energy_discrepancy_loss(Ising(coupling), x, noise, **how).item()


def ising_job(
    side: int,
    sigma: float,
    method: str,
    config: IsingConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Sample data of one lattice and learn its couplings at every penalty."""
    generator = make_generator(seed, device)
    x, held_out = (
        ising_samples(
            side, sigma, config.n_data, n_sweeps=config.n_sweeps, generator=generator
        )
        for _ in range(2)
    )
    truth = sigma * lattice_adjacency(side).to(x)
    penalties, clock = config.penalties, CpuClock()
    if method not in DISCREPANCIES:
        penalties = config.likelihood_penalties
    how: dict[str, Any] = {"seed": seed, "checkpoint": checkpoint, "clock": clock}
    fits = fit_couplings(x, method, penalties, config, **how)
    scores = [negative_log_rmse(fit, truth) for fit in fits]
    unseen = [held_out_loss(fit, held_out, method, config, seed) for fit in fits]
    best, chosen = int(np.argmax(scores)), int(np.argmin(unseen))
    return Outcome(
        {
            "nlr": scores[best],
            "penalty": penalties[best],
            "precision": edge_precision(fits[best], truth),
            "nlr_chosen": scores[chosen],
            "penalty_chosen": penalties[chosen],
            "null": negative_log_rmse(torch.zeros_like(truth), truth),
            "seconds": float(clock.seconds),
        },
        {"coupling": fits[best].cpu().numpy()},
    )


def column_name(side: int, sigma: float) -> str:
    """Name a column of Table 3 as the facts do."""
    return f"{side}x{side}, {sigma:g}"


def cells(config: Any) -> Cells:
    """Name an entry for every method and lattice of a configuration."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
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


def n_seeds(config: IsingConfig, entry: Names) -> int:
    """Return how many seeds an entry has: more where scores are close to J = 0."""
    near = {column_name(side, s) for side, s in config.problems if s in (0.3, 0.4)}
    return config.n_seeds_near_order if entry[1] in near else config.n_seeds


def true_couplings(config: IsingConfig, seed: int) -> Outcome:
    """Return the couplings of each lattice, as arrays ``truth/column``."""
    arrays = {
        f"truth/{column_name(*problem)}": problem[1] * lattice_adjacency(problem[0])
        for problem in config.problems
    }
    return Outcome(arrays={name: J.float().numpy() for name, J in arrays.items()})
