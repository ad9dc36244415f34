"""Losses that learn the same energies at equal cost, compared with exact answers.

Every method takes Adam steps on batches of equal size until a budget is spent: CPU
seconds or, in `learning_by_evaluations`, evaluations of the energy. Run: python -m
studies.comparison.learning [PROBLEM ...]
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ebmtut import data, energies, losses
from ebmtut.checks import DivergenceError
from ebmtut.data.images import small_digits
from ebmtut.energies import RBM, BoltzmannMachine, FourierEnergy, Ising, at_level
from ebmtut.exact import exact_log_partition
from ebmtut.experiments.dnfs.recipes import CRITICAL
from ebmtut.experiments.drl import plane as planes
from ebmtut.experiments.experiment import stream
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.metrics import grid_log_partition, rmse
from ebmtut.random import make_generator
from ebmtut.samplers import block_gibbs, gwg, ising_gibbs, mala, run_chain
from ebmtut.states import enumerate_states
from studies.comparison import shared
from studies.comparison.shared import Grid, Options

BATCH = 128
#: What a training may cost, in seconds, unless it is evaluations.
BUDGET = 10.0
SEEDS = (0, 1, 2, 3, 4)
#: Negatives of energy discrepancy, and sweeps of PMP.
N_NEGATIVES, N_SWEEPS = 32, 20
#: Columns of a curve; evaluations are those of one data point, over all steps.
COLUMNS = ("steps", "seconds", "evaluations", "error")
#: Fractions of the budget at which a run is evaluated.
FRACTIONS = tuple(2.0**-k for k in range(6, -1, -1))
#: ``loss(model, x, generator=generator)``; a chain has ``move(model, x, generator)``.
Loss = Move = Callable[..., Tensor]


class Method(NamedTuple):
    """What makes the loss of a run from options that are tuned beside the rate.

    Evaluations of the energy are those for a data point and step, as a black box; one
    that is differentiated counts three times. Each move of a chain adds ``a_move``.
    """

    make: Callable[..., Loss]
    evaluations: float
    options: Grid
    a_move: float = 0.0


@dataclass
class Problem:
    """Data, a model to fit, and its exact error."""

    new_model: Callable[[Generator], nn.Module]
    #: ``data(seed)`` returns what draws a batch.
    data: Callable[[int], Callable[[Generator], Tensor]]
    error: Callable[[Any], float]
    methods: dict[str, Method]
    rates: tuple[float, ...]
    baseline: float
    measure: str
    #: The budget where it is evaluations: CD makes them in at most about ten seconds.
    n_evaluations: float = 2e6
    #: Standard errors of the estimates of log Z since they were last told.
    log_z_errors: list[float] = field(default_factory=list)

    def tell(self, method: str, options: Options) -> Options:
        """Return the largest standard error of log Z of a method's runs."""
        found = max(self.log_z_errors, default=0.0)
        self.log_z_errors.clear()
        return {"standard error of log Z": found}


def discrepancy(model: Any, x: Tensor, generator: Generator, eps: float = 0) -> Tensor:
    """Energy discrepancy with 32 negatives: flips, or neighbours, at most all."""
    kind = losses.Bernoulli(eps) if eps else losses.Grid()
    n_negatives = N_NEGATIVES if eps else min(N_NEGATIVES, x.shape[1])
    how: Any = {"n_negatives": n_negatives, "generator": generator}
    if isinstance(model, Ising):  # the same loss, by compiled code
        J = model.coupling[None]
        return losses.coupling_discrepancy_losses(J, x, kind, **how)[0]
    return losses.energy_discrepancy_loss(model, x, kind, **how)


def gaussian_discrepancy(
    model: Any, x: Tensor, generator: Generator, noise: float
) -> Tensor:
    """Energy discrepancy of points: Gaussian noise, once more for each negative."""
    away = torch.randn(len(x), 1 + N_NEGATIVES, x.shape[1], generator=generator)
    moved = x[:, None] + noise * (away[:, :1] + away[:, 1:])
    u = at_level(model, 0)(torch.cat([x, moved.flatten(0, 1)]))
    difference = u[: len(x), None] - u[len(x) :].view(len(x), -1)
    return losses.stabilized_log_mean_exp(difference, 1 / N_NEGATIVES).mean()


