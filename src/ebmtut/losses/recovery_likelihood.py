"""Recovery likelihood: learn to undo one step of noise at a time.

The gradient is that of the mean energy of data minus the mean energy of samples of the
conditional distribution of :math:`x_t` given :math:`x_{t+1}`, which short chains
approximate (Gao et al., ICLR 2021, Section 3).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import (
    Fraction,
    NonNegative,
    Positive,
    check_range,
    check_type,
    checked,
)
from ebmtut.energies import LevelEnergy, energies_of
from ebmtut.losses.energy_difference import check_difference, saturated_gap
from ebmtut.noise import NoiseLevels, constants
from ebmtut.random import check_generator
from ebmtut.samplers.conditional import AdaptedChain, ConditionalChain
from ebmtut.samplers.langevin import normals
from ebmtut.tensor_checks import check_shape, check_vectors, check_within

__all__ = ["Chains", "RecoveryLikelihood", "recovery_likelihood_loss"]


@checked
def recovery_likelihood_loss(
    energy: LevelEnergy,
    x: Float[Tensor, "batch ..."],
    x_model: Float[Tensor, "batch ..."],
    level: Int[Tensor, " batch"],
    *,
    weight: Float[Tensor, " batch"] | None = None,
    regulariser: float = 0.0,
    largest_gap: float | None = None,
    trusted_gap: float | None = None,
    usual_gap: Float[Tensor, ""] | None = None,
) -> Float[Tensor, ""]:
    """Mean energy of data minus that of samples of the conditional distributions.

    Its gradient is an unbiased estimate of that of the negative recovery log-likelihood
    if the samples are exact; its value measures nothing.

    Parameters
    ----------
    x_model, level
        Samples of each row's distribution given the same state one level up; its level.
    weight
        Of each row; None is 1. The paper's code has sigma_1 / sigma_{t+1}.
    regulariser
        Weight of the mean squared energy, which holds the energies' free constant.
    largest_gap
        Largest allowed difference of the two mean energies.
    trusted_gap
        c of `saturated_gap`; None clips nothing.
    usual_gap
        Running mean of the batches' median gaps, on the processor; changed in place.
        With a trusted gap this is checked, too: below -c / 2 most chains have failed,
        in many batches.

    Raises
    ------
    DivergenceError
        If the energies are not finite, their gap is too large, or most chains have
        failed.
    """
    check_type("x", x, Tensor)
    check_range("len(x)", len(x), low=1, integer=True)
    check_shape("x_model", x_model, tuple(x.shape))
    check_shape("level", level, (len(x),))
    levels = torch.cat([level, level])
    values = energies_of(lambda z: energy(z, levels), torch.cat([x, x_model]))
    data, model = values.chunk(2)
    gap = data - model
    clipped = gap if trusted_gap is None else saturated_gap(gap, trusted_gap)
    check_difference(
        gap.detach(),
        values.detach(),
        level,
        largest=largest_gap,
        trusted=trusted_gap,
        usual=usual_gap,
        clipped=clipped.detach(),
    )
    loss = (clipped if weight is None else weight * clipped).mean()
    if regulariser:
        loss = loss + regulariser * (values**2).mean()
    return loss


class Chains(NamedTuple):
    """What a batch was learned from.

    Attributes
    ----------
    data
        States of the forward chain.
    samples
        Short chains' samples, given the same states one level up.
    """

    data: Tensor
    samples: Tensor
    level: Tensor


class RecoveryLikelihood:
    r"""The training loss: noise, chains and `recovery_likelihood_loss` together.

    Each row gets a random level, the pair :math:`x_t, x_{t+1}` from the forward chain,
    and a sample of :math:`x_t` given :math:`x_{t+1}` (Gao et al., 2021, Algorithm 1).
    With a single sigma of 1 it is the marginal likelihood with short-run chains from
    white noise.

    Parameters
    ----------
    regulariser, largest_gap, trusted_gap
        As for `recovery_likelihood_loss`.
    weighted
        Whether rows count sigma_1 / sigma_{t+1}, as in the paper's code; or the
        weight of every level.
    target_acceptance
        None keeps the step sizes. Otherwise each level's step size follows its
        acceptance rate, so that chains keep moving where an energy grows steep.
    patient
        Whether to go on where the loss stays clipped: no check of `usual_gap`.
    data_range
        Smallest and largest value of the data, such as (-1, 1); None takes any.

    Attributes
    ----------
    step_sizes
        Of all levels, changed in place.
    usual_gap
        Running mean of the batches' median gaps, changed in place.
    last
        The `Chains` of the last batch; None before the first.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import PerceptronEnergy
    >>> from ebmtut.losses import RecoveryLikelihood
    >>> from ebmtut.noise import geometric_noise
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import ConditionalChain
    >>> noise, g = geometric_noise(4), make_generator(0)
    >>> energy = PerceptronEnergy((2,), noise.sigmas, hidden=8)
    >>> loss = RecoveryLikelihood(noise, ConditionalChain(5))
    >>> loss(energy, torch.randn(16, 2, generator=g), generator=g).shape
    torch.Size([])
    """

    @checked
    def __init__(
        self,
        noise: NoiseLevels,
        chain: ConditionalChain,
        *,
        regulariser: NonNegative = 0.0,
        largest_gap: Positive | None = 1e4,
        trusted_gap: Positive | None = None,
        weighted: bool | tuple[float, ...] = False,
        target_acceptance: Fraction | None = None,
        patient: bool = False,
        data_range: tuple[float, float] | None = None,
    ) -> None:
        if weighted is True:
            weighted = tuple(noise.sigmas[0] / sigma for sigma in noise.sigmas)
        if isinstance(weighted, tuple):
            n_levels = noise.n_levels
            check_range("len(weighted)", len(weighted), low=n_levels, high=n_levels)
        self.noise, self.chain, self.weights = noise, chain, weighted or None
        self.sampler = AdaptedChain(noise, chain, target_acceptance)
        self.step_sizes = self.sampler.step_sizes
        self.usual_gap = torch.zeros((), dtype=torch.float64, device="cpu")
        self.regulariser, self.largest_gap = regulariser, largest_gap
        self.trusted_gap, self.patient = trusted_gap, patient
        self.target_acceptance, self.data_range = target_acceptance, data_range
        self.last: Chains | None = None

    def __call__(
        self,
        energy: LevelEnergy,
        x: Float[Tensor, "batch ..."],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of a batch of data.

        Raises
        ------
        DivergenceError
            If chains or energies are not finite, or the energy gap too large.
        """
        check_vectors("x", x)
        if self.data_range is not None:
            check_within("x", x, *self.data_range)
        check_generator(generator, x.device)
        size, n_levels = (len(x),), self.noise.n_levels
        level = torch.randint(n_levels, size, generator=generator, device=x.device)
        here = self.noise.perturb(x, level, generator=generator)
        above = self.noise.step(here, level, generator=generator)
        sample = self.sampler(energy, above, level, normals(generator))
        self.last = Chains(here, sample, level)
        weight = None
        if self.weights is not None:
            weight = constants(self.weights, x.dtype, x.device)[level]
        return recovery_likelihood_loss(
            energy,
            here,
            sample,
            level,
            weight=weight,
            regulariser=self.regulariser,
            largest_gap=self.largest_gap,
            trusted_gap=self.trusted_gap,
            usual_gap=None if self.patient else self.usual_gap,
        )
