"""Denoising score matching: the energy's gradient predicts the noise in the data.

It runs no chains, and stands beside recovery likelihood on the same levels.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut._gradients import with_gradients
from ebmtut.checks import InputError, checked
from ebmtut.energies import LevelEnergy, energies_of
from ebmtut.noise import NoiseLevels, check_levels
from ebmtut.random import check_generator
from ebmtut.samplers.langevin import normals
from ebmtut.tensor_checks import check_shape, check_vectors

__all__ = ["DenoisingScoreMatching", "denoising_score_matching_loss"]


@with_gradients
@checked
def denoising_score_matching_loss(
    energy: LevelEnergy,
    noise: NoiseLevels,
    x: Float[Tensor, "batch ..."],
    level: Int[Tensor, " batch"],
    *,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    r"""Squared error of the noise that the energy's gradient predicts.

    The score of level t is minus the gradient of E(x, t); times minus the noise's
    standard deviation it predicts the noise in :math:`x_t` (Vincent, 2011; Gao et al.,
    2021, Section 3.4).

    Parameters
    ----------
    x, level
        Data without noise, and the level of each row, which must be noisy.

    Returns
    -------
    loss
        Mean over rows of the sum over coordinates.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import denoising_score_matching_loss
    >>> from ebmtut.noise import geometric_noise
    >>> from ebmtut.random import make_generator
    >>> loss = denoising_score_matching_loss(
    ...     lambda x, level: x.square().sum(dim=1) / 2,
    ...     geometric_noise(4),
    ...     torch.zeros(5, 2),
    ...     torch.ones(5, dtype=torch.long),
    ...     generator=make_generator(0),
    ... )
    >>> loss.shape
    torch.Size([])
    """
    check_vectors("x", x)
    check_generator(generator, x.device)
    check_shape("level", level, (len(x),))
    check_levels(level, noise.n_levels - 1)
    shape = (-1, *[1] * (x.dim() - 1))
    std = x.new_tensor(noise.noises)[level].reshape(shape)
    signal = x.new_tensor(noise.signals)[level].reshape(shape)
    epsilon = normals(generator)(x)
    noisy = (signal * x + std * epsilon).requires_grad_()
    value = energies_of(lambda z: energy(z, level), noisy)
    (gradient,) = torch.autograd.grad(value.sum(), noisy, create_graph=True)
    return ((std * gradient - epsilon) ** 2).flatten(1).sum(1).mean()


class DenoisingScoreMatching:
    """The training loss of `denoising_score_matching_loss` over all noisy levels."""

    @checked
    def __init__(self, noise: NoiseLevels) -> None:
        self.noise = noise
        self.lowest = 0 if noise.noises[0] > 0 else 1
        if self.lowest >= noise.n_levels:
            raise InputError("noise must have a noisy level below T, got none")

    def __call__(
        self,
        energy: LevelEnergy,
        x: Float[Tensor, "batch ..."],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of a batch of data."""
        check_generator(generator, x.device)
        level = torch.randint(
            self.lowest,
            self.noise.n_levels,
            (len(x),),
            generator=generator,
            device=x.device,
        )
        return denoising_score_matching_loss(
            energy, self.noise, x, level, generator=generator
        )
