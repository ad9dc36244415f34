r"""From white noise to data, a conditional law at a time.

Progressive sampling (Gao et al., 2021, Algorithm 2) starts from white noise at
level T and draws :math:`x_t` given :math:`x_{t+1}` by a short chain for t = T - 1,
..., 0. Since every draw is a function of standard normals, noise between two runs
gives states between theirs (interpolation); chains that move some coordinates
only, and see the others as the forward chain left them, complete what is known
(inpainting).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    Natural,
    Positive,
    Range,
    check_counts,
    checked,
)
from ebmtut.energies import LevelEnergy, at_level, conditional_energy
from ebmtut.noise import NoiseLevels
from ebmtut.random import check_generator, normal
from ebmtut.samplers.langevin import (
    Draw,
    VectorState,
    langevin_move,
    normals,
    vector_state,
)
from ebmtut.tensor_checks import check_shape, check_vectors

__all__ = [
    "ConditionalChain",
    "denoised",
    "inpaint",
    "interpolate",
    "paper_step_sizes",
    "progressive_samples",
]


@checked
@dataclass(frozen=True)
class ConditionalChain:
    r"""How to draw from the law of :math:`x_t` given :math:`x_{t+1}`.

    Parameters
    ----------
    n_steps
        K, Langevin steps. 0 draws from the normal law that has the energy's
        gradient at :math:`x_{t+1} / a` (Gao et al., Equations 11 and 12).
    step_size
        In units of :math:`\sigma_{t+1}`, which is the width of the conditional law
        where the marginal one is a standard Gaussian; or a tuple with the step
        size of every level itself, such as `paper_step_sizes` gives.
    adjusted
        Whether a Metropolis test corrects the steps (MALA).
    start
        "gaussian" draws the start as if level t were standard Gaussian, from
        :math:`N(a\, x_{t+1}, \sigma^2)`; "noisy" takes :math:`x_{t+1} / a`, as
        the paper does.
    n_starts
        M, Gaussian starts of which one is kept, with a probability proportional to
        its weight :math:`e^{-E(x, t) + |x|^2 / 2}`. Where a chain cannot cross
        between modes, many starts divide its mass among them; in high dimensions
        one weight outdoes all others, and nothing is gained.
    averaged
        Whether each step takes the mean of two normals in a row, each of which serves
        two steps (Leimkuhler and Matthews, 2013): in the long run a Gaussian law then
        has its own variance, which unadjusted steps exceed. Not with an acceptance
        test, which needs fresh noise.

    Raises
    ------
    InputError
        If a number is outside its range, the start unknown, or averaged noise is to be
        tested.
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
        """Return the step size of every level.

        Raises
        ------
        InputError
            If there are not as many as levels.
        """
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

    The paper steps in :math:`y_t = a\, x_t`, so that in :math:`x_t` the size is
    divided by a, where that is not 0. The factor :math:`c_t` is that of the paper's
    code, :math:`c_t^2 = \bar\sigma_t / \bar\sigma_0`; without noise on the data it
    is left out.

    Parameters
    ----------
    noise
        The forward chain.
    b
        Positive; the paper's code has :math:`b^2 = 2 \cdot 10^{-4}`.

    Raises
    ------
    InputError
        If ``b`` is not positive.
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
) -> tuple[VectorState, Tensor]:
    """Run a short chain of the law of x_t given x_{t+1}; each row has its level.

    Returns the state and each row's acceptance rate, 1 without a test. Where
    ``free`` is 0, x_t stays what ``known`` says.
    """
    sizes = torch.tensor(chain.step_sizes(noise), dtype=above.dtype)
    delta = sizes.to(above.device)[level]
    conditional = conditional_energy(energy, noise, above, level)
    shape = (-1, *[1] * (above.dim() - 1))
    sigma = above.new_tensor(noise.sigmas)[level].reshape(shape)
    shrinkage = above.new_tensor(noise.shrinkages)[level].reshape(shape)
    if chain.n_steps == 0:
        x = _normal_approximation(energy, above, level, sigma, shrinkage, draw)
    elif chain.start == "gaussian":
        x = shrinkage * above + sigma * draw(above)
        if chain.n_starts > 1:
            starts = [
                shrinkage * above + sigma * draw(above)
                for _ in range(chain.n_starts - 1)
            ]
            x = _kept_start(energy, torch.stack([x, *starts]), level, draw)
    else:
        x = above / torch.where(shrinkage > 0, shrinkage, 1.0)
    if known is not None and free is not None:
        x = torch.where(free > 0, x, known)
    state = vector_state(conditional, x)
    if chain.averaged:
        draw = averaged_normals(draw)
    accepted = torch.zeros_like(state.energy)
    for _ in range(chain.n_steps):
        state, info = langevin_move(
            conditional, state, delta, draw, adjusted=chain.adjusted, free=free
        )
        accepted += info.acceptance
    _check_alive(state, level)
    return state, accepted / max(chain.n_steps, 1)


