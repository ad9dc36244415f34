"""Twelve spins with two modes: what models trained with each loss give for the larger.

Ten data sets of each size; a model has a parameter for every pair and every spin. Run:
python -m studies.comparison.modes
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.losses import (
    Bernoulli,
    contrastive_divergence_loss,
    energy_discrepancy_loss,
    pseudo_likelihood_loss,
    ratio_matching_loss,
)
from ebmtut.random import make_generator
from ebmtut.samplers import boltzmann_gibbs
from ebmtut.states import enumerate_states
from studies.comparison import shared

N_SPINS, STRENGTH, FIELD = 12, 2.5, 0.05
SIZES = (1000, 3000, 10_000, 30_000)
N_STEPS, BATCH = 3000, 1000
STATES = enumerate_states(N_SPINS).float()
UP = STATES.sum(1) > N_SPINS / 2
#: Learning rates of losses with random points, which Adam minimises.
RATES = {
    "CD, 1 sweep": 0.05,
    "ED, one flip in ten": 0.2,
    "ED, four in ten": 0.05,
    "PCD": 0.005,
    "PCD, ten times faster": 0.05,
}


def true_model() -> BoltzmannMachine:
    """All pairs attract each other, and a small field prefers spins that are up."""
    coupling = STRENGTH / N_SPINS * (1 - torch.eye(N_SPINS)) / 2
    return BoltzmannMachine.from_ising(Ising(coupling, torch.full((N_SPINS,), FIELD)))


def p_up(model: BoltzmannMachine) -> float:
    """Probability that most spins are up."""
    return float((-model(STATES).detach()).softmax(0)[UP].sum())


def likelihood(model: BoltzmannMachine, x: Tensor) -> Tensor:
    """Exact negative log-likelihood."""
    return model(x).mean() + (-model(STATES)).logsumexp(0)


#: Losses without random points, which L-BFGS minimises to convergence.
EXACT = {
    "exact likelihood": likelihood,
    "pseudo-likelihood": pseudo_likelihood_loss,
    "ratio matching": ratio_matching_loss,
}


def random_loss(
    name: str, generator: torch.Generator
) -> Callable[[BoltzmannMachine, Tensor], Tensor]:
    """Return a loss that compares data with random points."""
    if name.startswith("ED"):
        flips = Bernoulli(0.4 if "four" in name else 0.1)
        how = {"n_negatives": 2, "generator": generator}
        return partial(energy_discrepancy_loss, perturbation=flips, **how)
    chains = torch.rand(BATCH, N_SPINS, generator=generator).round()

    def divergence(model: BoltzmannMachine, x: Tensor) -> Tensor:
        begin = chains if name.startswith("PCD") else x
        y = boltzmann_gibbs(model, begin, 1, generator=generator)
        if begin is chains:
            chains.copy_(y)
        return contrastive_divergence_loss(model, x, y)

    return divergence


def trained(name: str, data: Tensor, generator: torch.Generator) -> BoltzmannMachine:
    """Train a model on the data with one loss."""
    zeros = torch.zeros(N_SPINS, N_SPINS)
    model = BoltzmannMachine(zeros, zeros[0], learnable=True)
    if name in EXACT:
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=400, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            value = EXACT[name](model, data)
            value.backward()
            return value

        optimizer.step(closure)
        return model
    loss, rate = random_loss(name, generator), RATES[name]
    adam = torch.optim.Adam(model.parameters(), rate)
    decay = torch.optim.lr_scheduler.LinearLR(adam, 1, 0, N_STEPS)
    for _ in range(N_STEPS):
        x = data
        if len(data) > BATCH:
            x = data[torch.randint(len(data), (BATCH,), generator=generator)]
        adam.zero_grad()
        loss(model, x).backward()
        adam.step()
        decay.step()
    return model


def fits(name: str, seed: int) -> np.ndarray:
    """Train on a data set of each size; return sizes and probabilities."""
    p = exact_probabilities(true_model(), N_SPINS).exp()
    rows = []
    for n in SIZES:
        # The same data for all losses.
        generator = make_generator(10 * n + seed)
        data = STATES[p.multinomial(n, True, generator=generator)]
        rows.append((n, p_up(trained(name, data, generator))))
    return np.array(rows)


def study() -> None:
    """Train with every loss, and store the probabilities."""
    p = exact_probabilities(true_model(), N_SPINS).exp()
    shared.study(
        "modes of 12 spins",
        {
            **{name: {} for name in EXACT},
            **{name: {"rate": (rate,)} for name, rate in RATES.items()},
        },
        lambda name, options, seed: fits(name, seed),
        {"columns": ["samples", "P"], "shown": "P", "exact": float(p[UP].sum())},
        {"strength": STRENGTH, "field": FIELD, "steps": N_STEPS, "batch": BATCH},
        seeds=range(10),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    study()
