"""The paper's own setting of the experiments with images, of their "paper" presets."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ebmtut.checks import Count, Natural, OneOf, Positive, checked
from ebmtut.energies import PAPER_NETWORKS, WideResNetEnergy
from ebmtut.experiments.drl.images import PHOTOGRAPHS, ImageRecipe
from ebmtut.losses import RecoveryLikelihood
from ebmtut.noise import NoiseLevels, ddpm_noise, linear_noise
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain, paper_step_sizes
from ebmtut.training import TrainConfig

#: Squared step size of the paper's code, in units of the noise.
_B = math.sqrt(2e-4)


@checked
@dataclass(frozen=True)
class PaperRecipe(ImageRecipe):
    """`ImageRecipe` with the paper's network, noise, chains and training.

    The paper prints T and K, Adam's rate of 0.0001, and the network (Tables 5 and 6).
    Its code (March 2021) adds Adam's beta1; the noise of six levels, cut from denoising
    diffusion's, with noise on the data; b and c_t; energies in units of the squared
    step; rows weighted by the noise; a million steps after a warm-up of 1000; flips.
    Its last level has no quadratic term, as here with a last sigma of 1.
    """

    data: Annotated[str, OneOf(PHOTOGRAPHS)] = "CIFAR-10"
    n_chain_steps: Natural = 30
    n_steps: Count = 1_000_000
    batch_size: Count = 256
    learning_rate: Positive = 1e-4
    n_warmup: int = 1000

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
        """Adam at a constant rate, in bfloat16 where that is fast."""
        beta1 = PAPER_NETWORKS[PHOTOGRAPHS[self.data][0]].beta1
        usual = super().optimizer
        return replace(usual, decay="constant", precision="auto", beta1=beta1)

    @property
    def scales(self) -> tuple[float, ...]:
        """What the network is divided by: c_t^2 b^2 sigma^2, the step in y squared."""
        sizes = paper_step_sizes(self.noise, _B)
        shrunk = (a or 1.0 for a in self.noise.shrinkages)
        return tuple((s * a) ** 2 for s, a in zip(sizes, shrunk, strict=True))

    def energy(self, shape: tuple[int, ...], seed: int) -> nn.Module:
        """Make the Wide-ResNet, with weights from a seed."""
        known = PAPER_NETWORKS[PHOTOGRAPHS[self.data][0]]
        config = replace(known, channels=self.hidden, n_levels=self.n_levels)
        generator = make_generator(seed)
        return WideResNetEnergy(config, self.scales, generator=generator)

    def augmented(self, x: Tensor, *, generator: torch.Generator) -> Tensor:
        """Mirror each image of a batch, left and right, with probability one half."""
        coin = torch.rand(len(x), generator=generator, device=generator.device) < 0.5
        return torch.where(coin[:, None, None, None], x.flip(3), x)

    def recovery(self, n_pixels: int) -> RecoveryLikelihood:
        """Return the loss of recovery likelihood."""
        # The code's loss has the network's own values, before they are divided. The
        # energies are larger by orders of magnitude: no bound on their difference.
        sigmas = self.noise.sigmas
        pairs = zip(self.scales, sigmas, strict=True)
        weights = tuple(scale * sigmas[0] / sigma for scale, sigma in pairs)
        of: Any = {"largest_gap": None, "data_range": (-1.0, 1.0)}
        return RecoveryLikelihood(self.noise, self.chain, weighted=weights, **of)


#: T6, K = 30. Adam's beta1 is 0.5 for CelebA and for 128 x 128 pixels, of which the
#: churches take 25 GB of memory.
CIFAR10 = PaperRecipe()
CELEBA = PaperRecipe("CelebA 64x64", batch_size=128)
CHURCHES = PaperRecipe("LSUN churches 64x64", batch_size=128)
CHURCHES_128 = PaperRecipe("LSUN churches 128x128", batch_size=64)
BEDROOMS = PaperRecipe("LSUN bedrooms 64x64", batch_size=128)
BEDROOMS_128 = PaperRecipe("LSUN bedrooms 128x128", batch_size=64)
OTHERS = (CELEBA, CHURCHES, BEDROOMS, CHURCHES_128, BEDROOMS_128)
#: T1k, of which no code is published: noise, scale and weights of T6's form are our
#: choices, and so are its number of steps and the noise on the data.
T1K = PaperRecipe(n_levels=1000, n_chain_steps=0)
