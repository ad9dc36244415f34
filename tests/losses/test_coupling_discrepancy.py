"""Energy discrepancies of several matrices against those of one energy each."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import Ising
from ebmtut.kernels.coupling_flips import find_flips
from ebmtut.losses import (
    Bernoulli,
    Grid,
    Pool,
    coupling_discrepancy_losses,
    energy_discrepancy_loss,
)
from ebmtut.losses.coupling_discrepancy import _differences, _moments
from ebmtut.random import make_generator
from ebmtut.states import bits_to_spins

PERTURBATIONS = {
    "bernoulli": Bernoulli(0.2),
    "grid": Grid(),
    "grid-exact": Grid(exact=True),
    "pool": Pool(3),
    "pool-whole": Pool(9),
}
every_perturbation = pytest.mark.parametrize(
    "perturbation", PERTURBATIONS.values(), ids=PERTURBATIONS
)


def draw(n_models, n_sites, dtype, seed=0):
    generator = make_generator(seed)
    coupling = torch.randn(n_models, n_sites, n_sites, dtype=dtype, generator=generator)
    x = torch.randint(2, (17, n_sites), generator=generator).to(dtype)
    return coupling, x


@every_perturbation
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_model_has_its_own_loss_and_gradient(perturbation, dtype):
    """Those of `energy_discrepancy_loss`, which draws the same from the same seed.

    A loss is below 50 here, a gradient's entry a sum of some hundred products below
    1: in float32 they round by 50 * 2^-24 a term, so by 1e-4 at most.
    """
    coupling, x = draw(3, 9, dtype)
    raw = coupling.requires_grad_()
    settings = {"n_negatives": 12, "stabilizer": 0.5, "n_backward": 4}
    losses = coupling_discrepancy_losses(
        raw, x, perturbation, generator=make_generator(1), **settings
    )
    losses.sum().backward()
    near = {"rtol": 0, "atol": 1e-4 if dtype == torch.float32 else 1e-12}
    for k in range(3):
        energy = Ising(coupling[k].detach(), learnable=True)
        alone = energy_discrepancy_loss(
            energy, x, perturbation, generator=make_generator(1), **settings
        )
        alone.backward()
        assert torch.allclose(losses[k], alone, **near)
        assert torch.allclose(raw.grad[k], energy.coupling.grad, **near)
        # The models differ, so that one which took another's place would be told.
        assert not torch.allclose(losses[k], losses[k - 1], **near)


def draw_states(n_models, n_sites, seed):
    """Symmetric couplings, data, and other states, of which the first is the data."""
    coupling, x = draw(n_models, n_sites, torch.float32, seed)
    symmetric = (coupling + coupling.mT) / 2
    symmetric.diagonal(dim1=1, dim2=2).zero_()
    generator = make_generator(seed)
    other = torch.randint(2, (17, 5, n_sites), generator=generator).float()
    other[:, 0] = x
    return symmetric, x, other


def every_size(test):
    """Try many sizes; the first call compiles, so no time limit per example."""
    sizes = given(
        n_models=st.integers(1, 4),
        n_sites=st.integers(1, 70),
        seed=st.integers(0, 9999),
    )
    return settings(deadline=None)(sizes(test))


@every_size
def test_flipped_spins_alone_tell_the_difference(n_models, n_sites, seed):
    """The compiled sum against energies of both states, in double precision.

    It adds n^2 products, each below 16 |J| and rounded n times at most.
    """
    symmetric, x, other = draw_states(n_models, n_sites, seed)
    found = _differences(symmetric, x, other, find_flips(x, other))

    def energies(states):
        s = bits_to_spins(states.double())
        return -torch.einsum("...i,kij,...j->k...", s, symmetric.double(), s)

    exact = energies(x)[:, :, None] - energies(other)
    bound = 16 * symmetric.abs().sum((1, 2)).amax() * n_sites * 2.0**-24
    assert (found - exact).abs().max() <= bound + 1e-30
    assert not found[:, :, 0].any()


@every_size
def test_flipped_spins_alone_tell_the_moments(n_models, n_sites, seed):
    """Twice the symmetric part against s's'' - ss', in double precision.

    An entry adds 17 states times 6 draws, each below 2 shares and rounded once a sum.
    """
    _, x, other = draw_states(n_models, n_sites, seed)
    generator = make_generator(seed)
    drawn = torch.randint(5, (n_models, 17, 6), generator=generator)
    share = torch.rand(n_models, 17, 6, generator=generator)
    found = _moments(x, other, drawn, share, find_flips(x, other))
    s = bits_to_spins(x.double())
    chosen = bits_to_spins(other.double())[torch.arange(17)[:, None], drawn]
    exact = torch.einsum("kbd,kbdi,kbdj->kij", share.double(), chosen, chosen)
    exact -= torch.einsum("kbd,bi,bj->kij", share.double(), s, s)
    terms = 17 * 6
    bound = terms * 2 * terms * 2.0**-24
    assert (found + found.mT - exact).abs().max() <= bound
