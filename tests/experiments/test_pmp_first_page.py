"""Tables and pictures of the first page of perturb-and-max-product."""

import math

import matplotlib.pyplot as plt
import pytest
import torch

from ebmtut.experiments.pmp.first_page import (
    Judged,
    divergences_table,
    draw_perturbed,
    judge,
    outcomes_table,
    scores_table,
)


def test_winners_are_counted_beside_their_law():
    table = scores_table(
        torch.tensor([0.0, math.log(3)]), torch.tensor([0, 1, 1, 1]), torch.ones(4)
    )
    assert table.heads == ("", "exact", "4 draws")
    assert table.rows == (
        ("P(k = 1)", "0.25", "0.25"),
        ("P(k = 2)", "0.75", "0.75"),
        ("log Z", "1.386", "1"),
    )


def test_divergences_may_be_of_equal_couplings():
    table = divergences_table([(0.5, 0.5), (0.5, 0.5)], [0.1, 0.2])
    assert table.rows == (
        ("θ = 0.5", "θ = 0.5", "0.1"),
        ("θ = 0.5", "θ = 0.5", "0.2"),
    )


def test_draws_are_judged_by_optimum_lean_and_law():
    states = torch.tensor([0, 1, 2, 3])  # 00, 01, 10, 11
    best = torch.tensor([0, 1, 3, 3])
    wanted = torch.tensor([0.5, 0.25, 0.125, 0.125]).double()
    found = judge(states, best, wanted)
    assert found.optimal == 0.75 and found.magnetisation == 0
    assert judge(states.clamp(max=2), best, wanted).magnetisation == -0.25
    assert found.divergence == pytest.approx(0.25 * math.log(2))


def test_outcomes_are_those_of_the_last_sweeps():
    rows = {
        "optimum": [Judged(1.0, 0.0, 0.25)],
        "zero": [Judged(0.0, 1.0, 2.0), Judged(0.5, 0.5, 0.75)],
        "symmetric": [Judged(0.0, 1.0, 2.0), Judged(1.0, 0.0, 0.25)],
    }
    table = outcomes_table(rows)
    assert table.rows == (
        ("exact optimum", "1", "0", "0.25"),
        ("from N = 0", "0.5", "0.5", "0.75"),
        ("from N = W/2", "1", "0", "0.25"),
    )


def test_perturbed_laws_stand_over_one_law():
    law = torch.full((16,), 1 / 16)
    figure = draw_perturbed(law, {0.5: law, 0.3: law.cumsum(0)})
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["perturb-and-MAP, θ = 0.5", "perturb-and-MAP, θ = 0.3"]
    for ax, marks in zip(figure.axes, (law, law.cumsum(0)), strict=True):
        assert [bar.get_height() for bar in ax.patches] == law.tolist()
        assert ax.lines[0].get_ydata().tolist() == marks.tolist()
    plt.close(figure)
