"""Training flows, also over graphs: they learn, go on after a kill, stop at NaN."""

from dataclasses import replace

import pytest
import torch

from ebmtut import flows
from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import random_graphs
from ebmtut.energies import LatticeIsing, MaxIndependentSet, lattice_coloring
from ebmtut.exact import exact_log_partition, lattice_log_partition
from ebmtut.flows import effective_sample_size, log_partition, simulate
from ebmtut.flows.graph_gflownet import SetPolicy, set_ways
from ebmtut.flows.graphs import GraphFlowNetwork
from ebmtut.losses.kolmogorov import kolmogorov_variance_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import FlowConfig, TrainConfig, train_flow, train_set_policy
from ebmtut.training.graph_flow import GraphFlowConfig, flow_on, train_graph_flow

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


GRAPHS = random_graphs("erdos-renyi", 6, 5, 8, generator=make_generator(0))
PROBLEM = MaxIndependentSet(GRAPHS, inverse_temperature=2)
ROLLOUT = GraphFlowConfig(n_graphs=4, n_copies=8, n_time_steps=16, inner_steps=20)


def weights(seed=0):
    return GraphFlowNetwork(width=16, generator=make_generator(seed))


def learn(n_steps, **how):
    optimizer = TrainConfig(
        n_steps=n_steps, learning_rate=5e-3, ema_decay=0.9, precision="float32"
    )
    return train_graph_flow(
        weights(), PROBLEM, ROLLOUT, optimizer, generator=make_generator(1), **how
    )


def worst_share(network, problem, n=400):
    """Least effective sample size among graphs, and the largest error of log Z."""
    drawn = simulate(
        flow_on(network, problem),
        n * len(problem.graphs),
        32,
        generator=make_generator(2),
    )
    sizes, errors = [], []
    for number, w in enumerate(drawn.log_weights.unflatten(0, (-1, n))):
        one = problem.of(problem.graphs.select(torch.tensor([number])))
        # The padded sites are coins of the path, too.
        log_z = exact_log_partition(one, one.n_sites, dtype=torch.float32)
        padded = (problem.n_sites - one.n_sites) * torch.log(torch.tensor(2.0))
        start = problem.n_sites * float(torch.log(torch.tensor(2.0)))
        sizes.append(effective_sample_size(w))
        errors.append(abs(log_partition(w, start).estimate - float(log_z + padded)))
    return min(sizes), max(errors)


def test_it_learns_the_distribution_of_graphs_it_never_saw():
    new = random_graphs("erdos-renyi", 4, 5, 8, generator=make_generator(7))
    problem = PROBLEM.of(new)
    before, _ = worst_share(weights(), problem)
    network, losses, *_ = learn(200)
    after, error = worst_share(network, problem)
    assert losses[-20:].mean() < losses[:20].mean() / 4
    assert before < 0.6 < 0.8 < after
    # Five standard errors at that share: sqrt((1/0.8 - 1) / 400) = 0.025.
    assert error < 5 * 0.025


def test_a_run_that_was_cut_goes_on_bit_for_bit(tmp_path, monkeypatch):
    whole = learn(40).weights
    kept = {
        "checkpoint": tmp_path / "run.safetensors",
        "checkpoint_every": 15,
        "identity": {"row": "test"},
    }
    draws = []

    def second_fails(*args, **kwargs):
        draws.append(1)
        if len(draws) == 2:
            raise KeyboardInterrupt
        return simulate(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("ebmtut.training.graph_flow.simulate", second_fails)
        with pytest.raises(KeyboardInterrupt):
            learn(40, **kept)
    again = learn(40, **kept).weights
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_training_sees_the_temperature_of_its_step(monkeypatch):
    seen = {"rollouts": [], "losses": []}

    def noted(kind, plain):
        def call(flow, *args, **kwargs):
            energy = flow.path.target
            seen[kind].append(energy.inverse_temperature)
            return plain(flow, *args, **kwargs)

        return call

    module = "ebmtut.training.graph_flow"
    monkeypatch.setattr(f"{module}.simulate", noted("rollouts", simulate))
    loss = noted("losses", kolmogorov_variance_loss)
    monkeypatch.setattr(f"{module}.kolmogorov_variance_loss", loss)
    train_graph_flow(
        weights(),
        PROBLEM,
        replace(ROLLOUT, anneal=0.5, inner_steps=2, n_time_steps=2),
        TrainConfig(8, precision="float32"),
        generator=make_generator(1),
    )
    want = [0.1 + 1.9 * k / 4 for k in range(4)] + 4 * [2]
    assert seen["losses"] == pytest.approx(want)
    assert seen["rollouts"] == pytest.approx(want[::2])


def test_input_is_refused():
    few = PROBLEM.of(GRAPHS.select(torch.tensor([0, 1])))
    with pytest.raises(InputError, match=r"n_graphs must be an integer in \[1, 2\]"):
        train_graph_flow(
            weights(), few, ROLLOUT, TrainConfig(1), generator=make_generator(0)
        )


def mean_size(policy, graphs, n=200):
    with torch.no_grad():
        x = set_ways(policy, graphs, n, generator=make_generator(5)).x
    return x.sum(1).unflatten(0, (len(graphs), -1))


def test_it_finds_larger_sets_on_graphs_it_never_saw():
    graphs = random_graphs("erdos-renyi", 20, 9, 12, generator=make_generator(0))
    config = TrainConfig(60, 128, 1e-2, n_warmup=5, ema_decay=0.9, precision="float32")
    new = random_graphs("erdos-renyi", 8, 9, 12, generator=make_generator(7))
    fresh = SetPolicy(width=16, generator=make_generator(0))
    before = mean_size(fresh, new)
    trained, losses, _ = train_set_policy(
        fresh, graphs, 5.0, config, generator=make_generator(1)
    )
    gain = mean_size(trained, new).mean(1) - before.mean(1)
    noise = float((before.var(1) / 200 * 2).mean() ** 0.5) / len(new) ** 0.5
    assert float(gain.mean()) > 5 * noise
    assert losses[-10:].mean() < losses[:10].mean() / 2
