"""Samplers where gradients are off, energies without one, and chains that diverge."""

import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import MLPEnergy
from ebmtut.random import make_generator
from ebmtut.samplers import dmala, dula, gwg, hmc, langevin, mala, run_chain

BITS = {
    "gwg": gwg,
    "dmala": lambda energy: dmala(energy, 0.2),
    "dula": lambda energy: dula(energy, 0.2),
}
VECTORS = {
    "hmc": lambda energy: hmc(energy, 0.5),
    "mala": lambda energy: mala(energy, 0.5),
    "langevin": lambda energy: langevin(energy, 0.5),
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


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("energy", [parabola, MLPEnergy(3, 4, 2)])
def test_gradients_are_taken_where_they_are_off(name, mode, energy):

    def run():
        chain = SAMPLERS[name](energy)
        return run_chain(chain, X.clone(), 5, generator=make_generator(0)).x_final

    want = run()
    with mode():
        assert torch.equal(run(), want)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("energy", [detached, DetachedButLearnable()])
def test_an_energy_without_a_gradient_is_named(name, energy):
    with pytest.raises(InputError, match=r"^energy must depend on x by diff"):
        run_chain(SAMPLERS[name](energy), X, 5, generator=make_generator(0))


def test_unadjusted_chains_that_diverge_say_so():
    """On a parabola a step of more than two standard deviations doubles each time."""
    chain = langevin(parabola, 9.0)
    with pytest.raises(DivergenceError, match=r"chains diverged, .* smaller step_size"):
        run_chain(chain, X, 100, generator=make_generator(0))
    # The test of MALA keeps the chain where it is.
    x = run_chain(mala(parabola, 9.0), X, 100, generator=make_generator(0)).x_final
    assert bool(x.isfinite().all())


def test_log_ratios_that_are_no_numbers_are_told():
    def broken(x):
        return torch.where(x.sum(1) == 2, 0.0, torch.nan) * x.sum(1)

    with pytest.raises(
        DivergenceError, match="6 of 6 log-ratios of the energy are NaN"
    ):
        run_chain(dula(broken, 0.2, "exact"), X, 1, generator=make_generator(0))


@pytest.mark.parametrize("name", VECTORS)
def test_one_step_size_for_each_chain_and_no_other_number(name):
    make = {"hmc": hmc, "mala": mala, "langevin": langevin}[name]
    sizes = torch.tensor([0.1, 0.2, 0.3])
    with pytest.raises(
        InputError, match=r"step_size must have shape \(2,\), got \(3,\)"
    ):
        make(parabola, sizes).init(X)
    one = run_chain(make(parabola, sizes[:2]), X, 3, generator=make_generator(0))
    both = run_chain(make(parabola, 0.1), X, 3, generator=make_generator(0))
    assert torch.equal(one.x_final[0], both.x_final[0])
