"""The samplers that the rows of fully observed models compare, by name."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from ebmtut.checks import OneOf, checked
from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import perturb_and_map_lp, perturb_and_max_product
from ebmtut.random import bernoulli
from ebmtut.samplers import boltzmann_gibbs, boltzmann_gwg

__all__ = [
    "CHAINS",
    "METHODS",
    "SAMPLERS",
    "Chains",
    "Work",
    "draw",
    "equal_sweeps",
    "start_bits",
    "start_samples",
    "sweep_samples",
    "update_samples",
    "work",
]

#: Methods by the name that figures give them. "reset": chains start anew at each
#: step of learning; without it they go on from where they were.
SAMPLERS = ("PMP", "PMP symmetric", "Gibbs", "Gibbs-reset", "GWG", "GWG-reset")
#: With perturb-and-MAP by linear programs, which only small models can afford.
METHODS = (*SAMPLERS, "LP")
#: Chains that go on from one step of learning to the next.
CHAINS = ("Gibbs", "GWG")


class Work(NamedTuple):
    """What a method computes while it draws samples.

    Attributes
    ----------
    updates
        Of a single site in a chain; of all messages at a site in PMP. A linear
        program makes nothing of the kind.
    evaluations
        Energy differences of single flips that this takes: one an update of
        Gibbs, all sites' at each move of GWG; none in PMP.
    messages
        Messages that are computed; none in a chain.
    """

    updates: float
    evaluations: float
    messages: float


def work(
    method: str, n_samples: int, n_sweeps: float, n_sites: int, *, n_pairs: float
) -> Work:
    """Count what sweeps over samples of a model with ``n_pairs`` pairs compute."""
    if method == "LP":
        return Work(0.0, 0.0, 0.0)
    updates = float(n_samples * n_sweeps * n_sites)
    if method.startswith("PMP"):
        # Two messages a pair, one for each of its ends.
        return Work(updates, 0.0, float(n_samples * n_sweeps * 2 * n_pairs))
    return Work(updates, updates * n_sites if method[:3] == "GWG" else updates, 0.0)


def equal_sweeps(n_updates: int, n_sites: int) -> int:
    """Sweeps of PMP that take no longer than GWG's single-site updates.

    An update of GWG looks at all n sites, a sweep of PMP at n^2 / 2 pairs; a
    pair takes less than a fifth of the time of a site (the seconds of both are
    kept with the results).
    """
    return max(1, 10 * n_updates // n_sites)


def start_bits(n: int, n_sites: int, *, generator: torch.Generator) -> Tensor:
    """Toss a coin for every bit, (n, n_sites)."""
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
    if method.startswith("GWG"):
        return boltzmann_gwg(
            model,
            x,
            n_sweeps * x.shape[1],
            generator=generator,
            dtype=model.weight.dtype,
        )
    return boltzmann_gibbs(model, x, n_sweeps, generator=generator)


@checked
def draw(
    method: Annotated[str, OneOf(METHODS)],
    model: BoltzmannMachine,
    n: int,
    sweeps: tuple[int, ...],
    *,
    generator: torch.Generator,
) -> dict[int, Tensor]:
    """Draw samples from scratch, looking at them after each number of sweeps.

    Returns
    -------
    samples
        Bits, shape (n, n_sites), by number of sweeps. A chain's are the same
        chains, later; PMP's are independent runs; linear programs go to the end,
        whatever the number.

    Raises
    ------
    InputError
        If the method is none of `METHODS`.
    """
    if method == "LP":
        relaxed = perturb_and_map_lp(model, n, generator=generator)
        return dict.fromkeys(sweeps, relaxed.x.float())
    if method.startswith("PMP"):
        init = "symmetric" if method == "PMP symmetric" else "zero"
        return {
            k: perturb_and_max_product(model, n, k, init=init, generator=generator)
            for k in sweeps
        }
    x = start_bits(n, model.n_sites, generator=generator)
    seen, done = {}, 0
    for k in sorted(sweeps):
        x = advance(method, model, x, k - done, generator=generator)
        seen[k], done = x, k
    return seen


class Chains(NamedTuple):
    """Samples of learning, and the single-site updates that each has had.

    Attributes
    ----------
    x
        Bits, shape (n_chains, n_sites).
    n_updates
        Counted by `update_samples`, which visits sites in turn.
    """

    x: Tensor
    n_updates: int = 0


@checked
def start_samples(
    method: Annotated[str, OneOf(METHODS)],
    n_chains: int,
    n_sites: int,
    *,
    generator: torch.Generator,
) -> Chains:
    """Place chains that go on by coins; what is drawn afresh has no start."""
    if method in CHAINS:
        return Chains(start_bits(n_chains, n_sites, generator=generator))
    return Chains(torch.zeros(n_chains, n_sites, device=generator.device))


def sweep_samples(
    state: Chains,
    model: BoltzmannMachine,
    *,
    method: str,
    n_sweeps: int,
    generator: torch.Generator,
) -> Chains:
    """Take a negative phase of learning: by sweeps that go on, or afresh."""
    if method in CHAINS:
        return Chains(advance(method, model, state.x, n_sweeps, generator=generator))
    n = len(state.x)
    return Chains(draw(method, model, n, (n_sweeps,), generator=generator)[n_sweeps])


def update_samples(
    state: Chains,
    model: BoltzmannMachine,
    *,
    method: str,
    n_updates: int,
    generator: torch.Generator,
) -> Chains:
    """Take a negative phase whose chains go on by single-site updates.

    "Gibbs" visits the sites in turn, "GWG" picks them.
    """
    done = state.n_updates + n_updates
    if method == "GWG":
        return Chains(
            boltzmann_gwg(model, state.x, n_updates, generator=generator), done
        )
    sites = torch.arange(state.n_updates, done) % model.n_sites
    return Chains(redraw_bits(model, state.x, sites, generator=generator), done)


def redraw_bits(
    model: BoltzmannMachine, x: Tensor, sites: Tensor, *, generator: torch.Generator
) -> Tensor:
    """Redraw some bits of every chain, one after the other, given the others."""
    x, weight = x.clone(), model.symmetric_weight.detach()
    for site in sites:
        logit = x @ weight[site] + model.bias[site].detach()
        x[:, site] = bernoulli(logit.sigmoid(), generator=generator)
    return x
