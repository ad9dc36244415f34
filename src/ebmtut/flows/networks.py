"""Locally equivariant networks by hollow ones: leMLP, leAttn, leConv.

If a hollow network's output at site i depends on all sites but i, then
G(tau, i | x) = (omega_tau - omega_{x_i}) . H(x)_i is odd under the exchange of x and
its neighbour (Ou, Zhang and Li 2025, Proposition 2). Only one layer may mix sites.
"""

import math
from abc import ABC, abstractmethod
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmtut._layers import embedding, linear, normal_weights, source_of_weights
from ebmtut.checks import Count, Natural, Range, check_range, checked
from ebmtut.tensor_checks import check_shape

__all__ = [
    "HollowAttention",
    "HollowConvolution",
    "HollowMLP",
    "HollowNetwork",
    "TimeFeatures",
    "window_offsets",
]


class TimeFeatures(nn.Module):
    """Smooth features of a time: a small network of sines and cosines.

    Parameters
    ----------
    width, n_waves
        Features, and frequencies pi/2, pi, 3 pi/2 and so on.
    generator
        Source of the weights; None takes a fresh one of seed 0.
    """

    @checked
    def __init__(
        self,
        width: Count,
        n_waves: Count = 4,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = source_of_weights(generator)
        order = torch.arange(1, n_waves + 1, dtype=torch.float32, device="cpu")
        waves = math.pi / 2 * order
        self.waves: Tensor
        self.register_buffer("waves", waves, persistent=False)
        self.net = nn.Sequential(
            linear(2 * n_waves + 1, width, generator),
            nn.SiLU(),
            linear(width, width, generator),
        )

    def forward(self, t: Float[Tensor, " batch"]) -> Float[Tensor, "batch width"]:
        """Features of a batch of times."""
        angle = t[:, None] * self.waves.to(t)
        waves = torch.cat([t[:, None], angle.sin(), angle.cos()], dim=1)
        features: Tensor = self.net(waves)
        return features


class HollowNetwork(nn.Module, ABC):
    """Locally equivariant network that reads out a hollow one.

    Parameters
    ----------
    n_sites
        Sites of a state.
    n_states, width
        States of a site, and hidden features.
    generator
        Source of the weights; None takes a fresh one of seed 0.
    """

    @checked
    def __init__(
        self,
        n_sites: Count,
        *,
        n_states: Annotated[int, Range(low=2)] = 2,
        width: Count = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_sites = n_sites
        self.n_states = n_states
        self.width = width
        # Not zero: at G = 0 a relu passes no gradient on.
        generator = source_of_weights(generator)
        self.readout = normal_weights(
            n_states, width, scale=width**-0.5, generator=generator
        )

    @abstractmethod
    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site that do not depend on its own state."""

    def forward(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Tensor:
        """G of every flip, or of all (..., n_states), zero at the current one."""
        check_shape("x", x, (None, self.n_sites))
        features = self.hollow(x, t)
        if self.n_states == 2:
            return (1 - 2 * x) * (features @ (self.readout[1] - self.readout[0]))
        scores = features @ self.readout.T
        return scores - scores.gather(2, x.long()[..., None])


class _SiteEmbedding(nn.Module):
    """State, place and time of every site as one vector."""

    def __init__(
        self, n_sites: int, n_states: int, width: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.token = embedding(n_states, width, generator)
        self.place = normal_weights(n_sites, width, scale=0.5, generator=generator)
        self.time = TimeFeatures(width, generator=generator)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        tokens: Tensor = self.token(x.long())
        return tokens + self.place + self.time(t)[:, None]


class HollowMLP(HollowNetwork):
    """leMLP: sum over k of silu(W_k h(x) + b_k), diagonals of W_k zero.

    Parameters
    ----------
    n_sites, n_states, width, generator
        As in `HollowNetwork`.
    n_layers
        Matrices W_k, side by side; there is no depth.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.flows import HollowMLP
    >>> from ebmtut.random import make_generator
    >>> network = HollowMLP(6, width=8, generator=make_generator(0))
    >>> x = torch.zeros(1, 6)
    >>> y = x.index_fill(1, torch.tensor([2]), 1.0)  # site 2 is flipped
    >>> t = torch.tensor([0.5])
    >>> bool((network(x, t) + network(y, t))[0, 2].abs() < 1e-5)  # G_2 changes its sign
    True
    """

    @checked
    def __init__(
        self,
        n_sites: int,
        *,
        n_states: int = 2,
        width: int = 64,
        n_layers: Count = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        generator = source_of_weights(generator)
        super().__init__(n_sites, n_states=n_states, width=width, generator=generator)
        self.embed = _SiteEmbedding(n_sites, n_states, width, generator)
        scale = n_sites**-0.5
        self.mix = normal_weights(
            n_layers, n_sites, n_sites, scale=scale, generator=generator
        )
        self.shift = nn.Parameter(
            torch.zeros(n_layers, n_sites, width, dtype=torch.float32, device="cpu")
        )
        self.time = TimeFeatures(n_layers * width, generator=generator)

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site that do not depend on its own state."""
        matrices = self.mix - torch.diag_embed(torch.diagonal(self.mix, 0, 1, 2))
        mixed = torch.einsum("kij,bjw->bkiw", matrices, self.embed(x, t))
        shift = self.time(t).unflatten(1, (len(self.mix), 1, self.width))
        return silu(mixed + self.shift + shift).sum(1)


@checked
class HollowAttention(HollowNetwork):
    """leAttn: one attention over all other sites, of scores k(x_s) . q(x_s).

    The score of a site depends on that site alone (Appendix B.2), so that all sites
    share weights but for their own.

    Parameters
    ----------
    n_sites, n_states, width, generator
        As in `HollowNetwork`.
    n_heads
        Sets of weights; divides the width.
    """

    def __init__(
        self,
        n_sites: int,
        *,
        n_states: int = 2,
        width: int = 64,
        n_heads: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        generator = source_of_weights(generator)
        super().__init__(n_sites, n_states=n_states, width=width, generator=generator)
        check_heads(n_heads, width)
        self.n_heads = n_heads
        self.embed = _SiteEmbedding(n_sites, n_states, width, generator)
        self.keys_queries_values = linear(width, 3 * width, generator)
        self.after = linear(width, width, generator)

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site that do not depend on its own state."""
        parts = self.keys_queries_values(self.embed(x, t))
        k, q, v = parts.unflatten(2, (3, self.n_heads, -1)).unbind(2)
        scores = (k * q).sum(-1) / math.sqrt(k.shape[-1])
        scores = scores.transpose(1, 2)[:, :, None].expand(-1, -1, self.n_sites, -1)
        own = torch.eye(self.n_sites, dtype=torch.bool, device=x.device)
        if self.n_sites == 1:
            weights = torch.zeros_like(scores)
        else:
            weights = scores.masked_fill(own, -math.inf).softmax(-1)
        mixed = torch.einsum("bhis,bshw->bihw", weights, v).flatten(2)
        after: Tensor = self.after(mixed)
        return after


class HollowConvolution(HollowNetwork):
    """leConv: a window without its centre, the same everywhere on a lattice.

    After it come layers that act on every site by itself.

    Parameters
    ----------
    side
        Sites a side of the periodic lattice, at least 3.
    n_states, width, generator
        As in `HollowNetwork`.
    window
        Sites a side of the window; None is the whole lattice.
    n_layers
        Layers after the window.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.flows import HollowConvolution
    >>> from ebmtut.random import make_generator
    >>> network = HollowConvolution(3, width=8, generator=make_generator(0))
    >>> network(torch.zeros(5, 9), torch.full((5,), 0.5)).shape
    torch.Size([5, 9])
    """

    @checked
    def __init__(
        self,
        side: Count,
        *,
        n_states: int = 2,
        width: int = 32,
        window: int | None = None,
        n_layers: Natural = 2,
        generator: torch.Generator | None = None,
    ) -> None:
        generator = source_of_weights(generator)
        super().__init__(
            side * side, n_states=n_states, width=width, generator=generator
        )
        index = window_offsets(side, window)
        self.index: Tensor
        self.register_buffer("index", index, persistent=False)
        n_inputs = index.shape[1] * (n_states - 1)
        self.first = linear(n_inputs, width, generator)
        self.time = TimeFeatures(width, generator=generator)
        self.layers = nn.ModuleList(
            linear(width, width, generator) for _ in range(n_layers)
        )

    def hollow(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites width"]:
        """Features of every site that do not depend on its own state."""
        if self.n_states == 2:
            inputs = (2 * x - 1)[:, self.index]
        else:
            tokens = nn.functional.one_hot(x.long(), self.n_states)[..., 1:]
            inputs = tokens.to(x)[:, self.index].flatten(2)
        hidden = silu(self.first(inputs) + self.time(t)[:, None])
        for layer in self.layers:
            hidden = hidden + silu(layer(hidden))
        return hidden


def check_heads(n_heads: int, width: int) -> None:
    """Require heads that divide the width."""
    check_range("n_heads", n_heads, low=1, high=width, integer=True)
    check_range("width % n_heads", width % n_heads, low=0, high=0)


@checked
def window_offsets(
    side: Annotated[int, Range(low=3)], window: int | None = None
) -> Tensor:
    """Sites of the window around every site of a periodic lattice, less itself.

    Parameters
    ----------
    side, window
        Sites a side of the lattice, and of the window, which may be the whole lattice.

    Returns
    -------
    offsets
        Sites, int64, (side**2, window**2 - 1); a column is at the same relative place.

    Examples
    --------
    >>> from ebmtut.flows import window_offsets
    >>> window_offsets(4, 3)[5]  # the eight sites around site 5
    tensor([ 0,  1,  2,  4,  6,  8,  9, 10])
    """
    window = side if window is None else window
    check_range("window", window, low=2, high=side, integer=True)
    step = torch.arange(window, device="cpu") - (window - 1) // 2
    row, col = (v.flatten() for v in torch.meshgrid(step, step, indexing="ij"))
    off_center = (row != 0) | (col != 0)
    row, col = row[off_center], col[off_center]
    site = torch.arange(side * side, device="cpu")[:, None]
    return (site // side + row) % side * side + (site % side + col) % side