def averaged_normals(draw: Draw) -> Draw:
    """Means of two standard normals in a row: variance 1/2, neighbours' covariance 1/4.

    Of these every step of a chain of Leimkuhler and Matthews takes one.
    """
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
    """Keep one Gaussian start of each row, by the weights of the conditional law.

    The parabola of x_{t+1} less that of the Gaussian is -|x|^2 / 2 and a constant.
    """
    with torch.no_grad():
        flat = starts.flatten(0, 1)
        weights = 0.5 * (flat**2).flatten(1).sum(1)
        weights = weights - energy(flat, level.repeat(len(starts)))
        weights = weights.reshape(len(starts), -1)
        # The largest of weights and Gumbel noise, made of standard normals.
        gumbel = -torch.log(-torch.special.log_ndtr(draw(weights)))
        place = (weights + gumbel).argmax(0)
    return starts[place, torch.arange(len(place), device=place.device)]


def _check_alive(state: VectorState, level: Tensor) -> None:
    bad = ~torch.isfinite(state.energy)
    if bool(bad.any()):
        finite = state.energy[~bad].abs()
        largest = f"{float(finite.max()):.3g}" if len(finite) else "none finite"
        raise DivergenceError(
            f"chains diverged at level {int(level[bad][0])}: {int(bad.sum())} of "
            f"{len(bad)} energies are not finite, the largest other is {largest}; "
            "try a smaller step_size or adjusted=True",
            step=-1,
        )


