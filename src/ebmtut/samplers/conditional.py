r"""A short chain for :math:`x_t` given :math:`x_{t+1}`.

Training on recovery likelihood runs one a datum, sampling one a level (Gao et al.,
2021, Algorithms 1 and 2).
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    Natural,
    Positive,
    checked,
)
from ebmtut.energies import LevelEnergy
from ebmtut.energies.levels import ConditionalEnergy
from ebmtut.noise import NoiseLevels, constants, rows
from ebmtut.samplers.langevin import (
    Draw,
    langevin_jump,
    langevin_move,
    per_chain,
    vector_state,
)

__all__ = ["ConditionalChain", "draw_conditional", "paper_step_sizes"]


@checked
@dataclass(frozen=True)
class ConditionalChain:
    r"""How to sample the distribution of :math:`x_t` given :math:`x_{t+1}`.

    Parameters
    ----------
    n_steps
        K, Langevin steps. 0 samples a normal distribution (Gao et al., Equations 11 and
        12).
    step_size
        In units of :math:`\sigma_{t+1}`; or a tuple with the step size of every level.
    adjusted
        Whether a Metropolis test corrects the steps (MALA).
    start
        "gaussian" samples :math:`N(a\, x_{t+1}, \sigma^2)`; "noisy" takes
        :math:`x_{t+1} / a`, as the paper does.
    n_starts
        M, Gaussian initial points, of which one is kept with a probability proportional
        to :math:`e^{-E(x, t) + |x|^2 / 2}`; useful in low dimension.
    averaged
        Whether a step takes the mean of two successive normals (Leimkuhler and
        Matthews, 2013), which removes the bias on a Gaussian; not with an acceptance
        test.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.noise import geometric_noise
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import ConditionalChain, progressive_samples
    >>> chain = ConditionalChain(n_steps=10, step_size=0.5)
    >>> x = progressive_samples(
    ...     lambda x, t: x.square().sum(dim=1) / 2,
    ...     geometric_noise(4),
    ...     torch.randn(5, 2, generator=make_generator(0)),
    ...     chain,
    ...     generator=make_generator(1),
    ... )
    >>> x[0].shape  # the states of level 0
    torch.Size([5, 2])
    """

    n_steps: Natural = 30
    step_size: Positive | tuple[Positive, ...] = 0.5
    adjusted: bool = True
    start: Literal["gaussian", "noisy"] = "gaussian"
    n_starts: Count = 1
    averaged: bool = False

    def __post_init__(self) -> None:
        if self.averaged and self.adjusted:
            raise InputError("averaged must be False with adjusted=True, got True")
        if self.n_starts > 1 and self.start != "gaussian":
            raise InputError(
                f"n_starts must be 1 with start='noisy', got {self.n_starts}"
            )

    def step_sizes(self, noise: NoiseLevels) -> tuple[float, ...]:
        """Return the step size of every level."""
        if not isinstance(self.step_size, tuple):
            return tuple(self.step_size * sigma for sigma in noise.sigmas)
        if len(self.step_size) != noise.n_levels:
            raise InputError(
                f"step_size must have one for each of the {noise.n_levels} levels, "
                f"got {len(self.step_size)}"
            )
        return self.step_size


@checked
def paper_step_sizes(noise: NoiseLevels, b: Positive) -> tuple[float, ...]:
    r"""Step sizes of the paper's form, :math:`c_t\, b\, \sigma_{t+1}`.

    The paper steps in :math:`y_t = a\, x_t`, so that in :math:`x_t` the size is divided
    by a, where that is not 0. :math:`c_t^2 = \bar\sigma_t / \bar\sigma_0` is from the
    paper's code; without noise on the data it is left out.

    Parameters
    ----------
    b
        Positive; the paper's code has :math:`b^2 = 2 \cdot 10^{-4}`.
    """
    first = noise.noises[0]
    sizes = []
    for t, (sigma, a) in enumerate(zip(noise.sigmas, noise.shrinkages, strict=True)):
        factor = (noise.noises[t] / first) ** 0.5 if first else 1.0
        sizes.append(factor * b * sigma / (a or 1.0))
    return tuple(sizes)


def draw_conditional(
    energy: LevelEnergy,
    noise: NoiseLevels,
    above: Float[Tensor, "batch ..."],
    level: Int[Tensor, " batch"],
    chain: ConditionalChain,
    draw: Draw,
    *,
    known: Tensor | None = None,
    free: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run a short chain for x_t given x_{t+1}; each row has its level.

    Returns the states and acceptance rates. Where ``free`` is 0, x_t stays as
    ``known``.
    """
    delta = constants(chain.step_sizes(noise), above.dtype, above.device)[level]
    given = ConditionalEnergy(energy, noise, above, level)
    sigma = rows(noise.sigmas, level, above)
    shrinkage = rows(noise.shrinkages, level, above)
    if chain.n_steps == 0:
        x = _normal_approximation(energy, above, level, sigma, shrinkage, draw)
    elif chain.start == "gaussian":
        starts = [
            shrinkage * above + sigma * draw(above) for _ in range(chain.n_starts)
        ]
        x = starts[0]
        if chain.n_starts > 1:
            x = _kept_start(energy, torch.stack(starts), level, draw)
    else:
        x = above / torch.where(shrinkage > 0, shrinkage, 1.0)
    if known is not None and free is not None:
        x = torch.where(free > 0, x, known)
    if chain.averaged:
        draw = averaged_normals(draw)
    if not chain.adjusted:
        x = _unadjusted(given, x, delta, draw, chain.n_steps, free)
        return x, x.new_ones(len(x))
    state = vector_state(given, x)
    accepted = torch.zeros_like(state.energy)
    on_the_way = []
    for _ in range(chain.n_steps):
        state, info = langevin_move(given, state, delta, draw, adjusted=True, free=free)
        accepted += info.acceptance
        on_the_way.append(state.energy.sum())
    _check_alive(state.energy, level, on_the_way)
    return state.x, accepted / max(chain.n_steps, 1)


