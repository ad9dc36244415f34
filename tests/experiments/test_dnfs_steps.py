"""What steps of time cost, on two spins whose flow is known."""

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.experiments.dnfs.lattice_tables import sample_table
from ebmtut.experiments.dnfs.step_errors import quadrature_table, step_error_table
from ebmtut.flows import Flow, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator

STRENGTH = 1.0
PAIR = AnnealingPath(lambda x: -STRENGTH * (2 * x - 1).prod(1), 2)


class TwoSpins(torch.nn.Module):
    n_sites = n_states = 2

    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x, t):
        s = 2 * x - 1
        return -self.strength * s.prod(1, keepdim=True).expand_as(x)


def columns_of(table):
    """Its numbers as they are printed, by the heads of their columns."""
    columns = zip(table.heads, zip(*table.rows, strict=True), strict=True)
    return {
        head: [float(cell.replace("−", "-")) for cell in column]
        for head, column in list(columns)[1:]
    }


def flow(strength=STRENGTH):
    return Flow(PAIR, TwoSpins(strength))


def test_the_left_sum_is_biased_as_predicted_and_the_others_of_second_order():
    table = columns_of(quadrature_table(flow(), (8, 32)))
    left, predicted = table["left sum"], table["predicted"]
    assert left == pytest.approx(predicted, rel=0.06)
    assert abs(left[1]) > 20 * abs(table["trapezoid"][1])
    for head in ("trapezoid", "midpoint"):
        first, second = table[head]
        assert first / second == pytest.approx(16, rel=0.1)
    # The midpoint errs by half as much, on the other side.
    assert table["midpoint"][0] == pytest.approx(-table["trapezoid"][0] / 2, rel=0.1)


def test_an_imperfect_flow_has_no_such_table():
    with pytest.raises(InputError, match="flow must be perfect, got one whose xi span"):
        quadrature_table(flow(0.5), (8,))


def test_a_perfect_flow_errs_by_its_steps_alone():
    table = step_error_table(flow(), (4, 64), n=100, generator=make_generator(0))
    assert [row[0] for row in table.rows] == ["Euler"] * 2 + ["tau-leaping"] * 2 + [
        "exact"
    ]
    found = columns_of(table)
    assert min(found["evaluations"]) >= 2
    by_steps = found["by the steps"]
    assert by_steps == pytest.approx(found["in all"], abs=1e-4)
    for few, many in (by_steps[:2], by_steps[2:4]):
        assert few > 8 * many > 0.001
    assert by_steps[4] == 0


def test_another_flow_misses_the_target_without_any_step():
    table = columns_of(
        step_error_table(flow(0.5), (64,), n=100, generator=make_generator(0))
    )
    assert table["by the steps"][-1] == 0
    assert table["in all"][-1] > 0.1


def test_the_bound_is_the_estimate_of_equal_weights_and_below_it_of_others():
    def columns(strength):
        run = simulate(flow(strength), 500, 64, generator=make_generator(0))
        return columns_of(sample_table({"flow": (run.x, run.log_weights)}, PAIR))

    equal, other = columns(STRENGTH), columns(0.5)
    assert equal["its bound"][0] == pytest.approx(equal["log Z"][0], abs=1e-4)
    assert other["its bound"][0] < other["log Z"][0] - 0.01
    assert other["its bound"][1] == other["log Z"][1] == equal["log Z"][1]