@torch.no_grad()
def progressive_samples(
    energy: LevelEnergy,
    noise: NoiseLevels,
    start: Float[Tensor, "batch ..."],
    chain: ConditionalChain,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_levels batch ..."]:
    """Draw samples of all levels, from the highest down.

    Parameters
    ----------
    energy
        Of all levels.
    noise
        The forward chain.
    start
        White noise, the states of level T.
    chain
        How to draw from the conditional laws.
    generator
        Source of randomness.

    Returns
    -------
    samples
        ``samples[t]`` are those of level t; ``samples[T]`` is the start.

    Raises
    ------
    InputError
        If the start is no batch of finite floats.
    DivergenceError
        If energies are no longer finite; names the level.
    """
    check_vectors("start", start)
    check_generator(generator, start.device)
    return _descend(energy, noise, start, chain, normals(generator))


def denoised(
    energy: LevelEnergy, noise: NoiseLevels, x: Float[Tensor, "batch ..."]
) -> Float[Tensor, "batch ..."]:
    r"""Mean of the clean data given states of level 0, by Tweedie's formula.

    :math:`(x_0 - \bar\sigma_0^2 \nabla E(x_0, 0)) / \sqrt{1 - \bar\sigma_0^2}`
    where the energy is that of the data's law at level 0. It takes away the noise
    that level 0 carries, and changes nothing where it carries none.

    Parameters
    ----------
    energy
        Of all levels.
    noise
        The forward chain.
    x
        States of level 0.

    Raises
    ------
    InputError
        If the states are no batch of finite floats.
    """
    check_vectors("x", x)
    gradient = vector_state(at_level(energy, 0), x).gradient
    return (x - noise.noises[0] ** 2 * gradient) / noise.signals[0]


def _descend(
    energy: LevelEnergy,
    noise: NoiseLevels,
    start: Tensor,
    chain: ConditionalChain,
    draw: Draw,
    known: Tensor | None = None,
    free: Tensor | None = None,
) -> Tensor:
    samples = [start]
    for t in reversed(range(noise.n_levels)):
        level = torch.full((len(start),), t, device=start.device)
        state, _ = draw_conditional(
            energy,
            noise,
            samples[-1],
            level,
            chain,
            draw,
            known=None if known is None else known[t],
            free=free,
        )
        samples.append(state.x)
    return torch.stack(samples[::-1])


@torch.no_grad()
@checked
def interpolate(
    energy: LevelEnergy,
    noise: NoiseLevels,
    like: Float[Tensor, "batch ..."],
    chain: ConditionalChain,
    n_points: Annotated[int, Range(low=2)],
    *,
    generators: tuple[torch.Generator, torch.Generator],
) -> Float[Tensor, "n_points batch ..."]:
    """Samples of level 0 between two runs, along arcs of their noise.

    All standard normals, those of the start and of every step, are turned from
    the first run's into the second's: cos(angle) e_0 + sin(angle) e_1 (Gao et al.,
    2021, Section 4.1). An acceptance test, too, is decided by such a number.

    Parameters
    ----------
    energy, noise, chain
        As for `progressive_samples`.
    like
        Whose shape and dtype the samples have; its values do not count.
    n_points
        How many samples an arc has, with its ends.
    generators
        Of the two runs: `progressive_samples` started from ``normal(like,
        generator=...)`` with one of them gives the same end, exactly. They are
        not advanced.

    Raises
    ------
    InputError
        If there are fewer than 2 points, or the generators are none.
    """
    for generator in generators:
        check_generator(generator, like.device)
    samples = []
    for k in range(n_points):
        angle = torch.tensor(k / (n_points - 1) * torch.pi / 2, dtype=torch.float64)
        # The cosine of a rounded quarter turn is not quite 0.
        weights = (0.0, 1.0) if k == n_points - 1 else (angle.cos(), angle.sin())
        twins = [generator.clone_state() for generator in generators]
        draw = _between(twins[0], twins[1], float(weights[0]), float(weights[1]))
        samples.append(_descend(energy, noise, draw(like), chain, draw)[0])
    return torch.stack(samples)


def _between(
    first: torch.Generator, second: torch.Generator, cos: float, sin: float
) -> Draw:
    def draw(like: Tensor) -> Tensor:
        one = normal(like, generator=first)
        other = normal(like, generator=second)
        return cos * one + sin * other

    return draw


@torch.no_grad()
def inpaint(
    energy: LevelEnergy,
    noise: NoiseLevels,
    data: Float[Tensor, "batch ..."],
    free: Float[Tensor, "batch ..."],
    chain: ConditionalChain,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch ..."]:
    """Complete data of which some coordinates are known.

    The known ones pass through the forward chain; on every level the chain of the
    conditional law moves only the others (Gao et al., 2021, Section 4.1).

    Parameters
    ----------
    energy, noise, chain
        As for `progressive_samples`; with at least one step.
    data
        The states; what is free in them does not count.
    free
        1 where a coordinate is to be found, 0 where it is known.
    generator
        Source of randomness.

    Returns
    -------
    samples
        Like ``data``, of level 0, with the known coordinates exactly as they are.

    Raises
    ------
    InputError
        If the mask has another shape or other values, or the chain no step.
    """
    check_vectors("data", data)
    check_shape("free", free, tuple(data.shape))
    outside = free[(free != 0) & (free != 1)]
    if outside.numel():
        raise InputError(f"free must hold only 0 and 1, got {outside[0].item():g}")
    check_counts(n_steps=chain.n_steps)
    # What is free carries no information: it is noise from the start.
    blank = torch.where(free > 0, torch.zeros_like(data), data)
    zeros = torch.zeros(len(data), dtype=torch.long, device=data.device)
    known = [
        noise.signals[0] * blank + noise.noises[0] * normal(data, generator=generator)
    ]
    for t in range(noise.n_levels):
        known.append(noise.step(known[-1], zeros + t, generator=generator))
    start = torch.where(free > 0, normal(data, generator=generator), known[-1])
    draw = normals(generator)
    x = _descend(
        energy, noise, start, chain, draw, known=torch.stack(known), free=free
    )[0]
    return torch.where(free > 0, x, data)
