"""Losses that learn the same energies in equal time, compared with exact answers.

Every method takes Adam steps on batches of equal size until the budget of CPU seconds
is spent. Run: python -m studies.comparison.learning [PROBLEM ...]
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut import losses
from ebmtut.checks import DivergenceError
from ebmtut.data import density_extent, density_log_prob, ising_samples
from ebmtut.energies import (
    BoltzmannMachine,
    Ising,
    MLPEnergy,
    lattice_adjacency,
)
from ebmtut.experiments.dnfs.recipes import CRITICAL
from ebmtut.experiments.experiment import stream
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.metrics import rmse
from ebmtut.random import make_generator
from ebmtut.samplers import gwg, ising_gibbs, run_chain
from ebmtut.states import enumerate_states
from studies.comparison.shared import (
    SEEDS,
    TUNING_SEED,
    Grid,
    command_line,
    padded,
    store,
    tuned,
)

BATCH = 128
#: Negatives of energy discrepancy, sweeps of PMP, GWG moves of a chain.
N_NEGATIVES, N_SWEEPS, N_MOVES = 32, 20, 10
#: Columns of a curve; evaluations are those of one data point, over all steps.
COLUMNS = ("steps", "seconds", "evaluations", "error")
#: Fractions of the budget at which a run is evaluated.
FRACTIONS = tuple(2.0**-k for k in range(6, -1, -1))
#: ``loss(model, x, generator)``, made anew for every run.
Loss = Callable[[Any, Tensor, torch.Generator], Tensor]


@dataclass
class Problem:
    """Data, a model to fit, and its exact error."""

    new_model: Callable[[str, torch.Generator], nn.Module]
    #: ``data(seed)`` returns what draws a batch.
    data: Callable[[int], Callable[[torch.Generator], Tensor]]
    error: Callable[[Any], float]
    #: By method: what makes the loss from the tuned options, and the options.
    methods: dict[str, tuple[Callable[..., Loss], Grid]]
    #: Evaluations of the energy for a data point and step, as a black box.
    evaluations: dict[str, float]
    baseline: float
    measure: str
    budget: float = 3.0


def discrepancy(noise: str, eps: float = 0.1) -> Loss:
    """Energy discrepancy with 32 negatives, fewer where they are all neighbours."""
    kind = losses.Bernoulli(eps) if noise == "Bern" else losses.Grid()

    def loss(model: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        if isinstance(model, Ising):  # the same loss, by compiled code
            how: Any = {"n_negatives": N_NEGATIVES, "generator": generator}
            J = model.coupling[None]
            return losses.coupling_discrepancy_losses(J, x, kind, **how)[0]
        n = min(N_NEGATIVES, x.shape[1]) if noise == "Grid" else N_NEGATIVES
        return losses.energy_discrepancy_loss(
            model, x, kind, n_negatives=n, generator=generator
        )

    return loss


def conditional(name: str) -> Loss:
    """Pseudo-likelihood or ratio matching."""
    of = {
        "PL": losses.pseudo_likelihood_loss,
        "ratio matching": losses.ratio_matching_loss,
    }[name]
    return lambda model, x, generator: of(model, x)


def contrast(kind: str) -> Loss:
    """Mean energy of data minus that of samples: CD, PCD, or PMP."""
    chains: list[Tensor] = []

    def loss(model: Any, x: Tensor, generator: torch.Generator) -> Tensor:
        start = chains[0] if kind == "PCD" and chains else x
        if kind == "PMP":
            bits = BoltzmannMachine.from_ising(model)
            y = perturb_and_max_product(bits, len(x), N_SWEEPS, generator=generator)
        elif isinstance(model, Ising):
            y = ising_gibbs(model, start, 1, generator=generator)
        else:
            y = run_chain(gwg(model), start, N_MOVES, generator=generator).x_final
        chains[:] = [y]
        return losses.contrastive_divergence_loss(model, x, y)

    return loss


def bit_methods(rates: tuple[float, ...]) -> dict[str, tuple[Callable, Grid]]:
    """The methods for bits, with the learning rates that tuning tries."""
    grid = {"rate": rates}
    return {
        "ED-Bern": (partial(discrepancy, "Bern"), {**grid, "eps": (0.05, 0.2)}),
        "ED-Grid": (partial(discrepancy, "Grid"), grid),
        "PL": (partial(conditional, "PL"), grid),
        "ratio matching": (partial(conditional, "ratio matching"), grid),
        "CD": (partial(contrast, "CD"), grid),
        "PCD": (partial(contrast, "PCD"), grid),
    }


def bit_evaluations(n_sites: int, chain: float) -> dict[str, float]:
    """A gradient counts as two evaluations more."""
    ring = 3.0 * (n_sites + 1)
    found = {"ED-Bern": 3.0 * (1 + N_NEGATIVES), "PL": ring, "ratio matching": ring}
    found["ED-Grid"] = 3.0 * (1 + min(N_NEGATIVES, n_sites))
    return found | {"CD": 6 + chain, "PCD": 6 + chain, "PMP": math.nan}


@cache
def spins(side: int, sigma: float, n_data: int, seed: int) -> Tensor:
    """Sample a lattice once for all methods."""
    source = stream("data of the comparison", seed)
    return ising_samples(side, sigma, n_data, n_sweeps=2000, generator=source)


def couplings(sigma: float, side: int = 10, n_data: int = 2000) -> Problem:
    """Couplings of an Ising lattice from 2,000 samples; the error is their RMSE."""
    truth = sigma * lattice_adjacency(side).float()
    pairs = torch.triu_indices(side**2, side**2, 1)

    def data(seed: int) -> Callable[[torch.Generator], Tensor]:
        x = spins(side, sigma, n_data, seed)
        return lambda g: x[torch.randint(n_data, (BATCH,), generator=g)]

    def error(model: Ising) -> float:
        found = model.symmetric_coupling[pairs[0], pairs[1]]
        return rmse(found, truth[pairs[0], pairs[1]])

    zero = torch.zeros(side**2, side**2)
    rates = (1e-3, 4e-3, 1.6e-2)
    methods = bit_methods(rates)
    methods["PMP"] = (partial(contrast, "PMP"), {"rate": rates})
    return Problem(
        lambda method, g: Ising(zero, learnable=True),
        data,
        error,
        methods,
        bit_evaluations(side**2, float(side**2)),
        error(Ising(zero)),
        "RMSE of the couplings",
        budget=2.0,
    )


def sixteen_bits(name: str, n_bits: int = 8) -> Problem:
    """A density of the plane in 2 x 8 bits of a Gray code; the error is the KL."""
    n = 2**n_bits
    axis = torch.arange(n)
    gray = axis ^ (axis >> 1)
    line = ((axis.double() + 0.5) / n * 2 - 1) * density_extent(name)
    points = torch.cartesian_prod(line, line)
    log_p = torch.full((n, n), -math.inf, dtype=torch.double)
    place = torch.cartesian_prod(gray, gray)
    log_p[place[:, 0], place[:, 1]] = density_log_prob(name, points)
    p = log_p.flatten().softmax(0)
    states = enumerate_states(2 * n_bits, dtype=torch.float32)
    cumulative, held = p.cumsum(0), p > 0

    def sample(g: torch.Generator) -> Tensor:
        place = torch.searchsorted(
            cumulative, torch.rand(BATCH, generator=g, dtype=torch.double)
        )
        return states[place.clamp(max=len(p) - 1)]

    def kl(log_q: Tensor) -> float:
        return float((p * (p.log() - log_q))[held].sum())

    @torch.no_grad()
    def error(model: nn.Module) -> float:
        energies = torch.cat([model(part) for part in states.split(8192)])
        return kl((-energies.double()).log_softmax(0))

    means = (p @ states.double()).clamp(1e-6, 1 - 1e-6)
    bits = states.double()
    independent = bits @ means.log() + (1 - bits) @ (1 - means).log()
    return Problem(
        lambda method, g: MLPEnergy(2 * n_bits, 32, 3, generator=g),
        lambda seed: sample,
        error,
        bit_methods((1.6e-2, 3.2e-2, 6.4e-2)),
        bit_evaluations(2 * n_bits, 3.0 * N_MOVES),
        kl(independent),
        "KL to the data [nats]",
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "couplings 0.1": lambda: couplings(0.1),
    "couplings critical": lambda: couplings(CRITICAL),
    "16 bits checkerboard": lambda: sixteen_bits("checkerboard"),
    "16 bits 2spirals": lambda: sixteen_bits("2spirals"),
}


def curve(
    problem: Problem,
    method: str,
    options: dict[str, Any],
    seed: int,
    fractions: tuple[float, ...] = FRACTIONS,
) -> np.ndarray:
    """Errors at fractions of the budget, infinite after a divergence.

    What is evaluated is the mean of the weights over the last fifth of the seconds.
    """
    make, _ = problem.methods[method]
    options = dict(options)
    rate, loss = options.pop("rate"), make(**options)
    generator, batch = make_generator(seed), problem.data(seed)
    model = problem.new_model(method, generator)
    averaged = copy.deepcopy(model)
    # Compiles what is compiled, before the clock starts.
    make(**options)(copy.deepcopy(model), batch(generator), generator).backward()
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    rows, seconds, n_steps, n_kept = [], 0.0, 0, 0
    while len(rows) < len(fractions):
        since = time.process_time()
        try:
            value = loss(model, batch(generator), generator)
        except DivergenceError:
            break
        if not value.isfinite():
            break
        adam.zero_grad()
        value.backward()
        adam.step()
        n_steps += 1
        seconds += time.process_time() - since
        goal = fractions[len(rows)] * problem.budget
        if seconds < 0.8 * goal:
            continue
        n_kept += 1
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.data.lerp_(new.data, 1 / n_kept)
        if seconds >= goal:
            spent = n_steps * problem.evaluations[method] * BATCH
            rows.append([n_steps, seconds, spent, problem.error(averaged)])
            n_kept = 0
    while len(rows) < len(fractions):
        rows.append([n_steps, seconds, math.nan, math.inf])
    return np.array(rows)


def tune_and_run(name: str, method: str) -> tuple[dict[str, Any], np.ndarray]:
    """Tune a method on one problem, and run it with three other seeds."""
    problem = PROBLEMS[name]()
    options, tried = tuned(
        lambda o, s: curve(problem, method, o, s, FRACTIONS[-2:]),
        problem.methods[method][1],
        COLUMNS.index("error"),
        "rate",
    )
    runs = padded([curve(problem, method, options, seed) for seed in SEEDS])
    print(name, method, options, runs[:, -1, [0, -1]].tolist(), flush=True)
    return {"options": options, "tried": tried}, runs


def study(name: str, n_jobs: int = 1, **store_options: Any) -> None:
    """Run every method on one problem, each in one process, and store the curves."""
    began = time.time()
    problem = PROBLEMS[name]()
    one = partial(tune_and_run, name)
    for seed in (*SEEDS, TUNING_SEED):
        problem.data(seed)  # once, before there are more processes
    if n_jobs == 1:
        found = dict(zip(problem.methods, map(one, problem.methods), strict=True))
    else:  # a method's seconds are those of its process
        with ProcessPoolExecutor(n_jobs, get_context("fork")) as pool:
            done = pool.map(one, problem.methods)
            found = dict(zip(problem.methods, done, strict=True))
    table = {method: told for method, (told, _) in found.items()}
    arrays = {method: runs for method, (_, runs) in found.items()}
    scalars = {"methods": table, "columns": COLUMNS, "shown": "error"}
    scalars |= {"references": {"baseline": {"error": problem.baseline}}}
    scalars |= {"measure": problem.measure}
    config = {"batch": BATCH, "budget": problem.budget, "n_negatives": N_NEGATIVES}
    store(f"learning {name}", config, scalars, arrays, began, **store_options)


if __name__ == "__main__":
    command_line(__doc__, PROBLEMS, partial(study, n_jobs=2))
