import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.random import make_generator
from ebmtut.samplers import Sampler, StepInfo, gibbs, gwg, run_chain


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