@torch.no_grad()
def _unadjusted(
    given: ConditionalEnergy,
    x: Tensor,
    delta: Tensor,
    draw: Draw,
    n_steps: int,
    free: Tensor | None,
) -> Tensor:
    """Make the steps of `langevin_move` that no test follows: K gradients, no energy.

    Only the last states' energies are evaluated; a sum of the states tells when they
    diverged.
    """
    # Without energies on the way, six steps of a perceptron on digits take 44 percent
    # less CPU time than those of `langevin_move`, to which
    # `test_the_quick_chain_is_the_plain_one` holds them.
    size = per_chain(delta, x)
    on_the_way = []
    for _ in range(n_steps):
        jump = langevin_jump(draw(x), given.gradient(x), size)
        x = x + (jump if free is None else jump * free)
        on_the_way.append(x.sum())
    _check_alive(given.energy(x), given.level, on_the_way)
    return x


class AdaptedChain:
    """A conditional chain whose step sizes follow its acceptance rate, where asked."""

    def __init__(
        self, noise: NoiseLevels, chain: ConditionalChain, target: float | None
    ) -> None:
        if target is not None and not chain.adjusted:
            raise InputError("target_acceptance needs adjusted=True, got False")
        if chain.n_steps == 0 and noise.sigmas[-1] == 1:
            raise InputError("n_steps must be >= 1 where the last sigma is 1, got 0")
        self.noise, self.chain, self.target = noise, chain, target
        sizes = chain.step_sizes(noise)
        self.step_sizes = torch.tensor(sizes, dtype=torch.float64, device="cpu")

    def __call__(
        self, energy: LevelEnergy, above: Tensor, level: Tensor, draw: Draw
    ) -> Tensor:
        """Sample x_t given x_{t+1}, and adapt the step sizes."""
        if self.target is None:
            of = (above, level, self.chain, draw)
            return draw_conditional(energy, self.noise, *of)[0]
        chain = replace(self.chain, step_size=tuple(self.step_sizes.tolist()))
        x, acceptance = draw_conditional(energy, self.noise, above, level, chain, draw)
        # Read together: a GPU is waited for once.
        both = torch.stack([acceptance.double(), level.double()]).cpu()
        error = both[0] - self.target
        follow_acceptance(self.step_sizes, error, both[1].long(), self.noise)
        return x


def follow_acceptance(
    step_sizes: Tensor, error: Tensor, level: Tensor, noise: NoiseLevels
) -> None:
    """Lengthen the steps of levels that accept too much, in place, or shorten them."""
    totals = torch.zeros(2, noise.n_levels, dtype=torch.float64, device="cpu")
    totals.index_add_(1, level, torch.stack([error, torch.ones_like(error)]))
    mean = totals[0] / totals[1].clamp(min=1)
    largest = torch.tensor(noise.sigmas, dtype=torch.float64, device="cpu")
    step_sizes.mul_((0.05 * mean).exp()).clamp_(max=largest)


def averaged_normals(draw: Draw) -> Draw:
    """Means of two successive normals: variance 1/2, covariance 1/4 of neighbours."""
    last: Tensor | None = None

    def mean_of_two(like: Tensor) -> Tensor:
        nonlocal last
        before = draw(like) if last is None else last
        last = draw(like)
        return (before + last) / 2

    return mean_of_two


def _normal_approximation(
    energy: LevelEnergy,
    above: Tensor,
    level: Tensor,
    sigma: Tensor,
    shrinkage: Tensor,
    draw: Draw,
) -> Tensor:
    if not bool((shrinkage > 0).all()):
        raise InputError("n_steps must be >= 1 where the last sigma is 1, got 0")
    center, width = above / shrinkage, sigma / shrinkage
    gradient = vector_state(lambda x: energy(x, level), center).gradient
    return center - width**2 * gradient + width * draw(above)


def _kept_start(
    energy: LevelEnergy, starts: Tensor, level: Tensor, draw: Draw
) -> Tensor:
    """Keep one Gaussian start of each row, by importance weight."""
    with torch.no_grad():
        flat = starts.flatten(0, 1)
        weights = 0.5 * (flat**2).flatten(1).sum(1)
        weights = weights - energy(flat, level.repeat(len(starts)))
        weights = weights.reshape(len(starts), -1)
        # The largest of weights and Gumbel noise, made of standard normals.
        gumbel = -torch.log(-torch.special.log_ndtr(draw(weights)))
        place = (weights + gumbel).argmax(0)
    return starts[place, torch.arange(len(place), device=place.device)]


def _check_alive(energies: Tensor, level: Tensor, on_the_way: list[Tensor]) -> None:
    """Require finite energies of the last states.

    Sums of the states, or of their energies, tell after which step they no longer were.
    """
    bad = ~torch.isfinite(energies)
    if not bool(bad.any()):
        return
    sums = torch.stack(on_the_way) if on_the_way else energies.new_zeros(0)
    step = min(int(torch.isfinite(sums).sum()) + 1, len(sums))
    finite = energies[~bad].abs()
    largest = f"{float(finite.max()):.3g}" if len(finite) else "none finite"
    raise DivergenceError(
        f"chains diverged at level {int(level[bad][0])}, Langevin step {step} of "
        f"{len(sums)}: {int(bad.sum())} of {len(bad)} energies are not finite, the "
        f"largest other is {largest}; try a smaller step_size or adjusted=True",
        step=-1,
    )
