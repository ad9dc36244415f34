"""The widget of energy discrepancy: its slopes against the package's."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from torch import Tensor

from ebmtut.exact import bernoulli_channel, exact_energy_discrepancy
from ebmtut.losses import energy_discrepancy_loss
from ebmtut.losses.perturbations import Negatives
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.widgets.stills import _discrepancy_slope, draw_still
from tests.widgets.pages import ask, node

P = torch.tensor([28, 10, 2, 8, 4, 6, 12, 30], dtype=torch.float64) / 100
U = torch.tensor([0.3, -1.2, 2.0, 0.1, 0.0, 4.5, -0.4, 1.1], dtype=torch.float64)


QUESTION = """given[2].map(({eps, m, w}) => ({
  slope: js.slope(given[0], given[1], js.channel(eps), m, w),
  run: js.descend(given[1], {eps, m, w}, 200, 2)}))"""


def answers(folder: Path, cases: list[dict[str, float]]) -> list[dict[str, Any]]:
    return ask(folder, "three_bits", QUESTION, U.tolist(), P.tolist(), cases)


class Given:
    """A perturbation whose negatives are known."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def negatives(
        self, x: Tensor, n_negatives: int, *, generator: torch.Generator
    ) -> Negatives:
        return Negatives(self.x)


def expected_slope(eps: float, m: int, w: float) -> Tensor:
    """Slope of the package's loss, averaged over all data and negatives."""
    u = U.clone().requires_grad_()
    states = enumerate_states(3)
    q = bernoulli_channel(3, eps).exp()
    total = torch.zeros((), dtype=torch.float64)
    for negatives in enumerate_states(m, 8).long():
        # The chance of x and these negatives: over all y.
        joint = P * (q * q[:, negatives].prod(dim=1)).sum(dim=1)
        for x in range(8):
            loss = energy_discrepancy_loss(
                lambda z: u[states_to_index(z)],
                states[x : x + 1],
                Given(states[negatives][None]),
                n_negatives=m,
                stabilizer=w,
                generator=make_generator(0),
            )
            total = total + joint[x] * loss
    (slope,) = torch.autograd.grad(total, u)
    return slope


SETTINGS = ((0.1, 1, 0), (0.3, 1, 1), (0.1, 2, 0.1), (0.9, 2, 10))


@node
def test_slopes_of_the_page_are_those_of_the_package(tmp_path: Path) -> None:
    """The page integrates, the package is asked for every tuple of negatives."""
    cases = [{"eps": eps, "m": m, "w": w} for eps, m, w in SETTINGS]
    for case, found in zip(cases, answers(tmp_path, cases), strict=True):
        slope = expected_slope(case["eps"], int(case["m"]), case["w"])
        assert found["slope"] == pytest.approx(slope.tolist(), abs=1e-8), case


def test_slopes_of_the_still_picture_are_those_of_the_package() -> None:
    u = U.clone().requires_grad_()
    ed = exact_energy_discrepancy(u, P.log(), bernoulli_channel(3, 0.2))
    (slope,) = torch.autograd.grad(ed, u)
    cases = [((0.2, 0, 3.0), slope)]
    cases += [(case, expected_slope(*case)) for case in SETTINGS]
    for (eps, m, w), wanted in cases:
        state = {"eps": eps, "n_negatives": m, "stabilizer": w}
        a = (U.min() - U).exp().numpy()
        found = _discrepancy_slope(a, P.numpy(), state)
        assert found == pytest.approx(wanted.numpy(), abs=1e-8), state


def test_the_still_picture_shows_the_setting_of_the_widget() -> None:
    """With one negative training diverges at w = 0 and finds the data at w = 1."""
    state = {"data": P.tolist(), "eps": 0.1, "n_negatives": 1, "step": 200}
    for w, end in ((0.0, "stabiliser 0, which diverges"), (1.0, "e-06 nats, and both")):
        drawn = draw_still("DiscrepancyExplorer", state | {"stabilizer": w})
        assert drawn is not None and end in drawn[1]
        plt.close(drawn[0])


@node
def test_without_end_of_negatives_it_is_the_exact_discrepancy(tmp_path: Path) -> None:
    u = U.clone().requires_grad_()
    log_q = bernoulli_channel(3, 0.2)
    (slope,) = torch.autograd.grad(exact_energy_discrepancy(u, P.log(), log_q), u)
    (found,) = answers(tmp_path, [{"eps": 0.2, "m": 0, "w": 3}])
    assert found["slope"] == pytest.approx(slope.tolist(), abs=1e-12)


@node
def test_what_the_page_promises(tmp_path: Path) -> None:
    """w = 1 finds the data for every M, w = 0 diverges, mirrored noise is the same."""
    cases = [
        {"eps": 0.1, "m": 1, "w": 1},
        {"eps": 0.1, "m": 64, "w": 1},
        {"eps": 0.1, "m": 1, "w": 0},
        {"eps": 0.1, "m": 1, "w": 10},
        {"eps": 0.9, "m": 1, "w": 10},
        {"eps": 0.0, "m": 4, "w": 1},
        {"eps": 0.5, "m": 0, "w": 1},
    ]
    one, many, lost, flat, mirrored, still, best = (
        found["run"] for found in answers(tmp_path, cases)
    )
    assert one["kls"][-1] < 2e-5 and many["kls"][-1] < 1e-7
    assert lost["lost"] and len(lost["us"]) == len(lost["kls"]) <= 201
    assert flat["kls"][-1] > 0.01
    assert mirrored["kls"] == pytest.approx(flat["kls"], rel=1e-9)
    # Slopes to 1e-8, as the first test asks; 200 steps of length 2.
    assert still["kls"][-1] == pytest.approx(still["kls"][0], abs=4e-6)
    # At noise 1/2 it is maximum likelihood.
    u = torch.zeros(8, dtype=torch.float64)
    for _ in range(200):
        u -= 2 * (P - torch.softmax(-u, dim=0))
    assert best["us"][-1] == pytest.approx(u.tolist(), abs=1e-9)