def of_options(loss: Loss) -> Callable[..., Loss]:
    """Return what makes a loss that keeps nothing from step to step."""
    return partial(partial, loss)


def contrast(persistent: bool, move: Move, **options: Any) -> Loss:
    """Mean energy of data minus that of samples: CD, PCD, or PMP."""
    chains: list[Tensor] = []

    def loss(model: Any, x: Tensor, generator: Generator) -> Tensor:
        start = chains[0] if persistent and chains else x
        chains[:] = [move(model, start, generator, **options)]
        energy = at_level(model, 0) if isinstance(model, FourierEnergy) else model
        u = energy(torch.cat([x, *chains]))
        return u[: len(x)].mean() - u[len(x) :].mean()

    return loss


def sweep(model: Any, x: Tensor, generator: Generator) -> Tensor:
    """One Gibbs sweep; of an RBM, all hidden units and all visible ones."""
    if isinstance(model, RBM):
        return block_gibbs(model, x, 1, generator=generator)[:, : x.shape[1]]
    return ising_gibbs(model, x, 1, generator=generator)


def moves(
    model: Any, x: Tensor, generator: Generator, n_moves: int, step_size: float = 0
) -> Tensor:
    """Make moves of GWG or, with a step size, of MALA."""
    sampler = mala(at_level(model, 0), step_size) if step_size else gwg(model)
    return run_chain(sampler, x, n_moves, generator=generator).x_final


def messages(model: Any, x: Tensor, generator: Generator) -> Tensor:
    """Perturb-and-max-product, which starts anew."""
    bits = model if isinstance(model, RBM) else BoltzmannMachine.from_ising(model)
    y = perturb_and_max_product(bits, len(x), N_SWEEPS, generator=generator)
    return y[:, : x.shape[1]]


def chains(
    move: Move, cost: float, a_move: float = 0, **options: Any
) -> dict[str, Method]:
    """CD and PCD."""
    of = {"CD": partial(contrast, False, move), "PCD": partial(contrast, True, move)}
    return {name: Method(make, 6 + cost, options, a_move) for name, make in of.items()}


def bit_methods(
    n_sites: int, sweep_cost: int = 0, eps: tuple[float, ...] = (0.05, 0.2)
) -> dict[str, Method]:
    """The methods for bits; with couplings a chain makes a sweep, else moves."""

    def conditional(of: Loss) -> Method:
        make = of_options(lambda model, x, generator: of(model, x))
        return Method(make, 3.0 * (n_sites + 1), {})

    few, neighbours = 1 + N_NEGATIVES, 1 + min(N_NEGATIVES, n_sites)
    if sweep_cost:
        of_chains = chains(sweep, sweep_cost)
    else:
        of_chains = chains(moves, 0, 3, n_moves=(1, 3, 10, 30))
    matching = Method(partial(contrast, False, messages), math.nan, {})
    return {
        "ED-Bern": Method(of_options(discrepancy), 3.0 * few, {"eps": eps}),
        "ED-Grid": Method(of_options(discrepancy), 3.0 * neighbours, {}),
        "PL": conditional(losses.pseudo_likelihood_loss),
        "ratio matching": conditional(losses.ratio_matching_loss),
        **of_chains,
        **({"PMP": matching} if sweep_cost else {}),
    }


def independent_nll(x: Tensor, means: Tensor) -> Tensor:
    """Negative log-likelihood of each state under independent bits."""
    return -(x @ means.log() + (1 - x) @ (1 - means).log())


def batches(x: Tensor) -> Callable[[Generator], Tensor]:
    """Return a sampler of batches of rows."""
    return lambda g: x[torch.randint(len(x), (BATCH,), generator=g)]


