"""A graph of one's own: its energy written out, and wrong files refused."""

from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.data import pairwise_graph, read_graph
from ebmtut.states import enumerate_states
from tests.data.wrong_files import assert_refused


@pytest.mark.parametrize(
    "text",
    [
        "a,b,2\nb,c,-1\nc,Ö d,1\n",
        "source;target;weight\na;b;2\nb;c;-1\nc;Ö d;1.0\n",
        '"a","b","2"\n\n"b","c",-1\nc,Ö d,1',
    ],
)
def test_edges_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    graph = read_graph(path)
    assert list(graph.nodes) == ["a", "b", "c", "Ö d"]
    edges = [("a", "b", 2), ("b", "c", -1), ("c", "Ö d", 1)]
    assert list(graph.edges(data="weight")) == edges


def test_a_weight_left_out_is_one(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("source target\n1 2\n2 3\n")
    assert list(read_graph(path).edges(data="weight")) == [("1", "2", 1), ("2", "3", 1)]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "must hold an edge, got none"),
        ("source,target\n", "must hold an edge, got none"),
        ("a\n", "got 1 cells in line 1"),
        ("a,b,1,2\n", "got 4 cells in line 1"),
        ("a,\n", "two names"),
        ("a,b,1\nb,c,heavy\n", "finite weights, got 'heavy' in line 2"),
        ("a,b,1\nb,c,nan\n", "finite weights, got 'nan' in line 2"),
        ("a,b,1\nb,c,1_0\n", "finite weights, got '1_0' in line 2"),
        # No head: it is a number, of a kind.
        ("a,b,nan\nb,c,1\n", "finite weights, got 'nan' in line 1"),
        ("a,b\na,a\n", "got 'a' and 'a' in line 2"),
        ("a,b\nb,a\n", "got 'b' and 'a' in line 2"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    tmp_path: Path, text: str, match: str
) -> None:
    assert_refused(read_graph, tmp_path, text, match)


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text("ab,;1\n\t -.", max_size=20).map(str.encode))
@example(b"a,b,\xff")
def test_any_bytes_are_a_graph_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    try:
        graph = read_graph(path)
    except InputError as error:
        assert "\n" not in str(error) and "fuzz.csv" in str(error)
    else:
        pairwise_graph(graph, weight="weight")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path must be a file"):
        read_graph(tmp_path / "none.csv")


@pytest.mark.parametrize("variables", ["bits", "spins"])
def test_the_energy_is_the_sum_over_edges(variables: str) -> None:
    """Written out edge by edge, up to a constant, the vertices in their own order."""
    graph = nx.Graph()
    graph.add_node("z", field=0.3)
    graph.add_node(("x", 1), field=-1.0)
    graph.add_node(7, field=0.0)
    graph.add_node("alone", field=2.0)
    graph.add_edge(7, "z", pull=1.5)
    graph.add_edge(("x", 1), 7, pull=-0.4)
    model = pairwise_graph(graph, weight="pull", bias="field", variables=variables)
    x = enumerate_states(4)
    s = 2 * x - 1 if variables == "spins" else x
    z, pair, seven, alone = s.T
    want = 1.5 * seven * z - 0.4 * pair * seven + 0.3 * z - pair + 2 * alone
    gap = model(x) + want
    torch.testing.assert_close(gap, gap[:1].expand_as(gap))
    if variables == "bits":
        assert float(gap.abs().max()) < 1e-14


def test_one_number_serves_all() -> None:
    model = pairwise_graph(nx.path_graph(3), weight=2, bias=-1, dtype=torch.float32)
    assert model.weight.tolist() == [2, 2] and model.bias.tolist() == [-1, -1, -1]
    assert model.weight.dtype == torch.float32
    assert pairwise_graph(nx.empty_graph(2)).edges.shape == (2, 0)


@pytest.mark.parametrize(
    ("graph", "more", "match"),
    [
        ([(0, 1)], {}, "graph must be a networkx.Graph, undirected, got .*0, 1"),
        (nx.DiGraph([(0, 1)]), {}, "got DiGraph"),
        (nx.MultiGraph([(0, 1)]), {}, "got MultiGraph"),
        (nx.Graph(), {}, "graph must have a vertex"),
        (nx.Graph([(0, 0)]), {}, "no loop, got one at 0"),
        (
            nx.path_graph(2),
            {"weight": "w"},
            "weight must be an attribute, got none 'w'",
        ),
        (
            nx.path_graph(2),
            {"bias": "b"},
            "bias must be an attribute, got none 'b' at 0",
        ),
        (nx.path_graph(2), {"weight": float("nan")}, "weight must be a number"),
        (
            nx.Graph([(0, 1, {"w": "2"})]),
            {"weight": "w"},
            "w at 0 and 1 must be a number",
        ),
        (nx.path_graph(2), {"variables": "spin"}, "did you mean 'spins'"),
        (nx.path_graph(2), {"dtype": torch.int64}, "dtype must be floating"),
    ],
)
def test_bad_graphs_are_refused(graph, more, match) -> None:
    with pytest.raises(InputError, match=match):
        pairwise_graph(graph, **more)
