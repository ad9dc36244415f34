"""What a sampler is, and the loop that runs one.

A sampler is a pair of pure functions. ``init(x)`` turns a batch of bits
into a state, ``step(state, generator=...)`` returns the next state and
what happened on the way. Nothing is stored elsewhere: the same state and
the same generator give the same step. A state keeps what the energy said
about ``x``, so whoever changes the energy's parameters calls ``init`` again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from tqdm import tqdm

from ebmtut.checks import check_range
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.random import check_generator
from ebmtut.tensor_checks import check_bits, check_finite

__all__ = ["ChainResult", "Sampler", "Step", "StepInfo", "run_chain"]


class StepInfo(NamedTuple):
    """What one step did, one number a chain.

    Attributes
    ----------
    acceptance : Tensor
        Probability of accepting the proposal, ``(batch,)``; 1 for kernels
        that have no acceptance test.
    n_changed : Tensor
        Number of bits that differ from the state before, ``(batch,)``.
    """

    acceptance: Tensor
    n_changed: Tensor


@runtime_checkable
class Step(Protocol):
    """One transition of all chains."""

    def __call__(
        self, state: Any, *, generator: torch.Generator
    ) -> tuple[Any, StepInfo]:
        """Return the next state and what happened."""


class Sampler(NamedTuple):
    """A Markov kernel on bits, as two pure functions.

    Attributes
    ----------
    init : callable
        Bits ``(batch, n_sites)`` to a state, a named tuple with a field ``x``.
    step : callable
        ``step(state, *, generator) -> (state, StepInfo)``.
    """

    init: Callable[[Tensor], Any]
    step: Step


class ChainResult(NamedTuple):
    """What :func:`run_chain` returns.

    Attributes
    ----------
    x_final : Tensor
        The chains' last bits, ``(batch, n_sites)``.
    kept : Tensor
        The states that thinning kept, ``(n_kept, batch, n_sites)``.
    info : dict of str to float
        Each field of :class:`StepInfo`, averaged over chains and over the
        steps after burn-in; empty if there was no such step or no chain.
    """

    x_final: Tensor
    kept: Tensor
    info: dict[str, float]


def run_chain(
    sampler: Sampler,
    x: Tensor,
    n_steps: int,
    *,
    generator: torch.Generator,
    keep_every: int | None = None,
    n_burn: int = 0,
    progress: bool = False,
) -> ChainResult:
    """Run a batch of chains.

    Parameters
    ----------
    sampler : Sampler
        The kernel.
    x : Tensor
        Start, ``(batch, n_sites)``, floating, each entry 0 or 1. Unchanged.
    n_steps : int
        Number of steps after burn-in.
    generator : torch.Generator
        Source of all randomness.
    keep_every : int, optional
        Keep the state after every ``keep_every``-th step past burn-in; by
        default none but the last.
    n_burn : int
        Steps made first, neither kept nor counted.
    progress : bool
        Show a progress bar.

    Returns
    -------
    ChainResult

    Raises
    ------
    InputError
        If ``n_steps`` or ``n_burn`` is negative, ``keep_every`` is below 1,
        ``x`` is not a batch of bits, or there is no generator.
    """
    check_range("n_steps", n_steps, low=0, integer=True)
    check_range("n_burn", n_burn, low=0, integer=True)
    if keep_every is not None:
        check_range("keep_every", keep_every, low=1, integer=True)
    check_bits("x", x)
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
    return ChainResult(
        x_final=state.x,
        kept=torch.stack(kept) if kept else x.new_empty((0, *x.shape)),
        info={name: float(total) / n_steps for name, total in totals.items()}
        if len(x)
        else {},
    )


def start_energy(energy: EnergyFunction, x: Tensor) -> Tensor:
    """Energies of the chains' start, refused unless bits, one a chain and finite."""
    check_bits("x", x)
    with torch.no_grad():
        value = energies_of(energy, x)
    check_finite("energy(x)", value)
    return value
