"""Slopes of losses in bfloat16 are those of float64, up to its roundings."""

import math

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ebmtut import losses
from ebmtut.energies import LatticeIsing, MLPEnergy
from ebmtut.flows import Flow, OddLatticeNetwork
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator

SIDE, N_TIMES, N_STATES = 5, 4, 16
# A rounding to eight binary digits is off by at most u = 2^-8 of the value. If its
# digits are anyhow (their logarithm uniform), its mean square is u^2 / 3 times the mean
# of 1 / m^2 over a mantissa m from 1 to 2, which is 3 / (8 ln 2).
ROUNDING = 2.0**-8 * math.sqrt(1 / (8 * math.log(2)))
PRODUCTS = {functional.linear, torch.Tensor.matmul}


def gradient(loss, module):
    """All slopes of a loss, as one vector."""
    found = torch.autograd.grad(loss, [*module.parameters()])
    return torch.cat([slope.double().flatten() for slope in found])


def flow(dtype):
    network = OddLatticeNetwork(
        SIDE, width=32, n_hidden=256, generator=make_generator(0)
    ).to(dtype)
    generator = make_generator(1)
    x = torch.randint(2, (N_TIMES, N_STATES, SIDE * SIDE), generator=generator)
    t = torch.rand(N_TIMES, generator=generator)
    path = AnnealingPath(LatticeIsing(SIDE, 0.2).to(dtype))
    return Flow(path, network), x.to(dtype), t.to(dtype)


def variance(dtype):
    made, x, t = flow(dtype)
    return gradient(losses.kolmogorov_variance_loss(made, x, t), made.network)


def residual(dtype):
    """Mean square with c_t held, estimated without the network."""
    made, x, t = flow(dtype)
    states, times = x.flatten(0, 1), t.repeat_interleave(x.shape[1])
    derivative = made.path.time_derivative(states).unflatten(0, x.shape[:2])
    slope = losses.log_partition_slope(derivative).repeat_interleave(x.shape[1])
    loss = losses.kolmogorov_residual(made, states, times, slope).square().mean()
    return gradient(loss, made.network)


def discrepancy(dtype):
    energy = MLPEnergy(32, 256, 4, generator=make_generator(0)).to(dtype)
    x = torch.randint(2, (16, 32), generator=make_generator(1)).to(dtype)
    negatives = {"n_negatives": 4, "generator": make_generator(2)}
    loss = losses.energy_discrepancy_loss(
        energy, x, losses.Grid(exact=False), **negatives
    )
    return gradient(loss, energy)


class Noise(torch.autograd.Function):
    """A relative error of a rounding's size there, and another in the backward pass."""

    @staticmethod
    def forward(ctx, x, generator):
        ctx.generator = generator
        return noisy(x, generator)

    @staticmethod
    def backward(ctx, slope):
        return noisy(slope, ctx.generator), None


def noisy(x, generator):
    size = ROUNDING * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return x * (1 + size)


class Roundings(TorchFunctionMode):
    """Independent errors wherever autocast rounds: products, and what works on them.

    A product rounds its factors and itself; in the backward pass what comes to it was
    rounded, and the slopes of both factors are. A SiLU rounds itself and its slope, and
    so does the sum of two products that it is given. What is rounded twice over, such
    as a SiLU on its way into a product, counts twice: hence a bound.
    """

    def __init__(self, seed):
        super().__init__()
        self.generator = make_generator(seed)
        self.seen = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def rounded(x):
            return Noise.apply(x, self.generator)

        self.seen.add(function)
        if function in PRODUCTS:
            args = [rounded(x) if isinstance(x, torch.Tensor) else x for x in args]
        elif function is functional.silu:
            args = [rounded(args[0])]
        else:
            return function(*args, **(kwargs or {}))
        return rounded(function(*args, **(kwargs or {})))


def in_bfloat16(loss):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return loss(torch.float32)


def bound(loss, truth, n_draws):
    """Distance from the truth of slopes with independent errors of such a size.

    The mean of their lengths, and five of their standard deviations: what is rounded
    is another draw of such errors, as far as its digits are anyhow.
    """
    lengths = []
    for seed in range(n_draws):
        with Roundings(seed) as roundings:
            found = loss(torch.float64)
        assert roundings.seen & PRODUCTS and functional.silu in roundings.seen
        lengths.append((found - truth).norm() / truth.norm())
    lengths = torch.stack(lengths)
    return float(lengths.mean() + 5 * lengths.std())


@pytest.mark.parametrize(
    ("loss", "n_draws"), [(discrepancy, 6), (variance, 12), (residual, 12)]
)
def test_slopes_are_right_up_to_roundings(loss, n_draws):
    truth = loss(torch.float64)
    error = (in_bfloat16(loss) - truth).norm() / truth.norm()
    assert 0 < float(error) < bound(loss, truth, n_draws)
