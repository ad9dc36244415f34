"""A graph of one's own: its energy written out, and wrong files refused."""

from pathlib import Path

import networkx as nx
import pandas
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.io import mmread, mmwrite

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


@pytest.mark.parametrize("head", ["source target\n", "id source target\n"])
def test_a_weight_left_out_is_one(tmp_path: Path, head: str) -> None:
    path = tmp_path / "edges.txt"
    first, second = ("8 ", "9 ") if "id" in head else ("", "")
    path.write_text(f"{head}{first}1 2\n{second}2 3\n")
    assert list(read_graph(path).edges(data="weight")) == [("1", "2", 1), ("2", "3", 1)]


PATH = [("1", "2", 1.0), ("2", "3", -0.5)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,2,1\n2,3,-0.5\n", "no line of names, weights from column 3"),
        ("id_1,id_2,w\n1,2,1\n2,3,-0.5\n", "from id_1 to id_2, weights from w"),
        ("v,w,x\n1,2,1\n2,3,-0.5\n", "from v to w, weights from x"),
        ("From,To,kg\n1,2,1\n2,3,-0.5\n", "from From to To, weights from kg"),
        (",source,target,weight\n0,1,2,1\n1,2,3,-0.5\n", "weights from weight"),
        ("source target weight\n0 1 2 1\n1 2 3 -0.5\n", "weights from weight"),
        ("weight,source,target\n1,1,2\n-0.5,2,3\n", "from source to target"),
        ("weight;person 1;person 2\n1;1;2\n-0,5;2;3\n", "to person 2"),
        ("1;2;1\n2;3;-0,5\n", "no line of names"),
        ("1\t2\t1,0\n2\t3\t-0,5\n", "no line of names"),
        ("1 2 1,0\n2 3 -0,5\n", "no line of names, weights from column 3"),
        ("1|2|1,0\n2|3|-0,5\n", "no line of names, weights from column 3"),
        ('"source" "target" "w"\n"1" 1 2 1\n"2" 2 3 -0.5\n', "weights from w"),
        ("id,source,target,w\n8,1,2,1\n9,2,3,-0.5\n", "weights from w, id not used"),
        ("3\t2\n1\t2\t1\n2\t3\t-0.5\n", "first line counts vertices and edges"),
        ("p\tcol  3 2\ne 1 2 1\ne 2 3 -0.5\n", "DIMACS, weights from column 4"),
        ("# from a program\n1 2 1\n2 3 -0.5\n", "no line of names"),
        ("3 2\n1 2 1\n2 3 -0.5\n", "first line counts vertices and edges"),
        ("c from\np edge 3 2\ne 1 2 1\ne 2 3 -0.5\n", "DIMACS, weights from column 4"),
        (
            "source,target,weight,label\n1,2,1,x\n2,3,-0.5,y\n",
            "weights from weight, label not used",
        ),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1\n3 2 -0.5\n",
            "MatrixMarket",
        ),
    ],
)
def test_many_forms_are_the_same_graph(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    graph = read_graph(path)
    assert list(graph.edges(data="weight")) == PATH
    assert graph.graph["read_as"].startswith("edges.csv: 3 vertices, 2 edges; ")
    assert told in graph.graph["read_as"]


def test_the_numbers_of_vertices_and_edges_are_no_edge(tmp_path: Path) -> None:
    """The marginal of a path by enumeration, with a vertex alone: one half."""
    path = tmp_path / "g.txt"
    path.write_text("4 2\n1 2\n2 3\n")
    graph = read_graph(path)
    assert list(graph.nodes) == ["1", "2", "3", "4"]
    x = enumerate_states(4)
    p = (-pairwise_graph(graph, weight=2.0, variables="spins")(x)).softmax(0)
    torch.testing.assert_close(p @ x, torch.full((4,), 0.5).double())


@pytest.mark.parametrize(
    "text",
    [
        "a,b\nb,c\n",
        "node1,node2\nnode3,node4\nnode5,node6\n",
        "u,v\nv,w\n",
        "anna,ben\nben,carl\n",
        "anna,ben\n",
        "4 3\n3 2\n2 1\n1 5\n",
    ],
)
def test_a_first_line_that_is_an_edge_stays_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(text)
    want = [tuple(line.replace(",", " ").split()) for line in text.splitlines()]
    assert list(map(set, read_graph(path).edges)) == list(map(set, want))


@st.composite
def weighted_graphs(draw: st.DrawFn) -> nx.Graph:
    graph = nx.gnm_random_graph(
        draw(st.integers(2, 7)), draw(st.integers(1, 9)), seed=draw(st.integers(0, 99))
    )
    for _, _, about in graph.edges(data=True):
        about["weight"] = draw(st.floats(-1e9, 1e9))
    return nx.relabel_nodes(graph, {k: str(k + 1) for k in graph})


FORMS = ("nx", "pandas", "mtx", "gset", "dimacs", "graphml")


@settings(deadline=None, max_examples=60)
@given(weighted_graphs(), st.sampled_from(FORMS))
def test_files_of_other_libraries_are_read_as_by_them(tmp_path_factory, graph, form):
    path = tmp_path_factory.getbasetemp() / f"graph.{form}"
    if form == "nx":
        nx.write_weighted_edgelist(graph, path)
        want = nx.read_weighted_edgelist(path)
    elif form == "pandas":
        nx.to_pandas_edgelist(graph).to_csv(path)
        table = pandas.read_csv(path, index_col=0, dtype={"source": str, "target": str})
        want = nx.from_pandas_edgelist(table, edge_attr="weight")
    elif form == "mtx":
        matrix = nx.to_scipy_sparse_array(graph, nodelist=sorted(graph), format="coo")
        mmwrite(path, matrix, symmetry="symmetric", precision=17)
        names = {k: str(k + 1) for k in range(len(graph))}
        want = nx.relabel_nodes(nx.from_scipy_sparse_array(mmread(path)), names)
    elif form in ("gset", "dimacs"):
        start, head = ("", "") if form == "gset" else ("e ", "p edge ")
        lines = [f"{start}{a} {b} {w!r}" for a, b, w in graph.edges(data="weight")]
        head += f"{len(graph)} {len(lines)}"
        path.write_text("\n".join([head, *lines]), encoding="utf-8")
        want = graph
    else:
        nx.write_graphml(graph, path)
        want = nx.read_graphml(path)
    found = read_graph(path)
    assert nx.utils.graphs_equal(nx.Graph(found.edges), nx.Graph(want.edges))
    for a, b, weight in want.edges(data="weight"):
        assert found[a][b]["weight"] == weight
    if form != "nx" and form != "pandas":  # lists of edges have no vertex alone
        assert set(found) == set(want)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("anna,ben\ncarl,dora\nemil,frida\n", "say what line 1 is, got 'anna, ben'"),
        ("v,w\na,b\nb,c\n", "say what line 1 is, got 'v, w'"),
        ("u,v\nx,y\nz,t\n", "say what line 1 is, got 'u, v'"),
        ("a,b,NA\nb,c,1\n", "finite weights, got 'NA' in line 1"),
        ("3 5\n1 2 1\n2 3 1\n", "got '3 5' in line 1, 2 edges and 3 vertices"),
        ("source,target,kg,cm\na,b,1,2\nb,c,2,3\n", "name its columns source"),
        (
            "source,target\na,b,1\nb,c,2\n",
            "got 2 names in line 1 and 3 cells in line 2",
        ),
        ("source,target,w\na,b,1\nb,c\n", "finite weights, got '' in line 3"),
        ("a,b,1\nb,c\n", "a weight in each or in none, got 2 cells in line 2"),
        ("1 2 3\n2 3\n", "a weight in each or in none, got 2 cells in line 2"),
        ("4,2\n1,2\n2,3\n", "say what line 1 is, got '4 2', which may count"),
        ("3 2\n0 1\n1 2\n", "say what line 1 is, got '3 2', which may count"),
        ("p edge 3 2\ne 1 2\ne 2 3 1\n", "got 'e 2 3 1' in line 3"),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1\n2 1 2\n",
            "must hold each entry once",
        ),
        ("anna;ben;1.234,5\nben;carl;0,5\n", "finite weights, got '1.234,5'"),
        ("p edge 3 1\ne 1 4\n", "got 'e 1 4' in line 2"),
        (
            "%%MatrixMarket matrix coordinate real general\n3 3 1\n2 1 1\n",
            "must be a symmetric matrix",
        ),
        ("<graphml>", "must be GraphML"),
        ("", "must hold an edge, got none"),
        ("source,target\n", "must hold an edge, got none"),
        ("a\n", "got 1 cells in line 1"),
        ("a,b,1,2\n", "got 4 cells in line 1"),
        ("a,\n", "two names"),
        ("a,b,1\nb,c,heavy\n", "finite weights, got 'heavy' in line 2"),
        ("a,b,1\nb,c,1_0\n", "finite weights, got '1_0' in line 2"),
        # No head: it is a number, of a kind.
        ("a,b,nan\nb,c,1\n", "finite weights, got 'nan' in line 1"),
        ("a,b\na,a\n", "got 'a' and 'a' in line 2"),
        ("a,b\nb,a\n", "got 'b' and 'a' in line 2"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, text, match):
    assert_refused(read_graph, tmp_path, text, match)


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text("ab,;1\n\t -.", max_size=20).map(str.encode))
@example(b"a,b,\xff")
def test_any_bytes_are_a_graph_or_one_line(tmp_path_factory, content):
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
