"""Training a flow: it learns, goes on after a kill, counts cuts, stops at NaN."""

import pytest
import torch

from ebmtut import flows
from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.exact import lattice_log_partition
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import FlowConfig, TrainConfig, train_flow

PATH = AnnealingPath(LatticeIsing(3, 0.2))
SMALL = FlowConfig(n_time_steps=8, n_trajectories=32, inner_steps=20, n_times=4)
STEPS = TrainConfig(n_steps=60, batch_size=32, n_warmup=5, precision="float32")


def new_flow(**options):
    return flows.Flow(PATH, flows.OddLatticeNetwork(3, width=8, n_hidden=16), **options)


def quality(flow):
    found = flows.simulate(flow, 2000, 64, generator=make_generator(1))
    z = flows.log_partition(found.log_weights, PATH.log_partition_start)
    return flows.effective_sample_size(found.log_weights), z


@pytest.mark.parametrize("objective", ["batch", "stein", "plain", "learned"])
def test_a_flow_learns_by_every_objective(objective):
    before, _ = quality(new_flow())
    found = train_flow(
        new_flow(),
        FlowConfig(objective=objective, n_time_steps=16, n_trajectories=64),
        TrainConfig(n_steps=200, learning_rate=5e-3, n_warmup=20, precision="float32"),
        generator=make_generator(2),
        refine=flows.gibbs_kernel(PATH, lattice_coloring(3)),
    )
    after, z = quality(found.flow)
    assert after > 0.9 > 0.8 > before
    # Five standard errors, and the trapezoid's own error at 64 steps.
    exact = lattice_log_partition(3, 0.2)
    assert abs(z.estimate - exact) < 5 * z.standard_error + 0.01


def test_the_control_variate_lowers_the_spread():
    found = train_flow(new_flow(), SMALL, STEPS, generator=make_generator(2))
    assert found.slope_spread.shape == (3, 2)
    assert (found.slope_spread[-1, 0] < found.slope_spread[-1, 1]).all()


def test_cut_ratios_are_counted():
    cut = train_flow(
        new_flow(rates="one_way", max_log_ratio=0.3),
        SMALL,
        STEPS,
        generator=make_generator(0),
    )
    assert cut.n_clipped > 0
    assert cut.max_log_ratio > 0.3
    n_ratios = STEPS.n_steps * STEPS.batch_size * cut.flow.path.n_sites
    assert cut.n_ratios == n_ratios
    assert cut.clipped_share == cut.n_clipped / n_ratios < 1


def test_divergence_names_the_step_and_the_largest_ratio():
    flow = new_flow()
    with torch.no_grad():
        flow.network.kernel[0, 0] = float("inf")
    with pytest.raises(DivergenceError, match=r"step 0: its largest log-ratio was"):
        train_flow(flow, SMALL, STEPS, generator=make_generator(0))


def test_a_rollout_that_diverges_names_the_step_of_the_training():
    flow = new_flow()

    def break_it(step, averaged):
        if step == SMALL.inner_steps - 1:
            with torch.no_grad():
                flow.network.kernel[0, 0] = torch.nan

    with pytest.raises(DivergenceError, match="flow diverged at step") as error:
        train_flow(flow, SMALL, STEPS, generator=make_generator(0), on_step=break_it)
    assert error.value.step == SMALL.inner_steps


@pytest.mark.parametrize("n_times", [5, 32])
def test_a_batch_must_hold_its_times(n_times):
    with pytest.raises(InputError, match="batch_size must be at least twice n_times"):
        train_flow(
            flows.Flow(PATH, flows.HollowMLP(9)),
            FlowConfig(n_times=n_times),
            STEPS,
            generator=make_generator(0),
        )
