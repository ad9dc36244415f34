r"""Recovery likelihood: learn to undo one step of noise at a time.

The negative log-likelihood of :math:`x_t` given :math:`x_{t+1}` has the gradient of
the mean energy of data minus the mean energy of samples of the conditional
distribution, which short chains approximate; the quadratic term of :math:`x_{t+1}`
has no parameter (Gao et al., "Learning energy-based models by diffusion recovery
likelihood", ICLR 2021, Section 3).
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import InputError, NonNegative, check_range, check_type, checked
from ebmtut.energies import LevelEnergy, energies_of
from ebmtut.losses.energy_difference import check_difference, saturated_gap
from ebmtut.noise import NoiseLevels, constants
from ebmtut.random import check_generator
from ebmtut.samplers.conditional import (
    ConditionalChain,
    draw_conditional,
    follow_acceptance,
)
from ebmtut.samplers.langevin import normals
from ebmtut.tensor_checks import check_shape, check_vectors, check_within

__all__ = [
    "Chains",
    "RecoveryLikelihood",
    "recovery_likelihood_loss",
]


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

    Its gradient is an unbiased estimate of that of the negative recovery
    log-likelihood if the samples are exact; its value measures nothing.

    Parameters
    ----------
    energy
        Of all levels.
    x
        Data, at the levels of the rows.
    x_model
        Samples of the distribution of each row given the same state one level up.
    level
        Of each row.
    weight
        Of each row; None is 1. The paper's code has sigma_1 / sigma_{t+1}.
    regulariser
        Weight of the mean squared energy of data and samples, which holds the
        energies' free constant and their size.
    largest_gap
        Divergence check: the largest difference of the two mean energies.
    trusted_gap
        c, which bounds what a single chain can do: see `saturated_gap`. Some
        multiple of the root of the number of coordinates; None clips nothing.
    usual_gap
        Running mean of the batches' median gaps, on the processor; changed in place.
        With a trusted gap this is checked, too: below -c / 2 most chains have failed,
        in many batches.

    Raises
    ------
    InputError
        If the shapes differ, or there is no row.
    DivergenceError
        If the energies are not finite, their gap is too large, or most chains have
        failed; names the gap, the level and the largest energy.
    """
    check_type("x", x, Tensor)
    check_range("len(x)", len(x), low=1, integer=True)
    check_shape("x_model", x_model, tuple(x.shape))
    check_shape("level", level, (len(x),))
    both = torch.cat([x, x_model])
    values = energies_of(lambda z: energy(z, torch.cat([level, level])), both)
    data, model = values.chunk(2)
    gap = data - model
    chains = gap.detach()
    if trusted_gap is not None:
        gap = saturated_gap(gap, trusted_gap)
    check_difference(
        chains,
        values.detach(),
        level,
        largest=largest_gap,
        trusted=trusted_gap,
        usual=usual_gap,
        clipped=gap.detach(),
    )
    loss = (gap if weight is None else weight * gap).mean()
    if regulariser:
        loss = loss + regulariser * (values**2).mean()
    return loss


class Chains(NamedTuple):
    """What a batch was learned from.

    Attributes
    ----------
    data, samples
        States of the forward chain, and what the short chains made of the same states
        one level up.
    level
        Of each row.
    """

    data: Tensor
    samples: Tensor
    level: Tensor


