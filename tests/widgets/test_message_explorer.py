"""What the widget of messages hands to the page."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from traitlets import TraitError

from ebmtut.random import logistic, make_generator
from ebmtut.states import bits_to_spins, enumerate_states
from ebmtut.widgets import FIRST_SAMPLE, SMALL_GRAPHS, SmallGraph, message_explorer


@pytest.mark.parametrize("graph", SMALL_GRAPHS, ids=lambda graph: graph.name)
def test_bits_have_the_distribution_of_the_spins(graph: SmallGraph) -> None:
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


def test_page_has_the_first_graph_and_carries_the_noise() -> None:
    graphs = SMALL_GRAPHS[::-1]
    widget = message_explorer(graphs, n_samples=50, generator=make_generator(3))
    assert widget.couplings == list(graphs[0].couplings)
    assert [g["n_sites"] for g in widget.graphs] == [g.n_sites for g in graphs]
    noise = np.frombuffer(widget.noise, np.float32).reshape(50, widget.stride)
    assert widget.stride == 6
    expected = logistic((50, 6), generator=make_generator(3))
    assert np.array_equal(noise[1:], expected[1:].numpy())
    assert noise[0].tolist() == pytest.approx(FIRST_SAMPLE)


def test_a_frustrated_ring_stands_first() -> None:
    ring = SMALL_GRAPHS[0]
    assert len(ring.edges) == ring.n_sites == 4
    assert np.prod(ring.couplings) < 0
    weight, bias = SMALL_GRAPHS[1].to_bits()
    off_diagonal = 4 * 0.333 * (1 - torch.eye(4, dtype=torch.float64))
    assert torch.allclose(weight, off_diagonal)
    assert torch.allclose(bias, torch.full((4,), -6 * 0.333, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "value"),
    [("damping", 1.0), ("graph", 99), ("n_sweeps", 41), ("init", "a")],
)
def test_what_the_page_cannot_show_is_refused(name: str, value: object) -> None:
    widget = message_explorer(n_samples=40, generator=make_generator(0))
    before = getattr(widget, name)
    with pytest.raises(TraitError, match=name):
        setattr(widget, name, value)
    assert getattr(widget, name) == before
    widget.graph, widget.damping = len(SMALL_GRAPHS) - 1, 0.2
