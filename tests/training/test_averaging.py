"""The running average of weights: against its closed form."""

import pytest
import torch

from ebmtut.training import average_weights


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_average_is_the_recursion_and_forgets_where_it_began(decay):
    start, now = torch.full((3,), 7.0), torch.ones(3, requires_grad=True)
    averaged, want = [start.clone(), torch.zeros(2, 2)], 7.0
    for step in range(40):
        average_weights(averaged, [now, torch.zeros(2, 2)], step, decay)
        kept = min(decay, (step + 1) / (step + 10))
        want = kept * want + (1 - kept) * 1.0
    # Forty roundings of single precision, of numbers up to 7.
    assert float((averaged[0] - want).abs().max()) < 40 * 7 * 2**-23
    assert not averaged[1].any()
    assert not averaged[0].requires_grad
    # At 0.99 what is left of the start is 40! 9! / 49!, below it less.
    assert want == pytest.approx(1, abs=1e-5)