class RecoveryLikelihood:
    r"""The training loss: noise, chains and `recovery_likelihood_loss` together.

    Each row of a batch gets a level at random, the pair :math:`x_t, x_{t+1}` from
    the forward chain, and a sample of :math:`x_t` given
    :math:`x_{t+1}` (Gao et al., 2021, Algorithm 1). With a single sigma of 1 it is
    the marginal likelihood with short-run chains from white noise.

    Parameters
    ----------
    noise
        The forward chain.
    chain
        How to sample the conditional distributions.
    regulariser, largest_gap, trusted_gap
        As for `recovery_likelihood_loss`.
    weighted
        Whether rows count sigma_1 / sigma_{t+1}, as in the paper's code; or a
        tuple with the weight of every level.
    target_acceptance
        None keeps the step sizes. Else, with an acceptance test, those of every
        level follow their acceptance rate: where an energy grows steep the chains
        stop moving, no sample holds the energy back, and training collapses.
    patient
        Whether to go on where the loss stays clipped: no check of `usual_gap`.
    data_range
        Smallest and largest value of the data, such as (-1, 1) of images; None takes
        any. The noise covers data of the order of 1, not bytes.

    Attributes
    ----------
    step_sizes
        Those of all levels, now; changed in place, so that a checkpoint can hold
        them.
    usual_gap
        Running mean of the batches' median gaps; changed in place, likewise.
    last
        The `Chains` of the last batch, whether or not a check stopped it; None
        before the first.

    Raises
    ------
    InputError
        If a number is outside its range, or step sizes are to follow an acceptance
        rate that there is none of.
    """

    @checked
    def __init__(
        self,
        noise: NoiseLevels,
        chain: ConditionalChain,
        *,
        regulariser: NonNegative = 0.0,
        largest_gap: float | None = 1e4,
        trusted_gap: float | None = None,
        weighted: bool | tuple[float, ...] = False,
        target_acceptance: float | None = None,
        patient: bool = False,
        data_range: tuple[float, float] | None = None,
    ) -> None:
        for name, gap in (("largest_gap", largest_gap), ("trusted_gap", trusted_gap)):
            if gap is not None:
                check_range(name, gap, low=0, include_low=False)
        if isinstance(weighted, tuple):
            n_levels = noise.n_levels
            check_range("len(weighted)", len(weighted), low=n_levels, high=n_levels)
        if target_acceptance is not None:
            inside = {"include_low": False, "include_high": False}
            check_range("target_acceptance", target_acceptance, low=0, high=1, **inside)
            if not chain.adjusted:
                raise InputError("target_acceptance needs adjusted=True, got False")
        self.step_sizes = torch.tensor(
            chain.step_sizes(noise), dtype=torch.float64, device="cpu"
        )
        self.usual_gap = torch.zeros((), dtype=torch.float64, device="cpu")
        self.target_acceptance = target_acceptance
        self.last: Chains | None = None
        if chain.n_steps == 0 and noise.sigmas[-1] == 1:
            raise InputError("n_steps must be >= 1 where the last sigma is 1, got 0")
        self.noise, self.chain = noise, chain
        self.regulariser, self.largest_gap = regulariser, largest_gap
        self.trusted_gap, self.patient = trusted_gap, patient
        self.data_range = data_range
        if weighted is True:
            weighted = tuple(noise.sigmas[0] / sigma for sigma in noise.sigmas)
        self.weights = weighted or None

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
        InputError
            If the data are no finite floats or outside their range, or there is no
            generator.
        DivergenceError
            If chains or energies are not finite, or the energy gap too large.
        """
        check_vectors("x", x)
        if self.data_range is not None:
            check_within("x", x, *self.data_range)
        check_generator(generator, x.device)
        size = (len(x),)
        level = torch.randint(
            self.noise.n_levels, size, generator=generator, device=x.device
        )
        here = self.noise.perturb(x, level, generator=generator)
        above = self.noise.step(here, level, generator=generator)
        draw = normals(generator)
        chain = self.chain
        if self.target_acceptance is not None:
            chain = replace(chain, step_size=tuple(self.step_sizes.tolist()))
        sample, acceptance = draw_conditional(
            energy, self.noise, above, level, chain, draw
        )
        self.last = Chains(here, sample, level)
        if self.target_acceptance is not None:
            # Read together: a GPU is waited for once.
            both = torch.stack([acceptance.double(), level.double()]).cpu()
            error = both[0] - self.target_acceptance
            follow_acceptance(self.step_sizes, error, both[1].long(), self.noise)
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