def couplings(sigma: float, side: int = 10, n_data: int = 50_000) -> Problem:
    """Couplings of an Ising lattice from 50,000 samples; the error is their RMSE."""
    first, second = torch.triu_indices(side**2, side**2, 1)
    truth = sigma * energies.lattice_adjacency(side).float()[first, second]

    def error(model: Ising) -> float:
        return rmse(model.symmetric_coupling[first, second], truth)

    @cache  # all methods have the same data
    def spins(seed: int) -> Tensor:
        source = stream("data of the comparison", seed)
        return data.ising_samples(side, sigma, n_data, n_sweeps=2000, generator=source)

    zero = torch.zeros(side**2, side**2)
    return Problem(
        lambda g: Ising(zero, learnable=True),
        lambda seed: batches(spins(seed)),
        error,
        bit_methods(side**2, side**2),
        (1e-3, 4e-3, 1.6e-2),
        error(Ising(zero)),
        "RMSE of the couplings",
        2e7,
    )


def digits(n_hidden: int = 16, n_train: int = 1500) -> Problem:
    """Digits of 8 x 8 bits by an RBM; the error is the exact NLL of held-out ones."""
    x = data.binarize(small_digits().images)
    order = stream("data of the comparison", 0)
    x = x[torch.randperm(len(x), generator=order)]
    train, held_out = x[:n_train], x[n_train:]
    means = (train.sum(0) + 1) / (n_train + 2)
    n_sites = x.shape[1]

    def new_model(generator: Generator) -> RBM:
        weight = 0.1 * torch.randn(n_hidden, n_sites, generator=generator)
        return RBM(weight, torch.zeros(n_hidden), means.logit(), learnable=True)

    @torch.no_grad()
    def error(model: RBM) -> float:
        # With the roles of its layers exchanged, all states of the first are listed.
        turned = RBM(model.weight.T, model.visible_bias, model.hidden_bias)
        log_z = exact_log_partition(turned, n_hidden)
        return float(model(held_out).double().mean() + log_z)

    return Problem(
        new_model,
        lambda seed: batches(train),
        error,
        bit_methods(n_sites, n_sites + n_hidden, (0.02, 0.1)),
        (4e-3, 1.6e-2, 6.4e-2),
        float(independent_nll(held_out, means).mean()),
        "NLL of held-out digits [nats]",
        2e7,
    )


def bars_and_stripes(side: int) -> Tensor:
    """All images of full rows, or of full columns, as rows of bits."""
    lines = enumerate_states(side, dtype=torch.float32)
    drawn = lines[:, :, None].expand(-1, side, side)
    return torch.cat([drawn, drawn.mT]).flatten(1).unique(dim=0)


def bars(side: int = 4, n_hidden: int = 16) -> Problem:
    """Bars and stripes of 4 x 4 bits by an RBM; the error is the KL."""
    images, n_sites = bars_and_stripes(side), side**2

    def new_model(generator: Generator) -> RBM:
        weight = 0.1 * torch.randn(n_hidden, n_sites, generator=generator)
        biases = torch.zeros(n_hidden), torch.zeros(n_sites)
        return RBM(weight, *biases, learnable=True)

    @torch.no_grad()
    def error(model: RBM) -> float:
        log_z = exact_log_partition(model, n_sites)
        return float(model(images).double().mean() + log_z) - math.log(len(images))

    return Problem(
        new_model,
        lambda seed: batches(images),
        error,
        bit_methods(n_sites, n_sites + n_hidden, (0.02, 0.1)),
        (4e-3, 1.6e-2, 6.4e-2),
        n_sites * math.log(2) - math.log(len(images)),
        "KL to the data [nats]",
        2e7,
    )


