"""The samplers that the experiments with fully observed models compare, by name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from ebmtut.checks import OneOf, checked
from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import perturb_and_map_lp, perturb_and_max_product
from ebmtut.metrics import mmd
from ebmtut.random import bernoulli
from ebmtut.samplers import boltzmann_gibbs, boltzmann_gwg


@dataclass(frozen=True)
class Method:
    """A sampler; persistent chains continue from one learning step to the next."""

    kind: Literal["PMP", "Gibbs", "GWG", "LP"]
    init: str = "zero"  # of PMP's messages
    persistent: bool = False


#: By the name that figures give them; LP is perturb-and-MAP by linear programs.
METHODS: Mapping[str, Method] = {
    "PMP": Method("PMP"),
    "PMP symmetric": Method("PMP", init="symmetric"),
    "Gibbs": Method("Gibbs", persistent=True),
    "Gibbs-reset": Method("Gibbs"),
    "GWG": Method("GWG", persistent=True),
    "GWG-reset": Method("GWG"),
    "LP": Method("LP"),
}
#: Without linear programs, which only small models can afford.
SAMPLERS = tuple(name for name in METHODS if name != "LP")
#: Persistent chains.
CHAINS = tuple(name for name, method in METHODS.items() if method.persistent)
Name = Annotated[str, OneOf(METHODS)]


def random_bits(n: int, n_sites: int, *, generator: torch.Generator) -> Tensor:
    """Draw uniform random bits, (n, n_sites)."""
    half = torch.full((n, n_sites), 0.5, device=generator.device)
    return bernoulli(half, generator=generator)


def advance(
    method: str,
    model: BoltzmannMachine,
    x: Tensor,
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Tensor:
    """Move chains on by sweeps: as many single-site updates as there are sites."""
    if METHODS[method].kind == "GWG":
        n, dtype = n_sweeps * x.shape[1], model.weight.dtype
        return boltzmann_gwg(model, x, n, generator=generator, dtype=dtype)
    return boltzmann_gibbs(model, x, n_sweeps, generator=generator)


@checked
def draw(
    method: Name,
    model: BoltzmannMachine,
    n: int,
    sweeps: tuple[int, ...],
    *,
    generator: torch.Generator,
) -> dict[int, Tensor]:
    """Draw samples from scratch, keeping them after each number of sweeps."""
    how = METHODS[method]
    if how.kind == "LP":
        relaxed = perturb_and_map_lp(model, n, generator=generator)
        return dict.fromkeys(sweeps, relaxed.x.float())
    if how.kind == "PMP":
        return {
            k: perturb_and_max_product(model, n, k, init=how.init, generator=generator)
            for k in sweeps
        }
    x = random_bits(n, model.n_sites, generator=generator)
    seen, done = {}, 0
    for k in sorted(sweeps):
        x = advance(method, model, x, k - done, generator=generator)
        seen[k], done = x, k
    return seen


class Chains(NamedTuple):
    """Samples of learning, and the single-site updates that each has had."""

    x: Tensor
    n_updates: int = 0


@checked
def start_samples(
    method: Name, n_chains: int, n_sites: int, *, generator: torch.Generator
) -> Chains:
    """Initialise persistent chains by random bits; other methods need no state."""
    if METHODS[method].persistent:
        return Chains(random_bits(n_chains, n_sites, generator=generator))
    return Chains(torch.zeros(n_chains, n_sites, device=generator.device))


def sweep_samples(
    state: Chains,
    model: BoltzmannMachine,
    *,
    method: str,
    n_sweeps: int,
    generator: torch.Generator,
) -> Chains:
    """Take the samples of a learning step: by sweeps of the chains, or from scratch."""
    if METHODS[method].persistent:
        return Chains(advance(method, model, state.x, n_sweeps, generator=generator))
    n = len(state.x)
    return Chains(draw(method, model, n, (n_sweeps,), generator=generator)[n_sweeps])


def log_mmd2(samples: Tensor, x: Tensor) -> float:
    """Natural logarithm of the V-statistic with the average Hamming kernel."""
    return math.log(mmd(samples, x, kernel="average_hamming", statistic="v"))
