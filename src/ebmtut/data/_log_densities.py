"""The seven log densities, in closed form or by one-dimensional quadrature.

Each function maps float64 points (n, 2) to log densities (n,). The curves with noise
are mixtures of Gaussians along a curve: Gauss-Legendre nodes lie closer than the noise
is wide, with an error far below 1e-9.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

_CHUNK = 8192
_LOG_TWO_PI = math.log(2.0 * math.pi)


@cache
def _legendre(n_nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return torch.from_numpy((nodes + 1.0) / 2.0), torch.from_numpy(weights / 2.0)


def _in_chunks(distribution: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Bound the memory of a density that visits every node for every point."""

    def chunked(points: Tensor) -> Tensor:
        return torch.cat([distribution(part) for part in points.split(_CHUNK)])

    return chunked


def _gaussian_mixture(
    points: Tensor, centres: Tensor, log_weights: Tensor, std: float
) -> Tensor:
    """Mixture of isotropic Gaussians; centres (k, 2), log weights (k,)."""
    # From differences: a matrix product would lose the digits of near points.
    mode = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(points, centres, compute_mode=mode)
    log_kernel = -0.5 * (distance / std) ** 2
    log_norm = _LOG_TWO_PI + 2.0 * math.log(std)
    return torch.logsumexp(log_kernel + log_weights, dim=1) - log_norm


def _noisy_curve(
    points: Tensor, curve: Callable[[Tensor], Tensor], n_nodes: int, std: float
) -> Tensor:
    """Points uniform in the parameter of a curve, plus Gaussian noise."""
    nodes, weights = (part.to(points.device) for part in _legendre(n_nodes))
    return _gaussian_mixture(points, curve(nodes), weights.log(), std)


def polar(angle: Tensor) -> Tensor:
    """Points of the unit circle at these angles."""
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def _two_spirals(points: Tensor, n_nodes: int = 384) -> Tensor:
    # A spiral's point is blurred by a uniform square of side 1/6 and a
    # Gaussian: in each coordinate a difference of two normal distribution
    # functions, written so that it keeps its digits in both tails.
    nodes, weights = (part.to(points.device) for part in _legendre(n_nodes))
    turn = 3.0 * math.pi * nodes
    curve = torch.stack([-turn.cos(), turn.sin()]) * turn / 3.0 + 1.0 / 12.0
    # The turn is 3 pi times the root of a uniform number: density 2 s ds.
    weights = 2.0 * nodes * weights
    unit = 0.1 * math.sqrt(2.0)

    def blur(distance: Tensor) -> Tensor:
        nearest, farthest = distance - 1.0 / 12.0, distance + 1.0 / 12.0
        return 3.0 * ((nearest / unit).erfc() - (farthest / unit).erfc())

    def arm(at: Tensor) -> Tensor:
        # The points of a grid share coordinates: visit each only once.
        x, row = at[:, 0].unique(return_inverse=True)
        y, column = at[:, 1].unique(return_inverse=True)
        in_x = blur((x[:, None] - curve[0]).abs()) * weights
        in_y = blur((y[:, None] - curve[1]).abs())
        return (in_x[row] * in_y[column]).sum(dim=1)

    return (0.5 * (arm(points) + arm(-points))).log()


def _eight_gaussians(points: Tensor) -> Tensor:
    angle = torch.arange(8, dtype=points.dtype, device=points.device)
    centres = 4.0 * polar(math.pi / 4.0 * angle) / 1.414
    log_weights = torch.full_like(angle, -math.log(8.0))
    return _gaussian_mixture(points, centres, log_weights, 0.5 / 1.414)


def _circles(points: Tensor) -> Tensor:
    # A Gaussian averaged over a circle is a Bessel function of the radius.
    variance = 0.24**2
    rho = points.norm(dim=1)
    terms = [
        torch.special.i0e(rho * radius / variance).log()
        - (rho - radius) ** 2 / (2.0 * variance)
        for radius in (3.0, 1.5)
    ]
    log_norm = _LOG_TWO_PI + math.log(2.0 * variance)
    return torch.logaddexp(*terms) - log_norm


