"""A small network for lattices whose odd symmetry needs no readout."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmtut._layers import linear, normal_weights, source_of_weights
from ebmtut.checks import Count, check_range, checked
from ebmtut.flows.networks import TimeFeatures, window_offsets
from ebmtut.tensor_checks import check_shape

__all__ = ["OddLatticeNetwork"]

# Sides from which a product of Fourier transforms takes less time than a matrix.
_FOURIER_FROM = 12


class OddLatticeNetwork(nn.Module):
    """Rates of an Ising lattice, odd under one flip, even under the flip of all.

    With spins s and a window W without its centre, the features u_i = s_i (W s)_i
    change sign when spin i is flipped and none when all are; so does G_i = sum_c u_ic
    gate_c(u_i^2, t). It is meant for energies without field.

    Parameters
    ----------
    side, width
        Sites a side of the periodic lattice, at least 3, and features c.
    window
        Sites a side of the window; None is the whole lattice.
    n_hidden
        Hidden units of the gate.
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.flows import OddLatticeNetwork
    >>> from ebmtut.random import make_generator
    >>> network = OddLatticeNetwork(3, width=8, generator=make_generator(0))
    >>> network(torch.zeros(5, 9), torch.full((5,), 0.5)).shape
    torch.Size([5, 9])
    """

    n_states = 2

    @checked
    def __init__(
        self,
        side: int,
        *,
        width: Count = 32,
        window: int | None = None,
        n_hidden: Count = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = source_of_weights(generator)
        index = window_offsets(side, window)
        self.n_sites = side * side
        self.side = side
        self.window = None if window == side else window
        self.around: Tensor
        self.register_buffer("around", index[0], persistent=False)
        self.entry: Tensor | None
        self.register_buffer("entry", self._entries(index), persistent=False)
        n_inside = index.shape[1]
        self.kernel = normal_weights(
            n_inside, width, scale=n_inside**-0.5, generator=generator
        )
        self.time = TimeFeatures(n_hidden, generator=generator)
        self.squares = linear(width, n_hidden, generator, bias=False)
        self.gate = linear(n_hidden, width, generator)

    def _entries(self, index: Tensor) -> Tensor | None:
        """Row of the kernel with which site j enters features of i; the last is 0."""
        if self.side >= _FOURIER_FROM:
            return None
        entry = torch.full((self.n_sites, self.n_sites), index.shape[1], device="cpu")
        here = torch.arange(self.n_sites, device="cpu")[:, None].expand_as(index)
        entry[index, here] = torch.arange(index.shape[1], device="cpu").expand_as(index)
        return entry

    def _sums(self, s: Tensor) -> Tensor:
        """W s at every site, (batch, n_sites, width), without gathered windows."""
        if self.entry is not None:
            rows = nn.functional.pad(self.kernel, (0, 0, 0, 1))
            entries = rows.index_select(0, self.entry.flatten())
            return (s @ entries.reshape(self.n_sites, -1)).unflatten(
                1, (self.n_sites, -1)
            )
        torus = (self.side, self.side)
        kernel = s.new_zeros(self.n_sites, self.kernel.shape[1])
        kernel = kernel.index_copy(0, self.around, self.kernel).unflatten(0, torus)
        waves = torch.fft.rfft2(s.unflatten(1, torus))[..., None]
        product = waves * torch.fft.rfft2(kernel, dim=(0, 1)).conj()
        return torch.fft.irfft2(product, torus, dim=(1, 2)).flatten(1, 2)

    def forward(
        self, x: Float[Tensor, "batch n_sites"], t: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch n_sites"]:
        """G of the flip of every site."""
        check_shape("x", x, (None, self.n_sites))
        s = 2 * x - 1
        u = s[:, :, None] * self._sums(s)
        hidden = silu(self.squares(u * u) + self.time(t)[:, None])
        return (u * self.gate(hidden)).sum(-1)

    @torch.no_grad()
    def grown(self, side: int) -> OddLatticeNetwork:
        """Transfer the network to a larger torus.

        The kernel is placed at the centre of the larger window; on states that repeat
        those of the smaller torus G is the same. If the window's side is even, its rim
        becomes two places, which get half of the weight each.
        """
        check_range("side", side, low=self.side + 1, integer=True)
        width, n_hidden = self.gate.out_features, self.gate.in_features
        larger = OddLatticeNetwork(
            side, width=width, window=self.window, n_hidden=n_hidden
        ).to(self.kernel)
        place = torch.arange(-(self.side // 2), self.side // 2 + 1, device="cpu")
        share = torch.where(2 * place.abs() == self.side, 0.5, 1.0).to(self.kernel)
        here, there = (
            (place[:, None] % n * n + place % n).flatten() for n in (self.side, side)
        )
        around = self.kernel.new_zeros(self.n_sites, width)
        around[self.around] = self.kernel
        whole = self.kernel.new_zeros(side * side, width)
        whole[there] = around[here] * torch.outer(share, share).reshape(-1, 1)
        weights = self.state_dict() | {"kernel": whole[larger.around]}
        larger.load_state_dict(weights)
        return larger
