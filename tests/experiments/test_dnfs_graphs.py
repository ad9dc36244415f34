"""Rows of graph problems on a handful of graphs: what is counted, and what can lose."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import GraphBatch, MaxCut, MaxIndependentSet
from ebmtut.experiments.dnfs.graph_judge import Judge
from ebmtut.experiments.dnfs.graph_problems import (
    GraphProblemConfig,
    exact_scores,
    graphs_of,
    shares,
)
from ebmtut.experiments.dnfs.graph_reports import rivals_table, shares_table
from ebmtut.experiments.registry import get_experiment
from ebmtut.random import make_generator

SIZE = "16-20"
TINY = {
    "n_train": 16,
    "n_test": 2,
    "n_copies": 2,
    "n_time_steps": 4,
    "refinements": (0, 1),
    "train": {"n_steps": 2},
}


@pytest.fixture(scope="module", params=["max-independent-set", "max-cut"])
def result(request):
    experiment = get_experiment(f"dnfs/{request.param}")
    return experiment, experiment.run("quick", seed=0, **TINY)


def test_nothing_beats_the_optimum(result):
    experiment, run = result
    table = run.scalars["table"][SIZE]
    scored = [name for name in table if not name.endswith("CPU seconds")]
    assert len(scored) == (16 if experiment.id == "dnfs/max-cut" else 20)
    for name in scored:
        assert 0 <= shares(run, SIZE, name)[0] <= 1 + 1e-6, name
    assert run.scalars["exact law"][SIZE] <= run.scalars["optimum"][SIZE] + 1e-6
    one, best = (shares_table(run, draws) for draws in ("one", "best"))
    assert one.heads == ("method", "evals", SIZE)
    assert best.heads == ("method", "evals", SIZE, "CPU s")
    assert one.kinds == (*best.kinds, "exact")
    assert all(
        float(b[2][:5]) >= float(a[2][:5])
        for a, b in zip(one.rows[:-1], best.rows, strict=True)
    )
    experiment.figure(run)
    if experiment.id == "dnfs/max-independent-set":
        rivals = rivals_table(run)
        assert rivals.kinds == ("null", "null", "", "", "", "paper", "paper")
        # 8.28 and 8.75 vertices of 8.92, Table 1.
        assert [row[1] for row in rivals.rows[-2:]] == ["0.928", "0.981"]


def test_claims_are_lost_by_a_flow_that_learned_nothing(result):
    experiment, run = result
    table = {**run.scalars["table"][SIZE]}
    table["DNFS"] = table["untrained DNFS"]
    table["DNFS + DMALA 1"] = [v - 0.01 for v in table["DMALA 1"]]
    scalars = {**run.scalars, "table": {SIZE: table}}
    verdicts = experiment.check(replace(run, scalars=scalars))
    ours = [v for v in verdicts if v.published is None]
    assert [v.verdict for v in ours] == ["miss", "miss"]
    printed = [v for v in verdicts if v.published is not None]
    assert len(printed) == 4
    assert {v.verdict for v in printed} == {"not comparable"}


def test_chains_make_as_many_evaluations_as_the_flow(monkeypatch):
    """Every product with A of either is counted."""
    calls = []
    plain = MaxCut.flip_log_ratios

    def counted(self, x):
        calls.append(1)
        return plain(self, x)

    monkeypatch.setattr(MaxCut, "flip_log_ratios", counted)
    config = GraphProblemConfig(problem="max-cut")
    judge = Judge(
        MaxCut(graphs_of(config, SIZE, 2, 0), inverse_temperature=5.0),
        n_copies=1,
        n_time_steps=8,
        step_size=0.3,
        generator=make_generator(1),
    )
    from ebmtut.flows import GraphFlowNetwork

    for n_refine in (0, 3):
        calls.clear()
        judge.flow("flow", GraphFlowNetwork(width=4), n_refine)
        by_flow = len(calls)
        calls.clear()
        judge.chain("chain", n_refine, langevin=True)
        # A flow looks at both ends of its time: once more than it steps.
        assert by_flow == len(calls) + 1


def test_the_exact_law_by_hand():
    """Two vertices and an edge: scores 0, 1, 1, and 1 - lambda, repaired to 1."""
    pair = GraphBatch.from_edges([(2, [(0, 1)])])
    beta = 2.0
    weights = np.exp(beta * np.array([0, 1, 1, 2 - 1.0001]))
    want = weights[1:].sum() / weights.sum()
    problem = MaxIndependentSet(pair, inverse_temperature=beta)
    assert exact_scores(problem)[0] == pytest.approx(want, abs=1e-6)
    cut = np.exp(beta)
    found = exact_scores(MaxCut(pair, inverse_temperature=beta))[0]
    assert found == pytest.approx(cut / (1 + cut), abs=1e-6)


def test_padded_graphs_are_judged_as_their_vertices():
    graphs = GraphBatch.from_edges([(2, [(0, 1)]), (3, [(0, 1), (1, 2)])])
    problem = MaxCut(graphs, inverse_temperature=1.0)
    alone = exact_scores(problem.of(graphs.select(torch.tensor([0]))))
    assert exact_scores(problem)[0] == pytest.approx(alone[0], abs=1e-6)


def test_input_is_refused():
    with pytest.raises(InputError, match="problem must be one of"):
        GraphProblemConfig(problem="colouring")
    with pytest.raises(InputError, match="sizes must be one of"):
        GraphProblemConfig(sizes=("5-6",))
    with pytest.raises(InputError, match="refinements must be an integer >= 0"):
        GraphProblemConfig(refinements=(-1,))
    with pytest.raises(InputError, match="rivals must be without GFlowNet"):
        GraphProblemConfig(problem="max-cut", rivals=("GFlowNet",))
    with pytest.raises(InputError, match="n_seeds must be a number >= 3, got 1"):
        GraphProblemConfig(n_seeds=(1,))
