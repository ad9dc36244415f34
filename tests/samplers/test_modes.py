"""Samplers where gradients are off, energies without one, and chains that diverge."""

import pytest
import torch

from ebmtut import samplers
from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import Energy, MLPEnergy
from ebmtut.flows import gibbs_kernel
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator

BITS = {
    "gwg": samplers.gwg,
    "dmala": lambda energy: samplers.dmala(energy, 0.2),
    "dula": lambda energy: samplers.dula(energy, 0.2),
}
VECTORS = {
    "hmc": lambda energy: samplers.hmc(energy, 0.5),
    "mala": lambda energy: samplers.mala(energy, 0.5),
    "langevin": lambda energy: samplers.langevin(energy, 0.5),
}
SAMPLERS = BITS | VECTORS
X = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])


def parabola(x):
    return (x**2).sum(1) / 2 + x[:, 0] * x[:, 1] / 4


def detached(x):
    return parabola(x.detach())


class DetachedButLearnable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x.detach() @ self.weight


class Broken(Energy):
    n_sites = 3

    def forward(self, x):
        return broken(x)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("energy", [parabola, MLPEnergy(3, 4, 2)])
def test_gradients_are_taken_where_they_are_off(name, mode, energy):

    def run():
        chain = SAMPLERS[name](energy)
        return samplers.run_chain(
            chain, X.clone(), 5, generator=make_generator(0)
        ).x_final

    want = run()
    with mode():
        assert torch.equal(run(), want)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("energy", [detached, DetachedButLearnable()])
def test_an_energy_without_a_gradient_is_named(name, energy):
    with pytest.raises(InputError, match=r"^energy must depend on x by diff"):
        samplers.run_chain(SAMPLERS[name](energy), X, 5, generator=make_generator(0))


def test_unadjusted_chains_that_diverge_say_so():
    """On a parabola a step of more than two standard deviations doubles each time."""
    chain = samplers.langevin(parabola, 9.0)
    with pytest.raises(DivergenceError, match=r"chains diverged, .* smaller step_size"):
        samplers.run_chain(chain, X, 100, generator=make_generator(0))
    # The test of MALA keeps the chain where it is.
    x = samplers.run_chain(
        samplers.mala(parabola, 9.0), X, 100, generator=make_generator(0)
    ).x_final
    assert bool(x.isfinite().all())


def broken(x):
    return torch.where(x.sum(1) == 2, 0.0, torch.nan) * x.sum(1)


NAN = {
    "gibbs": samplers.gibbs,
    "color_gibbs": lambda energy: samplers.color_gibbs(energy, torch.arange(3)),
    "gwg": lambda energy: samplers.gwg(energy, ratios="exact"),
    "dmala": lambda energy: samplers.dmala(energy, 0.2, "exact"),
    "dula": lambda energy: samplers.dula(energy, 0.2, "exact"),
}


@pytest.mark.parametrize("name", NAN)
def test_an_energy_that_is_nan_next_to_bits_is_told(name):
    """None of the six neighbours has an energy: the chains could not move."""
    if name == "color_gibbs":  # which looks at the neighbours first
        chain = NAN[name](broken)._replace(init=samplers.ColorGibbsState)
    else:
        chain = NAN[name](broken)
    with pytest.raises(DivergenceError, match="NaN"):
        samplers.run_chain(chain, X, 1, generator=make_generator(0))


@pytest.mark.parametrize("name", ["gwg", "dmala"])
def test_bits_of_infinite_energy_are_not_entered(name):
    """No probability is no error: inf - inf in the ratios there counts as none."""

    def walled(x):
        return torch.where(x.sum(1) == 3, torch.inf, 0.0)

    chain = samplers.run_chain(NAN[name](walled), X, 200, generator=make_generator(0))
    assert bool((chain.x_final.sum(1) < 3).all())
    assert 0 < chain.info["acceptance"] <= 1


def test_gradients_and_weights_that_are_nan_are_told():
    def steep(x):  # of energy 0 at 0, where its gradient is not finite
        return x.abs().sqrt().sum(1)

    for chain in (samplers.hmc, samplers.mala, samplers.langevin):
        with pytest.raises(InputError, match="gradient of energy"):
            chain(steep, 0.1).init(torch.zeros(2, 3))
    path = AnnealingPath(Broken())
    with pytest.raises(DivergenceError, match="weights are NaN"):
        kernel = gibbs_kernel(path, torch.arange(3))
        samplers.annealed_importance_sampling(
            path, kernel, 4, 2, generator=make_generator(0)
        )


@pytest.mark.parametrize("name", VECTORS)
def test_one_step_size_for_each_chain_and_no_other_number(name):
    make = {"hmc": samplers.hmc, "mala": samplers.mala, "langevin": samplers.langevin}[
        name
    ]
    sizes = torch.tensor([0.1, 0.2, 0.3])
    with pytest.raises(
        InputError, match=r"step_size must have shape \(2,\), got \(3,\)"
    ):
        make(parabola, sizes).init(X)
    one = samplers.run_chain(
        make(parabola, sizes[:2]), X, 3, generator=make_generator(0)
    )
    both = samplers.run_chain(make(parabola, 0.1), X, 3, generator=make_generator(0))
    assert torch.equal(one.x_final[0], both.x_final[0])
    double = samplers.run_chain(
        make(parabola, sizes[:2].double()), X, 3, generator=make_generator(0)
    )
    assert torch.equal(double.x_final, one.x_final)
    with pytest.raises(InputError, match="step_size must be floating, got torch"):
        make(parabola, sizes.long() + 1)
