"""Training a flow over graphs, or a GFlowNet of sets: it learns, resumes, refuses."""

from dataclasses import replace

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import random_graphs
from ebmtut.energies import MaxIndependentSet
from ebmtut.exact import exact_log_partition
from ebmtut.flows import effective_sample_size, log_partition, simulate
from ebmtut.flows.graph_gflownet import SetPolicy, set_ways
from ebmtut.flows.graphs import GraphFlowNetwork
from ebmtut.losses.kolmogorov import kolmogorov_variance_loss
from ebmtut.random import make_generator
from ebmtut.training import TrainConfig, train_set_policy
from ebmtut.training.graph_flow import GraphFlowConfig, flow_on, train_graph_flow

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
