"""Messages of logical factors against max-marginals by listing every state."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.message_passing import factors
from ebmtut.states import enumerate_states

messages = st.floats(-30, 30, allow_nan=False, width=64)
# Ties and zeros are where a largest-two rule goes wrong.
messages = st.one_of(messages, st.sampled_from([0.0, 1.0, -1.0]))


def brute_force(gate, parents, child):
    """Messages to all variables, the child last, by the definition."""
    states = enumerate_states(len(parents))
    output = gate(states.bool(), dim=1).to(states)
    x = torch.cat([states, output[:, None]], dim=1)
    incoming = torch.tensor([*parents, child], dtype=torch.float64)
    score = x @ incoming
    sent = []
    for i in range(x.shape[1]):
        on, off = (score[x[:, i] == value].max() for value in (1, 0))
        sent.append(on - off - incoming[i])
    return torch.stack(sent)


@settings(deadline=None)
@given(messages, messages, messages)
def test_and(first, second, child):
    exact = brute_force(torch.all, [first, second], child)
    t1, t2, b = (torch.tensor(v, dtype=torch.float64) for v in (first, second, child))
    ours = torch.stack(
        [*factors.and_to_parents(t1, t2, b), factors.and_to_child(t1, t2)]
    )
    assert torch.allclose(ours, exact, atol=1e-12)


@settings(deadline=None)
@given(st.lists(messages, min_size=1, max_size=6), messages)
def test_or(parents, child):
    exact = brute_force(torch.any, parents, child)
    t, b = (torch.tensor(v, dtype=torch.float64) for v in (parents, child))
    ours = torch.cat([factors.or_to_parents(t, b), factors.or_to_child(t)[None]])
    assert torch.allclose(ours, exact, atol=1e-12)


def test_observed_variables_are_infinite():
    inf = torch.inf
    # A black pixel: the only input that may be on must be on.
    sent = factors.or_to_parents(torch.tensor([-2.0, -inf]), torch.tensor(inf))
    assert sent[0] == inf
    # A white pixel forbids every input, and through AND what makes it.
    sent = factors.or_to_parents(torch.tensor([3.0, 1.0]), torch.tensor(-inf))
    assert (sent == -inf).all()
    to_first, to_second = factors.and_to_parents(
        torch.tensor(inf), torch.tensor(1.5), torch.tensor(-inf)
    )
    assert to_first == -1.5 and to_second == -inf
    assert factors.and_to_child(torch.tensor(inf), torch.tensor(-inf)) == -inf


def test_what_a_surely_on_input_spoils():
    inf = torch.inf
    parents = torch.tensor([inf, 1.0])
    sent = factors.or_to_parents(parents, torch.tensor(2.0))
    assert sent[0].isnan() and sent[1] == 0
    assert factors.or_to_parents(parents, torch.tensor(-inf)).isnan().all()


@pytest.mark.parametrize("large", [1e4, 1e8])
def test_small_messages_survive_large_ones_in_single_precision(large):
    small = torch.tensor(1e-3)
    to_first, _ = factors.and_to_parents(torch.tensor(0.0), torch.tensor(large), small)
    assert to_first == small
