"""Experiment pmp/wrong-model (Section 5.1): four spins, and a wrong parameter."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, Number, OneOf, Positive, checked
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.experiments.experiment import Experiment, Outcome, grid
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pmp.shared import baseline
from ebmtut.experiments.verdicts import Verdicts, claim, compare, mean_and_stderr
from ebmtut.message_passing import exact_perturb_and_map, perturb_and_max_product
from ebmtut.plotting import COLORS, panel_size
from ebmtut.random import logistic, make_generator
from ebmtut.results import Result
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index

#: How the perturbed models are solved: by max-product with initial messages of zero
#: or symmetric ones, or by enumeration.
SOLVERS = ("zero", "symmetric", "exact MAP")
_PAIRS = torch.triu_indices(4, 4, 1)


@checked
@dataclass(frozen=True)
class ToyConfig:
    """How theta is learned and evaluated."""

    theta: Number = 0.5
    solvers: tuple[Annotated[str, OneOf(SOLVERS)], ...] = SOLVERS
    n_steps: Count = 200
    learning_rate: Positive = 0.01
    n_chains: Count = 100
    n_sweeps: Count = 100
    n_seeds: Count = 5
    n_judged: Count = 200_000


def four_spins(theta: float) -> BoltzmannMachine:
    """Return the distribution exp(theta sum_{i<j} s_i s_j) of four spins, on bits."""
    coupling = theta / 2 * (1 - torch.eye(4, dtype=torch.float64))
    return BoltzmannMachine.from_ising(Ising(coupling))


def sample_toy(
    solver: str, theta: float, n: int, n_sweeps: int, *, generator: torch.Generator
) -> Tensor:
    """Perturb and solve four spins ``n`` times; bits, shape (n, 4)."""
    device = generator.device
    model = four_spins(theta).to(device)
    if solver != "exact MAP":
        return perturb_and_max_product(
            model, n, n_sweeps, init=solver, generator=generator
        )
    noise = logistic((n, 4), generator=generator, dtype=torch.float64, device=device)
    return exact_perturb_and_map(model, 4, noise)


def mean_product(x: Tensor) -> Tensor:
    """Mean of s_i s_j over pairs and samples."""
    s = bits_to_spins(x)
    return (s[:, _PAIRS[0]] * s[:, _PAIRS[1]]).mean()


def toy_job(solver: str, config: ToyConfig, seed: int, device: str = "cpu") -> Outcome:
    """Learn theta with one solver, and evaluate it as a model and as a sampler."""
    generator, n_sweeps = make_generator(seed, device), config.n_sweeps
    sample = partial(sample_toy, solver, n_sweeps=n_sweeps, generator=generator)
    states = enumerate_states(4, dtype=torch.float64)
    data = exact_probabilities(four_spins(config.theta), 4).exp()
    spins = bits_to_spins(states)
    products = (spins[:, _PAIRS[0]] * spins[:, _PAIRS[1]]).mean(1)
    target = data @ products
    theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=config.learning_rate)
    path = np.empty(config.n_steps, dtype=np.float32)
    for step in range(config.n_steps):
        x = sample(theta.item(), config.n_chains)
        theta.grad = mean_product(x).cpu() - target
        optimizer.step()
        path[step] = theta.item()
    learned = theta.item()
    x = sample(learned, config.n_judged).cpu()
    counts = torch.bincount(states_to_index(x), minlength=16).double()
    gibbs = exact_probabilities(four_spins(learned), 4).exp()
    return Outcome(
        {
            "theta": learned,
            "KL to Gibbs(theta)": float((data * (data / gibbs).log()).sum()),
            # Half a count: the estimate stays finite where a state was not seen.
            "KL to PMP samples": float(
                (data * (data * len(x) / counts.clamp(min=0.5)).log()).sum()
            ),
            "magnetisation": float(bits_to_spins(x).mean()),
        },
        {"path": path, "frequencies": (counts / len(x)).numpy()},
    )


def distribution_of_the_data(config: ToyConfig, seed: int) -> Outcome:
    """Return the probabilities of the 16 states."""
    exact = exact_probabilities(four_spins(config.theta), 4).exp()
    return Outcome(arrays={"data": exact.numpy()})


#: Colour, marker and name of each solver.
STYLE = {
    "zero": ("PMP", "s", "PMP from N = 0"),
    "symmetric": ("PMP symmetric", "o", "PMP from N = W/2"),
    "exact MAP": ("exact", "^", "enumerated MAP states"),
}


def draw_toy(result: Result) -> Figure:
    """Draw theta over the steps, as a range over seeds, and the number of ones."""
    figure, (left, right) = plt.subplots(1, 2, figsize=panel_size(1, 2, aspect=0.8))
    ones = enumerate_states(4).sum(1).long().numpy()

    def by_ones(probabilities: np.ndarray) -> np.ndarray:
        return np.bincount(ones, weights=probabilities, minlength=5)

    right.bar(range(5), by_ones(result.arrays["data"]), color="#DDDDDD", label="data")
    for place, solver in enumerate(result.scalars["table"]):
        color, marker, label = STYLE[solver]
        paths = result.arrays[f"path/{solver}"] - 0.1 * place
        band = paths.min(0), paths.max(0)
        left.fill_between(range(len(band[0])), *band, color=COLORS[color], alpha=0.3)
        left.plot(paths.mean(0), color=COLORS[color])
        found = by_ones(result.arrays[f"frequencies/{solver}"].mean(0))
        at = np.arange(5) + 0.2 * (place - 1)
        right.plot(at, found, marker, color=COLORS[color], ms=4, label=label)
    left.set(xlabel="step", ylabel="θ, lowered by 0, 0.1 and 0.2")
    right.set(xlabel="number of ones", ylabel="probability", ylim=(0, None))
    names = right.get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=2)
    return figure


# How far from the paper's number each may lie: its one run's scatter.
_WINDOWS = {"theta": 0.02, "KL to Gibbs(theta)": 0.02, "KL to PMP samples": 0.01}


def check_toy(result: Result) -> Verdicts:
    """Set the paper's start beside the paper, and the symmetric one beside that."""
    table = result.scalars["table"]
    printed = get_fact("pmp/wrong-model").table("four variables")
    for metric, window in _WINDOWS.items():
        entry = ("pmp/wrong-model", "four variables", "PMP", metric)
        yield compare(*entry, table["zero"][metric])
        mean, stderr = mean_and_stderr(table["zero"][metric])
        of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(table["zero"][metric])}
        if (of_paper := printed.number("PMP", metric)) is not None:
            name = f"PMP: {metric}, difference from the paper's"
            yield claim(name, abs(mean - of_paper), "at most", window, **of)
    if "symmetric" in table:
        zero, symmetric = (table[s]["KL to PMP samples"] for s in SOLVERS[:2])
        differences = [a - b for a, b in zip(zero, symmetric, strict=True)]
        name = "KL to PMP samples: the paper's initialisation minus the symmetric one"
        yield claim(name, differences, "at least", 0.0)


def untrained(result: Result) -> Result:
    """Return theta = 0, by every solver: four uniform bits."""
    data = result.arrays["data"]
    divergence = float((data * np.log(len(data) * data)).sum())
    uniform = {"theta": 0.0, "magnetisation": 0.0}
    uniform |= dict.fromkeys(("KL to Gibbs(theta)", "KL to PMP samples"), divergence)
    return baseline(result, uniform.get)


EXPERIMENT = Experiment(
    id="pmp/wrong-model",
    title="A wrong model that samples well",
    presets={
        "quick": ToyConfig(n_seeds=3, n_judged=100_000),
        "full": ToyConfig(n_seeds=20, n_judged=1_000_000),
        "paper": ToyConfig(n_seeds=1, n_judged=1_000_000),
    },
    cells=lambda config: grid(config, solver="solvers"),
    job=toy_job,
    arrays={"*": "{name}/{cell}"},
    stack=True,
    extras=distribution_of_the_data,
    baseline=untrained,
    devices=("cpu", "cuda"),
    figure=draw_toy,
    check=check_toy,
    parallel=False,  # seconds of work: starting processes would cost more
)
