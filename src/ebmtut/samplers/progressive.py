r"""From white noise to data, a conditional distribution at a time.

Progressive sampling (Gao et al., 2021, Algorithm 2) starts from white noise at
level T and draws :math:`x_t` given :math:`x_{t+1}` by a short chain for t = T - 1,
..., 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import checked
from ebmtut.energies import LevelEnergy, at_level
from ebmtut.noise import NoiseLevels
from ebmtut.random import check_generator
from ebmtut.samplers.conditional import ConditionalChain, draw_conditional
from ebmtut.samplers.langevin import Draw, normals, vector_state
from ebmtut.tensor_checks import check_finite, check_vectors

__all__ = ["denoised", "descend", "progressive_samples"]


@torch.no_grad()
@checked
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
    start, chain
        White noise, the states of level T; how to sample the conditional distributions.

    Returns
    -------
    samples
        ``samples[t]`` are those of level t.

    Raises
    ------
    DivergenceError
        If energies are no longer finite; names the level.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.noise import geometric_noise
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import ConditionalChain, progressive_samples
    >>> g = make_generator(0)
    >>> noise, start = geometric_noise(4), torch.randn(5, 2, generator=g)
    >>> energy = lambda x, t: x.square().sum(dim=1) / 2
    >>> progressive_samples(energy, noise, start, ConditionalChain(), generator=g).shape
    torch.Size([5, 5, 2])
    """
    check_vectors("start", start)
    check_generator(generator, start.device)
    return descend(energy, noise, start, chain, normals(generator))


@checked
def denoised(
    energy: LevelEnergy, noise: NoiseLevels, x: Float[Tensor, "batch ..."]
) -> Float[Tensor, "batch ..."]:
    r"""Mean of the clean data given states of level 0, by Tweedie's formula.

    :math:`(x_0 - \bar\sigma_0^2 \nabla E(x_0, 0)) / \sqrt{1 - \bar\sigma_0^2}`, where
    the energy is that of the data's distribution at level 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.noise import geometric_noise
    >>> from ebmtut.samplers import denoised
    >>> def energy(x, t):  # of standard normal data, at every level
    ...     return x.square().sum(dim=1) / 2
    >>> noise = geometric_noise(4, 0.75)  # noise of level 0: 0.75 of the signal
    >>> denoised(energy, noise, torch.ones(1, 2))  # 1 / sqrt(1 + 0.75**2)
    tensor([[0.8000, 0.8000]])
    """
    check_vectors("x", x)
    gradient = vector_state(at_level(energy, 0), x).gradient
    check_finite("the gradient of energy(x, 0)", gradient)
    return (x - noise.noises[0] ** 2 * gradient) / noise.signals[0]


def descend(
    energy: LevelEnergy,
    noise: NoiseLevels,
    start: Tensor,
    chain: ConditionalChain,
    draw: Draw,
    known: Tensor | None = None,
    free: Tensor | None = None,
) -> Tensor:
    """Draw a state of every level, as `progressive_samples` returns them."""
    samples = [start]
    for t in reversed(range(noise.n_levels)):
        level = torch.full((len(start),), t, device=start.device)
        x, _ = draw_conditional(
            energy,
            noise,
            samples[-1],
            level,
            chain,
            draw,
            known=None if known is None else known[t],
            free=free,
        )
        samples.append(x)
    return torch.stack(samples[::-1])
