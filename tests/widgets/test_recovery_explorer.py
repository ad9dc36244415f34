"""The widgets of recovery likelihood and of the collapse, against the package."""

import math

import pytest
import torch

from ebmtut.energies import conditional_energy
from ebmtut.noise import NoiseLevels
from ebmtut.samplers.langevin import langevin_move, vector_state
from tests.widgets.pages import ask, node

MODES = ((0.6, -2.0, 0.35), (0.4, 2.0, 0.35))
X = (-3.0, -2.1, -0.4, 0.0, 0.7, 2.3)
NOISE = (0.3, -1.2, 0.0, 2.0, -0.5, 0.9)


QUESTION = """(([x, noise, seen, sigma, size]) => x.map((at, k) => [
  js.mixture(at).log, js.conditional(at, seen, sigma).energy,
  js.step(at, seen, sigma, size, noise[k])]))(given)"""


def ours(x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
    parts = [
        p / w * torch.exp(-0.5 * ((x[:, 0] - m) / w) ** 2) / math.sqrt(2 * math.pi)
        for p, m, w in MODES
    ]
    return -torch.stack(parts).sum(0).log()


@node
@pytest.mark.parametrize("sigma", [0.1, 0.5, 0.98, 1.0])
def test_a_step_of_the_page_is_a_step_of_the_package(sigma, tmp_path):
    found = ask(tmp_path, "langevin_line", QUESTION, X, NOISE, 0.7, sigma, 0.3)
    theirs = torch.tensor(found, dtype=torch.float64)
    x = torch.tensor(X, dtype=torch.float64)[:, None]
    level = torch.zeros(len(X), dtype=torch.long)
    above = torch.full_like(x, 0.7)
    energy = conditional_energy(ours, NoiseLevels((sigma,)), above, level)
    noise = torch.tensor(NOISE, dtype=torch.float64)[:, None]
    state = vector_state(energy, x)
    moved, _ = langevin_move(energy, state, 0.3, lambda like: noise, adjusted=False)
    assert theirs[:, 0] == pytest.approx(-ours(x, level), abs=1e-10)
    assert theirs[:, 1] == pytest.approx(energy(x), rel=1e-10)
    assert theirs[:, 2] == pytest.approx(moved.x[:, 0], abs=1e-10)


@node
def test_training_converges_below_the_unstable_point_and_runs_away_above(tmp_path):
    question = """{ unstable: js.UNSTABLE,
      ends: [[2, false], [6.5, false], [7.5, false], [7.5, true]].map(
        ([first, clipped]) => js.learned(first, 1, clipped).at(-1)) }"""
    found = ask(tmp_path, "collapse_explorer frame langevin_line", question)
    # A chain's variance delta^2 / (1 - (1 - c)^2), c = delta^2 theta / 2, is 1 there.
    delta = 0.7
    stable, unstable = (
        2 * (1 + sign * math.sqrt(1 - delta**2)) / delta**2 for sign in (-1, 1)
    )
    assert found["unstable"] == pytest.approx(unstable, rel=1e-12)
    low, middle, collapsed, clipped = found["ends"]
    # Batches of 200: theta fluctuates by a tenth or so about the stable point.
    assert low == pytest.approx(stable, abs=0.3)
    assert middle == pytest.approx(stable, abs=0.3)
    assert collapsed > 1000
    assert clipped == pytest.approx(stable, abs=0.3)
