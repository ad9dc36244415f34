"""The widgets of two modes and of two spins: their numbers against the package's."""

import numpy as np
import pytest
import torch

from ebmtut.paths import AnnealingPath
from ebmtut.samplers.langevin import langevin_move, vector_state
from ebmtut.states import enumerate_states
from ebmtut.widgets import two_spins_explorer
from tests.widgets.pages import ask, node

X = ((0.3, -1.2), (2.0, 1.7), (-1.5, -1.8), (0.0, 0.0))
NOISE = ((0.3, -1.2), (0.0, 2.0), (-0.5, 0.9), (1.0, 1.0))
UNIFORMS = (0.003, 0.2, 0.5, 0.83, 0.999)
OTHER = 1.3


QUESTION = """(([{x, noise, uniforms, other, J, h, size}]) => {
  const {sum, product} = js.onGrid(J, h, 80);
  return {
    energies: x.map((at) => js.energyOf(at, J, h)),
    moves: x.map((at, k) => js.langevinStep(at, J, h, size, noise[k])),
    given: uniforms.map((u) => js.conditionalSample(other, J, h, u)),
    sweep: js.gibbsSweep([9, other], J, h, uniforms),
    exact: [sum, product], means: js.means(x),
  };
})(given)"""


def energy(x: torch.Tensor, coupling: float, tilt: float) -> torch.Tensor:
    quartic = (x**4).sum(1) / 4
    return quartic - coupling * x[:, 0] * x[:, 1] - tilt * x.sum(1)


@node
@pytest.mark.parametrize(("coupling", "tilt"), [(0.0, 0.0), (2.5, 0.22), (4.0, -0.5)])
def test_the_page_samples_this_energy(coupling, tilt, tmp_path):
    task = {"x": X, "noise": NOISE, "uniforms": UNIFORMS, "other": OTHER}
    task |= {"J": coupling, "h": tilt, "size": 0.3}
    page = ask(tmp_path, "two_modes", QUESTION, task)
    x = torch.tensor(X, dtype=torch.float64)

    def here(x: torch.Tensor) -> torch.Tensor:
        return energy(x, coupling, tilt)

    noise = torch.tensor(NOISE, dtype=torch.float64)
    state = vector_state(here, x)
    moved, _ = langevin_move(here, state, 0.3, lambda like: noise, adjusted=False)
    assert page["energies"] == pytest.approx(here(x).tolist(), rel=1e-12, abs=1e-12)
    assert page["moves"] == [pytest.approx(row) for row in moved.x.tolist()]
    # The distribution function of a line of 40,000 cells takes each sample back to
    # its uniform number; within one of the page's cells it is off by less than the
    # cell's mass.
    line = np.linspace(-4, 4, 40_001)
    density = np.exp((coupling * OTHER + tilt) * line - line**4 / 4)
    steps = (density[1:] + density[:-1]) / 2
    cumulated = np.concatenate([[0], steps.cumsum()]) / steps.sum()
    most = np.diff(np.interp(np.linspace(-4, 4, 162), line, cumulated)).max()
    found = np.interp(page["given"], line, cumulated)
    assert np.abs(found - UNIFORMS).max() < most
    assert page["sweep"][0] == page["given"][0]
    # Means by a grid of other cells; the midpoint rule's error on a smooth density
    # that vanishes at the border is far below this tolerance.
    axis = (np.arange(801) + 0.5) * 8 / 801 - 4
    points = torch.tensor(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    p = (-here(points)).softmax(0)
    wanted = [float(p @ points.sum(1)), float(p @ points.prod(1))]
    assert page["exact"] == pytest.approx(wanted, abs=1e-6)
    assert page["means"]["sum"] == pytest.approx(float(x.sum(1).mean()))
    assert page["means"]["product"] == pytest.approx(float(x.prod(1).mean()))


@node
@pytest.mark.parametrize(("coupling", "t"), [(1.0, 0.0), (1.0, 0.7), (2.5, 1.0)])
def test_probabilities_and_their_change_are_those_of_the_path(coupling, t, tmp_path):
    page = ask(tmp_path, "two_spins", "js.balance(...given)", coupling, t, 0.3)
    path = AnnealingPath(lambda x: -coupling * (2 * x - 1).prod(1), 2)
    states = enumerate_states(2).double()
    p = path.log_density(states, t).softmax(0)
    agree = states[:, 0] == states[:, 1]
    assert page["agree"] == pytest.approx(float(p[agree][0]))
    assert page["disagree"] == pytest.approx(float(p[~agree][0]))
    rise = path.time_derivative(states)
    change = p * (rise - p @ rise)
    assert page["change"] == pytest.approx(float(change[agree][0]))
    assert page["inflow"] == pytest.approx(0.6 * page["disagree"])
    # The rate at which the right side is the left one.
    needed = page["needed"]
    assert 2 * needed * page["disagree"] == pytest.approx(page["change"])


def test_it_begins_with_a_rate_that_is_too_high() -> None:
    widget = two_spins_explorer(2.0)
    assert (widget.coupling, widget.time, widget.rate) == (2.0, 0.0, 2.0)
