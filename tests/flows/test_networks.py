"""Locally equivariant networks: odd under one exchange, hollow, and refusals."""

import math

import pytest
import torch

from ebmtut import flows
from ebmtut.flows.transformer import _attend
from tests.flows.systems import networks

BINARY = networks()
POTTS = networks(n_states=3)


def exchange_error(network, n=16, seed=0):
    """Largest |G(x -> y) + G(y -> x)| over all neighbours of random states."""
    generator = torch.Generator().manual_seed(seed)
    n_sites, n_states = network.n_sites, network.n_states
    x = torch.randint(n_states, (n, n_sites), generator=generator).double()
    t = torch.rand(n, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        g = network(x, t)
        worst = 0.0
        for i in range(n_sites):
            for shift in range(1, n_states):
                y = x.clone()
                y[:, i] = (y[:, i] + shift) % n_states
                back = network(y, t)
                if n_states == 2:
                    error = g[:, i] + back[:, i]
                else:
                    here, there = x[:, i].long(), y[:, i].long()
                    rows = torch.arange(n)
                    error = g[rows, i, there] + back[rows, i, here]
                worst = max(worst, float(error.abs().max()))
    return worst


@pytest.mark.parametrize("name", [*BINARY, *POTTS])
def test_networks_are_odd_under_an_exchange_of_states(name):
    network = (BINARY | POTTS)[name]
    assert exchange_error(network) < 1e-12
    x = torch.randint(network.n_states, (4, network.n_sites)).double()
    g = network(x, torch.rand(4).double()).detach()
    assert g.abs().max() > 1e-3
    if name in POTTS:
        assert float(g.gather(2, x.long()[..., None]).abs().max()) == 0


class AsPrinted(flows.HollowTransformer):
    """The readout's masks as Appendix B.3 prints them: factors of the scores."""

    def hollow(self, x, t):
        def attend(q, k, v, seen=None):
            if seen is None:
                return _attend(q, k, v)
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) * seen
            return scores.softmax(-1) @ v

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flows.transformer, "_attend", attend)
            return super().hollow(x, t)


@pytest.mark.parametrize("leaky", [AsPrinted])
def test_a_leaky_network_is_caught(leaky):
    network = leaky(5, width=8).double()
    assert exchange_error(network) > 1e-3


@pytest.mark.parametrize("name", ["leMLP", "leAttn", "leConv", "leTF"])
@pytest.mark.parametrize("nets", [BINARY, POTTS], ids=["2 states", "3 states"])
def test_embedded_sites_are_hollow(nets, name):
    """The Jacobian in differences, one site at a time: block i, i vanishes."""
    network = nets[name]
    x = torch.randint(network.n_states, (6, network.n_sites)).double()
    t = torch.rand(6).double()
    here = network.hollow(x, t)
    for i in range(network.n_sites):
        y = x.clone()
        y[:, i] = (y[:, i] + 1) % network.n_states
        moved = (network.hollow(y, t) - here).abs().amax(dim=(0, 2))
        assert float(moved[i]) == pytest.approx(0, abs=1e-12)
        others = torch.cat([moved[:i], moved[i + 1 :]])
        assert float(others.min()) > 1e-6


def test_odd_lattice_network_is_even_under_the_flip_of_all():
    network = BINARY["odd"]
    x = torch.randint(2, (8, 9)).double()
    t = torch.rand(8).double()
    torch.testing.assert_close(network(x, t), network(1 - x, t), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("side", "window"), [(4, 3), (12, 4), (13, None)])
def test_odd_lattice_network_is_the_sum_over_its_window(side, window):
    """A matrix, or Fourier transforms where it is large, against the sums as such."""
    network = flows.OddLatticeNetwork(side, width=4, window=window, n_hidden=8).double()
    assert (network.entry is None) == (side >= 12)
    x = torch.randint(2, (3, side * side)).double()
    t = torch.rand(3).double()
    s = 2 * x - 1
    index = flows.window_offsets(side, window)
    u = s[..., None] * torch.stack([s[:, row] @ network.kernel for row in index], 1)
    hidden = torch.nn.functional.silu(network.squares(u * u) + network.time(t)[:, None])
    want = (u * network.gate(hidden)).sum(-1)
    torch.testing.assert_close(network(x, t), want, rtol=0, atol=1e-12)
    assert exchange_error(network, n=2) < 1e-12


def random_bits(n, n_sites, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (n, n_sites), generator=generator).double()
    return x, torch.rand(n, generator=generator, dtype=torch.float64)


# Even sides, whose rim lies on both sides; odd ones; matrices and transforms.
@pytest.mark.parametrize("side", [4, 5, 6])
@pytest.mark.parametrize("window", [None, 3, 4])
def test_a_grown_network_is_the_same_on_states_that_repeat(side, window):
    copies = 2 + side % 2
    small = flows.OddLatticeNetwork(side, width=4, window=window, n_hidden=8).double()
    large = small.grown(copies * side)
    assert large.kernel.dtype == torch.float64
    x, t = random_bits(3, side * side)
    tiled = x.unflatten(1, (side, side)).repeat(1, copies, copies).flatten(1)
    want = small(x, t).unflatten(1, (side, side)).repeat(1, copies, copies).flatten(1)
    torch.testing.assert_close(large(tiled, t), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("side", "larger"), [(4, 5), (5, 6), (4, 13)])
def test_a_grown_network_is_odd_and_sees_as_far_as_before(side, larger):
    small = flows.OddLatticeNetwork(side, width=4, n_hidden=8).double()
    large = small.grown(larger)
    assert exchange_error(large, n=2) < 1e-12
    x, t = random_bits(2, larger * larger)
    here = large(x, t)
    centre = (larger // 2) * larger + larger // 2
    for site in range(larger * larger):
        y = x.clone()
        y[:, site] = 1 - y[:, site]
        away = [
            abs(a - b)
            for a, b in zip(divmod(site, larger), divmod(centre, larger), strict=True)
        ]
        far = max(min(d, larger - d) for d in away)
        moved = float((large(y, t) - here)[:, centre].abs().max())
        assert (moved > 1e-9) == (far <= side // 2)


@pytest.mark.parametrize("causal", [True, False])
def test_plain_attention_is_the_fused_one(causal):
    """In bfloat16 on a CPU it is written out: the same but for the rounding."""
    q, k, v = torch.randn(3, 2, 4, 6, 8).bfloat16().requires_grad_().unbind(0)
    seen = None if causal else torch.rand(6, 6) < 0.5
    if seen is not None:
        seen[:, 0] = True
    want = _attend(q.float(), k.float(), v.float(), seen)
    # Weights and values are rounded to eight bits.
    torch.testing.assert_close(
        _attend(q, k, v, seen).float(), want, rtol=2**-6, atol=2**-6
    )


def test_windows_hold_every_neighbor_once_and_never_the_site():
    index = flows.window_offsets(5)
    assert index.shape == (25, 24)
    for site, row in enumerate(index.tolist()):
        assert sorted([*row, site]) == list(range(25))
    assert flows.window_offsets(5, 3)[12].tolist() == [6, 7, 8, 11, 13, 16, 17, 18]