def _moons(points: Tensor, n_nodes: int = 128) -> Tensor:
    shift = points.new_tensor([-1.0, -0.2])
    corner = points.new_tensor([1.0, 0.5])
    moons = [
        lambda t: 2.0 * polar(math.pi * t) + shift,
        lambda t: 2.0 * (corner - polar(math.pi * t)) + shift,
    ]
    terms = [_noisy_curve(points, moon, n_nodes, 0.2) for moon in moons]
    return torch.logaddexp(*terms) - math.log(2.0)


def _swissroll(points: Tensor, n_nodes: int = 256) -> Tensor:
    def curve(t: Tensor) -> Tensor:
        turn = 1.5 * math.pi * (1.0 + 2.0 * t)
        return turn[:, None] * polar(turn) / 5.0

    return _noisy_curve(points, curve, n_nodes, 0.2)


def _pinwheel(points: Tensor, n_cells: int = 64) -> Tensor:
    # A point is 2 R f with f Gaussian around (1, 0) and R a turn by minus
    # (arm + exp(f_0) / 4).  In polar coordinates f = (r, phi), the radius is
    # kept and the angle becomes  phi - exp(r cos phi) / 4 - arm.  So we look
    # for all phi on the circle that give the point's angle: cells where the
    # map crosses it (modulo a full turn), then bisection.
    radius = points.norm(dim=1) / 2.0
    theta = torch.atan2(points[:, 1], points[:, 0])
    arms = 2.0 * math.pi / 5.0 * torch.arange(5, device="cpu").to(points)
    target = theta[:, None] + arms

    def angle(r: Tensor, phi: Tensor) -> Tensor:
        return phi - 0.25 * (r * phi.cos()).exp()

    edges = torch.linspace(
        -math.pi, math.pi, n_cells + 1, dtype=torch.float32, device="cpu"
    ).to(points)
    at_edges = angle(radius[:, None], edges)
    turns = torch.floor((at_edges[:, None, :] - target[:, :, None]) / (2.0 * math.pi))
    point, arm, cell = torch.nonzero(turns.diff(dim=2), as_tuple=True)

    r = radius[point]
    low, high = edges[cell], edges[cell + 1]
    crossing = torch.maximum(turns[point, arm, cell], turns[point, arm, cell + 1])
    goal = target[point, arm] + 2.0 * math.pi * crossing
    rises = angle(r, high) >= goal
    for _ in range(40):
        middle = (low + high) / 2.0
        above = (angle(r, middle) >= goal) == rises
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    phi = (low + high) / 2.0

    f0, f1 = r * phi.cos(), r * phi.sin()
    log_gauss = -0.5 * (((f0 - 1.0) / 0.3) ** 2 + (f1 / 0.1) ** 2)
    stretch = (1.0 + 0.25 * f1 * f0.exp()).abs()
    density = torch.zeros_like(radius)
    density.index_add_(0, point, log_gauss.exp() / stretch)
    # 5 arms, the scale 2 in both axes, and the Gaussian's own constant.
    return density.log() - math.log(5 * 4 * 2.0 * math.pi * 0.3 * 0.1)


def _checkerboard(points: Tensor) -> Tensor:
    square = torch.floor(points / 2.0)
    dark = torch.remainder(square.sum(dim=1), 2.0) == 0.0
    inside = ((points >= -4.0) & (points < 4.0)).all(dim=1)
    log_prob = torch.full_like(points[:, 0], -math.log(32.0))
    return torch.where(dark & inside, log_prob, -math.inf)


LOG_PROB: dict[str, Callable[[Tensor], Tensor]] = {
    "2spirals": _in_chunks(_two_spirals),
    "8gaussians": _eight_gaussians,
    "circles": _circles,
    "moons": _in_chunks(_moons),
    "pinwheel": _in_chunks(_pinwheel),
    "swissroll": _in_chunks(_swissroll),
    "checkerboard": _checkerboard,
}
