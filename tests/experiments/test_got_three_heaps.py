"""The picture of duality: a blue cell wherever sand moves, a band for each."""

import matplotlib.pyplot as plt
import torch

from ebmtut.experiments.got.pictures import draw_duality
from ebmtut.transport import cost_matrix, exact_ot


def test_bands_and_blue_cells_agree() -> None:
    x, y = torch.tensor([[0, 1, 3], [1, 2, 4]]).double()
    p, q = torch.tensor([[5, 3, 2], [3, 3, 4]]).double() / 10
    cost = cost_matrix(x, y)
    solved = exact_ot(p, q, cost)
    figure = draw_duality(x, y, p, q, cost, solved)
    left, right = figure.axes
    assert len(left.lines) == int((solved.plan > 0).sum())
    blue = torch.as_tensor(right.images[0].get_array().data.astype(bool))
    assert bool(blue[solved.plan > 0].all())
    # What is written in a blue cell is zero, and elsewhere not.
    for text in right.texts:
        j, i = (round(value) for value in text.get_position())
        asked, sign, offered = text.get_text().split()
        left_over = float(asked) - float(offered) * (1 if sign == "−" else -1)
        assert (left_over == 0) == bool(blue[i, j])
    plt.close(figure)