def sixteen_bits(name: str, n_bits: int = 8) -> Problem:
    """A density of the plane in 2 x 8 bits of a Gray code; the error is the KL."""
    n = 2**n_bits
    axis = torch.arange(n)
    line = ((axis.double() + 0.5) / n * 2 - 1) * data.density_extent(name)
    line = line[(axis ^ (axis >> 1)).argsort()]  # in the order of the code
    p = data.density_log_prob(name, torch.cartesian_prod(line, line)).softmax(0)
    states = enumerate_states(2 * n_bits, dtype=torch.float32)
    cumulative, held = p.cumsum(0), p > 0

    def sample(g: Generator) -> Tensor:
        uniform = torch.rand(BATCH, generator=g, dtype=torch.double)
        place = torch.searchsorted(cumulative, uniform)
        return states[place.clamp(max=len(p) - 1)]

    def kl(log_q: Tensor) -> float:
        return float((p * (p.log() - log_q))[held].sum())

    @torch.no_grad()
    def error(model: nn.Module) -> float:
        energies = torch.cat([model(part) for part in states.split(8192)])
        return kl((-energies.double()).log_softmax(0))

    means = (p @ states.double()).clamp(1e-6, 1 - 1e-6)
    return Problem(
        lambda g: energies.MLPEnergy(2 * n_bits, 32, 3, generator=g),
        lambda seed: sample,
        error,
        bit_methods(2 * n_bits),
        (1.6e-2, 3.2e-2, 6.4e-2),
        kl(-independent_nll(states.double(), means)),
        "KL to the data [nats]",
    )


def wide_bits(name: str, n_held_out: int = 20_000) -> Problem:
    """A density of the plane in 32 bits; the error is the KL, log Z by a grid."""
    density = data.DensityData(name)
    n_sites, source = density.n_sites, stream("data of the comparison", 0)
    held_out = density.sample_bits(n_held_out, generator=source)
    log_z_errors: list[float] = []

    @torch.no_grad()
    def error(model: nn.Module) -> float:
        of = {"n_samples": 50_000, "generator": make_generator(0)}
        log_z = grid_log_partition(model, **of).log_partition
        log_z_errors.append(log_z.stderr)
        return float(model(held_out).double().mean()) + log_z.value - density.entropy

    means = held_out.mean(0).clamp(1e-6, 1 - 1e-6)
    return Problem(
        lambda g: energies.MLPEnergy(n_sites, 64, 3, generator=g),
        lambda seed: lambda g: density.sample_bits(BATCH, generator=g),
        error,
        bit_methods(n_sites),
        (4e-3, 1.6e-2, 6.4e-2),
        float(independent_nll(held_out, means).mean()) - density.entropy,
        "KL to the data [nats]",
        log_z_errors=log_z_errors,
    )


def plane(name: str, hidden: int = 64) -> Problem:
    """A density of the plane; the error is the KL on a grid."""
    log_p = planes.exact_log_density(name)

    def sample(g: Generator) -> Tensor:
        return (data.sample_density(name, BATCH, generator=g) / planes.SCALE).float()

    def recovery(method: str) -> Loss:
        noise = planes.plane_noise(method)
        chain = planes.plane_chain(method, planes.PlaneConfig())
        return losses.RecoveryLikelihood(noise, chain, target_acceptance=0.7)

    def denoising(first_ratio: float) -> Loss:
        config = planes.PlaneConfig(first_ratio=first_ratio)
        noise = planes.plane_noise("score matching", config)
        return losses.DenoisingScoreMatching(noise)

    def error(model: FourierEnergy) -> float:
        return planes.PLANE.kl(log_p, -planes.PLANE.energies(at_level(model, 0)))

    gaussian, few = of_options(gaussian_discrepancy), 3.0 * (1 + N_NEGATIVES)
    of = planes.METHODS.items()
    starts = tuple(name for name, how in of if how.objective == "recovery")
    return Problem(
        lambda g: FourierEnergy(2, 6, hidden, 2, 64, 5.0, generator=g),
        lambda seed: sample,
        error,
        {
            "ED-Gauss": Method(gaussian, few, {"noise": (0.1, 0.3)}),
            # Sixteen initial points and a step, or about as much in nine steps.
            "recovery": Method(recovery, 6 + 16 + 6, {"method": starts}),
            "score matching": Method(denoising, 9, {"first_ratio": (0.05, 0.1)}),
            **chains(moves, 3, 3, n_moves=(3, 10, 30), step_size=(0.1, 0.3)),
        },
        (1e-3, 4e-3, 1.6e-2),
        planes.PLANE.kl(log_p, planes.gaussian_with_moments_of(log_p)),
        "KL to the data [nats]",
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "couplings critical": lambda: couplings(CRITICAL),
    "digits": digits,
    "16 bits checkerboard": lambda: sixteen_bits("checkerboard"),
    "32 bits 2spirals": lambda: wide_bits("2spirals"),
    "plane checkerboard": lambda: plane("checkerboard"),
    "bars": bars,
    "16 bits pinwheel": lambda: sixteen_bits("pinwheel"),
    "32 bits pinwheel": lambda: wide_bits("pinwheel"),
    "plane pinwheel": lambda: plane("pinwheel"),
}


