import pytest
import torch
from scipy.stats import chi2

from ebmtut.checks import DivergenceError
from ebmtut.energies import RBM, BoltzmannMachine, Ising, MLPEnergy, PairwiseGraph
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.samplers import Sampler, StepInfo, draw_samples, gibbs, gwg, run_chain
from ebmtut.states import states_to_index
from tests.shared import normal


def counting_sampler():
    """Flips site 0 of chain 0 each step and reports the step's number."""

    def step(state, *, generator):
        x, t = state
        x = x.clone()
        x[0, 0] = 1 - x[0, 0]
        number = torch.full((len(x),), float(t + 1))
        return State(x, t + 1), StepInfo(number, torch.zeros(len(x)))

    return Sampler(lambda x: State(x, 0), step)


class State(tuple):
    def __new__(cls, x, t):
        return super().__new__(cls, (x, t))

    @property
    def x(self):
        return self[0]


def run(n_steps, **options):
    x = torch.zeros(2, 3)
    result = run_chain(
        counting_sampler(), x, n_steps, generator=make_generator(0), **options
    )
    assert torch.equal(x, torch.zeros(2, 3))
    return result


def test_thinning_keeps_every_kth_state_after_burn_in():
    result = run(7, keep_every=2, n_burn=3)
    assert result.kept.shape == (3, 2, 3)
    assert result.kept[:, 0, 0].tolist() == [1, 1, 1]  # after steps 5, 7, 9
    assert result.x_final[0, 0] == 0  # ten flips
    assert run(4, keep_every=1).kept[:, 0, 0].tolist() == [1, 0, 1, 0]


def test_info_means_leave_out_burn_in():
    assert run(4, n_burn=3).info == {"acceptance": 5.5, "n_changed": 0}


def test_without_keeping_or_steps():
    result = run(5)
    assert result.kept.shape == (0, 2, 3)
    nothing = run(0)
    assert nothing.info == {}
    assert torch.equal(nothing.x_final, torch.zeros(2, 3))


def test_a_nan_energy_is_never_entered_and_told():

    def energy(x):
        return torch.where(x.sum(1) > 1, torch.nan, 0.0) + 0 * x.sum(1)

    sampler, generator = gwg(energy, ratios="exact"), make_generator(0)
    state = sampler.init(torch.zeros(20, 3))
    for _ in range(30):
        state, _ = sampler.step(state, generator=generator)
        assert state.x.sum(1).max() <= 1
    with pytest.raises(DivergenceError, match="NaN"):
        run_chain(sampler, torch.zeros(20, 3), 30, generator=generator)


def test_no_step_returns_a_copy_and_no_chain_has_no_averages():
    x = torch.zeros(2, 5)
    sampler = gibbs(lambda x: x.sum(1))
    run_chain(sampler, x, 0, generator=make_generator(0)).x_final.fill_(1)
    assert not x.any()
    assert run_chain(sampler, x[:0], 3, generator=make_generator(0)).info == {}


MLP = MLPEnergy(4, 16, 2, generator=make_generator(2))
ENERGIES = {
    "Ising": Ising(0.3 * normal(4, 4)),
    "Boltzmann machine": BoltzmannMachine(normal(4, 4), normal(4)),
    "graph": PairwiseGraph(torch.tensor([[0, 1], [1, 2]]), normal(2), normal(4)),
    "RBM": RBM(normal(2, 4), normal(2), normal(4)),
    "network": MLP,
    "function": lambda x: MLP(x.float()) + 0.5 * x[:, 0].float() * x[:, 3].float(),
}


@pytest.mark.parametrize("method", ["gibbs", "gwg"])
@pytest.mark.parametrize("name", ENERGIES)
def test_the_distribution_is_the_energys(name, method):
    """What eight sweeps leave of the start adds less than 1e-5 to the statistic."""
    energy, n = ENERGIES[name], 20_000
    sites = {"n_sites": 4} if name == "function" else {}
    x = draw_samples(
        energy, n, n_sweeps=8, method=method, generator=make_generator(1), **sites
    )
    assert x.shape == (n, 4)
    assert x.dtype == (torch.float32 if energy is MLP else torch.float64)
    counts = torch.bincount(states_to_index(x), minlength=16).double()
    expected = n * exact_probabilities(energy, 4).detach().exp()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(float(statistic), 15) > 1e-4


def test_a_start_is_kept_without_sweeps_and_left_alone():
    start = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 1]])
    before = start.clone()
    for energy in ENERGIES.values():
        sites = {"n_sites": 4}
        x = draw_samples(
            energy, 2, n_sweeps=0, start=start, generator=make_generator(0), **sites
        )
        assert torch.equal(x, start) and x.dtype == torch.float32
        draw_samples(
            energy, 2, n_sweeps=3, start=start, generator=make_generator(0), **sites
        )
        assert torch.equal(start, before)
