"""What a sampler is, and the loop that runs one.

A sampler is a pair of pure functions: ``init(x)`` turns a batch of bits or real vectors
into a state, and ``step(state, generator=...)`` returns the next state and what
happened. A state keeps what the energy said about ``x``, so whoever changes the
energy's parameters calls ``init`` again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Real
from torch import Tensor
from tqdm import tqdm

from ebmtut.checks import Count, DivergenceError, Natural, check_type, checked
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.random import check_generator
from ebmtut.tensor_checks import check_bits, check_finite

__all__ = ["ChainResult", "Sampler", "Step", "StepInfo", "run_chain"]


class StepInfo(NamedTuple):
    """What one step on bits did, one number a chain.

    Attributes
    ----------
    acceptance
        Probability of accepting the proposal; 1 without an acceptance test; NaN where
        an energy is.
    n_changed
        Number of bits that differ from the state before.
    """

    acceptance: Float[Tensor, " batch"]
    n_changed: Real[Tensor, " batch"]


@runtime_checkable
class Step(Protocol):
    """One transition of all chains."""

    def __call__(self, state: Any, *, generator: torch.Generator) -> tuple[Any, Any]:
        """Return the next state and what happened: named numbers, one a chain."""


class Sampler(NamedTuple):
    """A Markov kernel on bits or real vectors, as two pure functions.

    Attributes
    ----------
    init
        States to a named tuple with a field ``x``; raises `InputError` on others.
    step
        ``step(state, *, generator) -> (state, info)``, one number a chain as
        `StepInfo`.
    """

    init: Callable[[Float[Tensor, "batch ..."]], Any]
    step: Step


class ChainResult(NamedTuple):
    """What :func:`run_chain` returns.

    Attributes
    ----------
    x_final
        The chains' last states.
    kept
        The states that thinning kept.
    info
        Each field of the steps' info, averaged over chains and steps after burn-in.
    """

    x_final: Float[Tensor, "batch ..."]
    kept: Float[Tensor, "n_kept batch ..."]
    info: dict[str, float]


@checked
def run_chain(
    sampler: Sampler,
    x: Float[Tensor, "batch ..."],
    n_steps: Natural,
    *,
    generator: torch.Generator,
    keep_every: Count | None = None,
    n_burn: Natural = 0,
    progress: bool = False,
) -> ChainResult:
    """Run a batch of chains.

    Parameters
    ----------
    n_steps, n_burn
        Steps after burn-in, and steps of burn-in.
    keep_every
        Keep every ``keep_every``-th state past burn-in; by default only the last.

    Raises
    ------
    DivergenceError
        If an energy of bits or its gradient is NaN, which a chain would never enter.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import Ising
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import gibbs, run_chain
    >>> energy = Ising(0.3 * torch.eye(3).roll(1, 0))
    >>> start = torch.zeros(5, 3)
    >>> chain = run_chain(gibbs(energy), start, 9, generator=make_generator(0))
    >>> chain.x_final.shape
    torch.Size([5, 3])
    """
    check_type("x", x, Tensor)
    check_generator(generator, x.device)

    # A copy: without a step the last state is the first.
    state = sampler.init(x.clone())
    kept: list[Tensor] = []
    totals: dict[str, Tensor] = {}
    bar = tqdm(total=n_burn + n_steps, disable=not progress, unit="step")
    with bar:
        for step in range(1 - n_burn, n_steps + 1):
            state, info = sampler.step(state, generator=generator)
            bar.update()
            if step < 1:
                continue
            for name, value in info._asdict().items():
                total = value.mean(dtype=torch.float64)
                totals[name] = totals[name] + total if name in totals else total
            if keep_every is not None and step % keep_every == 0:
                kept.append(state.x)
    if len(x) and any(total.isnan() for total in totals.values()):
        raise DivergenceError(
            "the energy of a chain's proposal, or its gradient, is NaN", step=-1
        )
    return ChainResult(
        x_final=state.x,
        kept=torch.stack(kept) if kept else x.new_empty((0, *x.shape)),
        info={name: float(total) / n_steps for name, total in totals.items()}
        if len(x)
        else {},
    )


def start_energy(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, " batch"]:
    """Energies of the chains' start, refused unless bits, one a chain and finite."""
    check_bits("x", x)
    with torch.no_grad():
        value = energies_of(energy, x)
    check_finite("energy(x)", value)
    return value
