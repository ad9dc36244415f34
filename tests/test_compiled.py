"""Work is spread over torch's threads where there is enough of it."""

import pytest
import torch

from ebmtut._compiled import in_threads


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("n_rows", "n_turns", "n_slices"),
    [(7, 10, 1), (7, 10**9, 3), (2, 10**9, 2), (1, 10**9, 1), (0, 0, 1)],
)
def test_every_row_is_done_once(n_rows, n_turns, n_slices):
    done = []
    in_threads(done.append, n_rows, n_turns)
    assert len(done) == n_slices
    assert sorted(i for part in done for i in range(n_rows)[part]) == [*range(n_rows)]


def test_what_a_thread_raises_is_raised():
    def fails(rows):
        raise OverflowError(rows.start)

    with pytest.raises(OverflowError):
        in_threads(fails, 7, 10**9)
