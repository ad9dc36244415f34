"""Launches that are repeated: one after another, or recorded once and replayed."""

import pytest
import torch

from ebmtut import _gpu
from ebmtut.transport import gibbs_ot_iteration
from ebmtut.transport.gibbs_ot import PlainChain
from tests.pretended_graphs import pretended_graphs
from tests.shared import normal

CUDA = torch.device("cuda")  # the pretended GPU has another name


@pytest.mark.parametrize(("n", "n_replays"), [(3, []), (4, [3]), (40, [39])])
def test_what_is_replayed_is_done_as_often(n, n_replays, monkeypatch):
    """And neither within another recording, nor on the processor, is one made."""
    with pretended_graphs() as (device, graphs):
        x = torch.zeros(3, device=device)
        before = torch.cuda.current_stream()
        _gpu.repeat(lambda: x.add_(1), n, CUDA)
        assert torch.cuda.current_stream() is before
        assert [graph.n_replays for graph in graphs] == n_replays
        assert (x.cpu() == n).all()
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        _gpu.repeat(lambda: x.add_(1), n, CUDA)
        assert len(graphs) == len(n_replays) and (x.cpu() == 2 * n).all()
        _gpu.repeat(lambda: x.add_(1), n, torch.device("cpu"))
        assert len(graphs) == len(n_replays) and (x.cpu() == 3 * n).all()


def test_what_cannot_be_recorded_leaves_the_stream_as_it_was():
    def launches():
        if x.sum().item() > 3:
            raise AssertionError

    with pretended_graphs() as (device, _):
        x = torch.zeros(3, device=device)
        before = torch.cuda.current_stream()
        with pytest.raises(RuntimeError, match="not permitted when stream captures"):
            _gpu.repeat(launches, 16, CUDA)
        assert torch.cuda.current_stream() is before


def test_a_recorded_iteration_of_gibbs_ot_is_the_plain_one():
    """To the bit, also after other masses; the first call is not recorded."""
    with pretended_graphs() as (device, graphs):
        p, q = (normal(2, n, seed=n).softmax(1).to(device) for n in (5, 7))
        cost, other = normal(5, 7).abs().to(device), p.roll(1, 1)
        temperatures = normal(6, 2, seed=1).abs().to(device)
        theta = normal(6, 24, seed=2).abs().to(device)
        found = []
        for iteration in (gibbs_ot_iteration, _gpu.Recorded(gibbs_ot_iteration)):
            chain = PlainChain(p, q, cost, torch.zeros_like(p), iteration)
            chain.advance(temperatures, theta)
            held = chain.U
            chain.set_p(other)
            chain.advance(temperatures, theta)
            found.append([x.cpu() for x in (held, chain.g, chain.h, chain.U, chain.L)])
        assert [graph.n_replays for graph in graphs] == [11]
    assert all(map(torch.equal, *found))
