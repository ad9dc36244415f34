"""The paper's own recipe for its photographs: network, noise, chains and training.

What the paper prints: T and K, Adam's rate of 0.0001, the network of its Tables 5 and
6. What its code adds (March 2021): Adam's beta1; the noise of six levels, cut from
denoising diffusion's, the data's own among it; b and c_t; energies in units of the
squared step; rows weighted by the noise; a million steps after a warm-up of 1000;
flips. Its last level is drawn without the parabola, as here with a last sigma of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import check_choice, check_counts
from ebmtut.energies import PAPER_NETWORKS, LevelEnergy, WideResNetEnergy
from ebmtut.experiments.drl.images import ImageRecipe
from ebmtut.losses import DenoisingScoreMatching, RecoveryLikelihood
from ebmtut.noise import NoiseLevels, ddpm_noise, linear_noise
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain, paper_step_sizes
from ebmtut.training import TrainConfig

#: Networks by the set.
_NETWORKS = {
    "CIFAR-10": "cifar10",
    "CelebA 64x64": "celeba64",
    "LSUN churches 64x64": "lsun_church64",
    "LSUN churches 128x128": "lsun_church128",
    "LSUN bedrooms 64x64": "lsun_bedroom64",
    "LSUN bedrooms 128x128": "lsun_bedroom128",
}
#: Squared step size of the code, in units of the noise.
_B = math.sqrt(2e-4)


@dataclass(frozen=True)
class PaperRecipe(ImageRecipe):
    """`ImageRecipe` with the paper's network, noise, chains and training."""

    data: str = "CIFAR-10"
    hidden: int = 128
    n_chain_steps: int = 30
    n_steps: int = 1_000_000
    batch_size: int = 256
    learning_rate: float = 1e-4
    n_warmup: int = 1000

    def __post_init__(self) -> None:
        check_choice("data", self.data, _NETWORKS)
        check_counts(n_levels=self.n_levels, hidden=self.hidden)

    @property
    def noise(self) -> NoiseLevels:
        """The code's levels; a thousand are those of denoising diffusion."""
        six = ddpm_noise(6)
        if self.n_levels == 1:
            return NoiseLevels((1.0,), six.data_sigma)
        if self.n_levels >= 100:
            return linear_noise(self.n_levels, data_sigma=six.data_sigma)
        return ddpm_noise(self.n_levels)

    @property
    def chain(self) -> ConditionalChain:
        """Langevin dynamics without a test, from the noisy state."""
        sizes = paper_step_sizes(self.noise, _B)
        return ConditionalChain(
            self.n_chain_steps, sizes, adjusted=False, start="noisy"
        )

    @property
    def optimizer(self) -> TrainConfig:
        """Adam at a rate that stays, in bfloat16 where that is fast."""
        beta1 = PAPER_NETWORKS[_NETWORKS[self.data]].beta1
        return replace(
            super().optimizer, decay="constant", precision="auto", beta1=beta1
        )

    @property
    def n_at_once(self) -> int:
        """A batch of the training."""
        return self.batch_size

    @property
    def scales(self) -> tuple[float, ...]:
        """What the network is divided by: c_t^2 b^2 sigma^2, the step in y squared."""
        sizes = paper_step_sizes(self.noise, _B)
        shrunk = (a or 1.0 for a in self.noise.shrinkages)
        return tuple((s * a) ** 2 for s, a in zip(sizes, shrunk, strict=True))

    def energy(self, shape: tuple[int, ...], seed: int) -> nn.Module:
        """Make the Wide-ResNet, its weights drawn from a seed."""
        config = replace(
            PAPER_NETWORKS[_NETWORKS[self.data]],
            channels=self.hidden,
            n_levels=self.n_levels,
        )
        return WideResNetEnergy(config, self.scales, generator=make_generator(seed))

    def loss(self, n_pixels: int) -> DenoisingScoreMatching | RecoveryLikelihood:
        """Return what is minimised, of images that a coin has flipped."""
        if self.objective == "score":
            return FlippedScore(self.noise)
        # The code's loss has the network's own values, before they are divided. The
        # energies are larger by orders: the divergence check on their gap would never
        # be still.
        first = self.noise.sigmas[0]
        weights = tuple(
            scale * first / sigma
            for scale, sigma in zip(self.scales, self.noise.sigmas, strict=True)
        )
        return FlippedRecovery(
            self.noise,
            self.chain,
            largest_gap=None,
            weighted=weights,
            data_range=(-1.0, 1.0),
        )


def flipped(
    x: Float[Tensor, "batch n_colors side side"], *, generator: torch.Generator
) -> Float[Tensor, "batch n_colors side side"]:
    """Mirror each image of a batch, left and right, with probability one half."""
    coin = torch.rand(len(x), generator=generator, device=generator.device) < 0.5
    return torch.where(coin[:, None, None, None], x.flip(3), x)


class FlippedRecovery(RecoveryLikelihood):
    """Recovery likelihood of images that a coin has flipped."""

    def __call__(
        self, energy: LevelEnergy, x: Tensor, *, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of a batch of data."""
        return super().__call__(
            energy, flipped(x, generator=generator), generator=generator
        )


class FlippedScore(DenoisingScoreMatching):
    """Denoising score matching of images that a coin has flipped."""

    def __call__(
        self, energy: LevelEnergy, x: Tensor, *, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of a batch of data."""
        return super().__call__(
            energy, flipped(x, generator=generator), generator=generator
        )


#: T6 on CIFAR-10, K = 30.
CIFAR10 = PaperRecipe()
#: The same on larger photographs; Adam's beta1 is 0.5 for CelebA and for 128 x 128
#: pixels, of which the churches take 25 GB of memory.
CELEBA = PaperRecipe("CelebA 64x64", batch_size=128)
CHURCHES = PaperRecipe("LSUN churches 64x64", batch_size=128)
CHURCHES_128 = PaperRecipe("LSUN churches 128x128", batch_size=64)
BEDROOMS = PaperRecipe("LSUN bedrooms 64x64", batch_size=128)
BEDROOMS_128 = PaperRecipe("LSUN bedrooms 128x128", batch_size=64)
#: T1k, of which no code is out: noise, scale and weights of T6's form are ours, and so
#: are its number of steps and the noise on the data.
T1K = PaperRecipe(n_levels=1000, n_chain_steps=0)