def curve(
    problem: Problem,
    by_evaluations: bool,
    method: str,
    options: Options,
    seed: int,
    n: int = len(FRACTIONS),
) -> np.ndarray:
    """Errors at the last n fractions of the budget, infinite after a divergence.

    What is evaluated is the mean of the weights over the last fifth of the cost.
    """
    make, evaluations, _, a_move = problem.methods[method]
    evaluations += a_move * options.get("n_moves", 0)
    more = {name: value for name, value in options.items() if name != "rate"}
    loss = make(**more)
    generator, batch = make_generator(seed), problem.data(seed)
    model = problem.new_model(generator)
    averaged = copy.deepcopy(model)
    # Compiles what is compiled, before the clock starts.
    make(**more)(copy.deepcopy(model), batch(generator), generator=generator).backward()
    adam = torch.optim.Adam(model.parameters(), lr=options["rate"])
    budget = problem.n_evaluations if by_evaluations else BUDGET
    rows, seconds, n_steps, n_kept = [], 0.0, 0, 0
    while len(rows) < n:
        since = time.process_time()
        try:
            value = loss(model, batch(generator), generator=generator)
        except DivergenceError:
            break
        if not value.isfinite():
            break
        adam.zero_grad()
        value.backward()
        adam.step()
        n_steps += 1
        seconds += time.process_time() - since
        evaluated = n_steps * evaluations * BATCH
        spent = evaluated if by_evaluations else seconds
        goal = FRACTIONS[len(rows) - n] * budget
        if spent < 0.8 * goal:
            continue
        n_kept += 1
        for old, new in zip(averaged.parameters(), model.parameters(), strict=True):
            old.data.lerp_(new.data, 1 / n_kept)
        if spent >= goal:
            rows.append([n_steps, seconds, evaluated, problem.error(averaged)])
            n_kept = 0
    diverged = [[n_steps, seconds, math.nan, math.inf]]
    return np.array(rows + diverged * (n - len(rows)))


def study(name: str, by_evaluations: bool = False) -> None:
    """Tune and run every method on one problem, and store the curves."""
    problem = PROBLEMS[name]()
    run = partial(curve, problem, by_evaluations)
    budget = problem.n_evaluations if by_evaluations else BUDGET
    shared.study(
        f"learning {'by evaluations ' * by_evaluations}{name}",
        {
            method: {"rate": problem.rates, **how.options}
            for method, how in problem.methods.items()
            if not (by_evaluations and math.isnan(how.evaluations))
        },
        run,
        {
            "columns": COLUMNS,
            "shown": "error",
            "references": {"baseline": {"error": problem.baseline}},
            "measure": problem.measure,
        },
        {"batch": BATCH, "budget": budget, "n_negatives": N_NEGATIVES},
        seeds=SEEDS,
        trial=partial(run, n=2),
        told=problem.tell,
        beyond="rate",
    )


if __name__ == "__main__":
    shared.command_line(__doc__, PROBLEMS, study)
