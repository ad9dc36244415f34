"""Gradients of a step in bfloat16 are those of float64, up to its roundings."""

import math

import torch
from torch.func import functional_call, grad, vmap

from ebmtut.energies import MLPEnergy
from ebmtut.losses import Grid, energy_discrepancy_loss
from ebmtut.losses.perturbations import Negatives
from ebmtut.random import make_generator

UNIT = 2.0**-8  # largest relative error of a rounding to eight binary digits
N_SITES, HIDDEN, N_LAYERS, N_NEGATIVES = 32, 256, 4, 4


class Fixed:
    """The same negatives whatever is drawn."""

    def __init__(self, x):
        self.x = x

    def negatives(self, x, n_negatives, *, generator):
        return Negatives(self.x.to(x.dtype))


def states():
    generator = make_generator(1)
    x = torch.randint(2, (16, N_SITES), generator=generator).double()
    drawn = Grid(exact=False).negatives(x, N_NEGATIVES, generator=generator)
    return x, drawn.x


def gradient(energy, x, negatives, *, bfloat16):
    """All slopes of the loss, as one vector."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16, cache_enabled=False):
        loss = energy_discrepancy_loss(
            energy,
            x,
            Fixed(negatives),
            n_negatives=N_NEGATIVES,
            generator=make_generator(2),
        )
    slopes = torch.autograd.grad(loss, [*energy.parameters()])
    return torch.cat([slope.double().flatten() for slope in slopes])


def cancellation(energy, x, negatives):
    """Length of the parts of a gradient, added squared, beside that of their sum.

    Its parts are the slopes of the energies at all states, times what the loss gives
    each: ``sum_j r_j`` to a data point, ``r_j`` to its negatives, over the batch.
    """
    weights = dict(energy.named_parameters())

    def one(weights, x):
        return functional_call(energy, weights, (x[None],))[0]

    def slopes(points):
        found = vmap(grad(one), (None, 0))(weights, points)
        return torch.cat([f.flatten(1) for f in found.values()], 1)

    with torch.no_grad():
        u, u_back = energy(x), energy(negatives.flatten(0, 1)).view(len(x), -1)
        odds = (u[:, None] - u_back).exp()
        share = odds / (1 + odds.sum(1, keepdim=True)) / len(x)
        moved = (negatives != x[:, None]).any(-1)
        share *= moved
    at_data, back = slopes(x), slopes(negatives.flatten(0, 1))
    parts = torch.cat([share.sum(1)[:, None] * at_data, -share.view(-1, 1) * back])
    parts = parts.detach()
    return parts.norm() / parts.sum(0).norm(), parts.sum(0)


def apart():
    """Return how far the slopes in bfloat16 are from those in float64, and a bound.

    A rounding to eight binary digits is off by at most u = 2^-8 of the value; if its
    digits are anyhow (their logarithm uniform), by 0.42 u in the mean square:
    ``u^2 / 3`` times the mean of ``1 / m^2`` over a mantissa m from 1 to 2,
    ``3 / (8 ln 2)``. On the way to a slope each layer under autocast rounds six times:
    its weights, its products, its SiLU, and on the way back the slope of the SiLU and
    the two products; the slope of the last layer, which is in full precision, is
    rounded once. With independent roundings, summed in full precision whatever the
    fan-in, the slope of an energy is off by 0.42 u sqrt(k), k = 6 * 3 + 1. The loss
    takes differences of such slopes, which nearly cancel: `cancellation` says how much
    longer the parts are than their sum. (What x and x' share, such as rounded weights,
    cancels, too: so this is a bound. Energies begin near 0.1: what their roundings do
    to the responsibilities is below a thousandth.) Errors of at least 256 independent
    units add up to a length that fluctuates by 1 / sqrt(2 * 256): five of these are
    granted.
    """
    x, negatives = states()
    exact = MLPEnergy(N_SITES, HIDDEN, N_LAYERS, generator=make_generator(0)).double()
    ours = MLPEnergy(N_SITES, HIDDEN, N_LAYERS, generator=make_generator(0))
    truth = gradient(exact, x, negatives, bfloat16=False)
    found = gradient(ours, x.float(), negatives.float(), bfloat16=True)
    factor, whole = cancellation(exact, x, negatives)
    torch.testing.assert_close(whole, truth, rtol=1e-9, atol=1e-12)
    mean_square = UNIT**2 / 3 * 3 / (8 * math.log(2))
    n_rounded = 6 * (N_LAYERS - 1) + 1
    bound = math.sqrt(n_rounded * mean_square) * factor.item()
    return float((found - truth).norm() / truth.norm()), bound * (
        1 + 5 / math.sqrt(2 * HIDDEN)
    )


def test_slopes_in_bfloat16_are_right_up_to_their_roundings():
    error, bound = apart()
    assert 0 < error < bound
