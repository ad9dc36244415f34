"""What the widget of messages hands to the page."""

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from ipywidgets.embed import dependency_state, embed_data
from traitlets import TraitError

from ebmtut.checks import InputError
from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.random import logistic, make_generator
from ebmtut.states import bits_to_spins, enumerate_states
from ebmtut.widgets import (
    SMALL_GRAPHS,
    SmallGraph,
    message_explorer,
    message_picture,
)


@pytest.mark.parametrize("graph", SMALL_GRAPHS, ids=lambda graph: graph.name)
def test_bits_have_the_law_of_the_spins(graph: SmallGraph) -> None:
    fields = tuple(0.3 * k - 0.4 for k in range(graph.n_sites))
    graph = replace(graph, fields=fields)
    x = enumerate_states(graph.n_sites)
    s = bits_to_spins(x)
    in_spins = s @ torch.tensor(fields, dtype=torch.float64)
    for (i, j), coupling in zip(graph.edges, graph.couplings, strict=True):
        in_spins = in_spins + coupling * s[:, i] * s[:, j]
    weight, bias = graph.to_bits(temperature=0.7)
    in_bits = ((x @ weight) * x).sum(dim=1) / 2 + x @ bias
    gap = in_bits - in_spins / 0.7
    assert torch.allclose(gap, gap[0].expand_as(gap), atol=1e-12)


def test_page_starts_with_the_first_graph_and_carries_the_noise() -> None:
    graphs = SMALL_GRAPHS[::-1]
    widget = message_explorer(graphs, n_draws=50, generator=make_generator(3))
    assert widget.couplings == list(graphs[0].couplings)
    assert widget.fields == list(graphs[0].fields)
    assert [g["n_sites"] for g in widget.graphs] == [g.n_sites for g in graphs]
    noise = np.frombuffer(widget.noise, np.float32).reshape(50, widget.stride)
    assert widget.stride == 6
    expected = logistic((50, 6), generator=make_generator(3))
    assert np.array_equal(noise, expected.numpy())


def test_toy_stands_first_and_its_neighbours_are_all_coupled() -> None:
    weight, bias = SMALL_GRAPHS[0].to_bits()
    off_diagonal = 4 * 0.331 * (1 - torch.eye(4, dtype=torch.float64))
    assert torch.allclose(weight, off_diagonal)
    assert torch.allclose(bias, torch.full((4,), -6 * 0.331, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", 0.0),
        ("temperature", 3.1),
        ("graph", 99),
        ("graph", -1),
        ("n_sweeps", 21),
        ("start", "ones"),
    ],
)
def test_what_the_page_cannot_show_is_refused(name: str, value: object) -> None:
    widget = message_explorer(n_draws=40, generator=make_generator(0))
    before = getattr(widget, name)
    with pytest.raises(TraitError, match=name):
        setattr(widget, name, value)
    assert getattr(widget, name) == before
    widget.graph, widget.temperature = len(SMALL_GRAPHS) - 1, 0.2


def test_state_fits_into_a_page() -> None:
    widget = message_explorer(generator=make_generator(0))
    # Of this widget alone: other tests leave theirs behind.
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 150_000


def test_refuses_what_it_cannot_draw() -> None:
    seven = SmallGraph("seven", ((0.0, 0.0),) * 7, (), (), (0.0,) * 7)
    with pytest.raises(InputError, match="seven"):
        message_explorer([seven], generator=make_generator(0))
    with pytest.raises(InputError, match="n_draws"):
        message_explorer(n_draws=39, generator=make_generator(0))
    with pytest.raises(InputError, match="graphs"):
        message_explorer([], generator=make_generator(0))
    with pytest.raises(InputError, match="temperature"):
        SMALL_GRAPHS[0].to_bits(temperature=0)


@pytest.mark.parametrize(
    ("edges", "couplings", "fields", "words"),
    [
        (((0, 2),), (1.0,), (0.0, 0.0), r"edges of 'two' must join two of 2 nodes"),
        (((1, 1),), (1.0,), (0.0, 0.0), r"edges of 'two' must join .* got \(1, 1\)"),
        (((0, 1),), (), (0.0, 0.0), "couplings of 'two' must be 1 numbers, got 0"),
        (((0, 1),), (1.0,), (0.0,), "fields of 'two' must be 2 numbers, got 1"),
    ],
)
def test_graphs_are_whole(edges, couplings, fields, words) -> None:
    with pytest.raises(InputError, match=words):
        SmallGraph("two", ((0.0, 0.0), (1.0, 0.0)), edges, couplings, fields)


def test_still_picture_shows_the_laws() -> None:
    figure = message_picture(n_sweeps=20, n_draws=2000, generator=make_generator(0))
    assert [ax.get_title() for ax in figure.axes] == [g.name for g in SMALL_GRAPHS]
    chain = figure.axes[1]
    optimum, *starts = (line.get_ydata() for line in chain.lines)
    assert len(starts) == 2
    # On a chain, both starts come to the optimum of every draw.
    for law in starts:
        assert np.array_equal(law, optimum)
    bars = [bar.get_height() for bar in chain.patches]
    model = BoltzmannMachine(*SMALL_GRAPHS[1].to_bits())
    assert np.allclose(bars, exact_probabilities(model, 6).exp().numpy())
    plt.close(figure)
