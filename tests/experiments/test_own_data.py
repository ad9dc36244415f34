"""Tables and pictures of the pages on one's own data."""

import math

import matplotlib.pyplot as plt
import networkx as nx
import pytest
import torch

from ebmtut.data import pairwise_graph, read_bits
from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_log_partition, exact_mean
from ebmtut.experiments.own_data import likelihood_table, show_refusals, write_digits
from ebmtut.experiments.own_graphs import chances, coupling_errors
from ebmtut.metrics import BernoulliProposal, Estimate
from ebmtut.random import make_generator


def test_digits_are_written_as_bits(tmp_path):
    for pool, n_sites in ((2, 16), (4, 4)):
        write_digits(tmp_path / "digits.csv", pool)
        assert read_bits(tmp_path / "digits.csv").shape == (1797, n_sites)


@pytest.fixture(autouse=True)
def closed():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def test_independent_bits_gain_nothing_over_themselves():
    """An energy that is independent bits scores as they do, row by row."""
    rows = (torch.rand(40, 3, generator=make_generator(0)) < 0.4).double()
    independent = BernoulliProposal.fit(rows)
    energy = BoltzmannMachine(torch.zeros(3, 3).double(), independent.probs.logit())
    z = Estimate(float(exact_log_partition(energy, 3)), 0.0)
    table = likelihood_table({"ours": energy}, {"ours": z}, independent, rows)
    (ours, null, coins) = table.rows
    assert ours[1] == null[1] and ours[2].lstrip("−").startswith(("0", "1e", "2e"))
    assert coins[1] == f"{3 * math.log(2):.3g}"
    assert table.kinds == ("", "null", "null")


def test_chances_are_means_with_their_errors():
    x = torch.tensor([[1.0, 0], [1, 1], [1, 0], [1, 1]])
    assert chances(x) == [(1.0, 0.0), (0.5, 0.25)]


def test_errors_over_the_coupling_are_those_of_the_chances():
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 2.0)])
    clamp = torch.tensor([1.0, math.nan, math.nan])
    curves = coupling_errors(graph, clamp, [0.3], n_samples=4000, n_sweeps=20, seed=0)
    model = pairwise_graph(graph, weight="weight", variables="spins")
    with torch.no_grad():
        model.weight *= 0.3
        model.bias *= 0.3
    p = exact_mean(model.given(clamp), lambda x: x)
    noise = curves["sampling error"][0]
    assert noise == pytest.approx(float((p * (1 - p) / 4000).mean().sqrt()))
    for name in ("Gibbs, 5 sweeps", "Gibbs, 20 sweeps"):
        assert curves[name][0] < 5 * noise


def test_refusals_are_printed_without_the_folder(capsys):
    show_refusals(read_bits, "0,x\n1,0\n", "")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "bad.csv must hold numbers, got 'x' in line 1, column 2",
        "bad.csv must hold a row of numbers, got none",
    ]
    with pytest.raises(RuntimeError, match="is read"):
        show_refusals(read_bits, "0,1\n")
