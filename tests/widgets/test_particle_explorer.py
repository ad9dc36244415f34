"""The widget of particles in the plane: its steps against the package's."""

import numpy as np
import pytest
import torch

from ebmtut.energies import conditional_energy
from ebmtut.metrics import PlaneGrid
from ebmtut.noise import NoiseLevels
from ebmtut.samplers.langevin import langevin_move, vector_state
from ebmtut.widgets import particle_explorer
from tests.widgets.pages import ask, node

GRID = PlaneGrid(3.0, 12)
SAMPLES = np.array([[0.0, 0.5], [1.0, -1.0]])
SQUARES = [[-3.0, 0.0, -3.0, 3.0], [0.0, 3.0, -3.0, 3.0]]
X = ((0.1, 0.2), (-1.4, 2.0), (2.6, -2.7), (0.0, 0.0))
NOISE = ((0.3, -1.2), (0.0, 2.0), (-0.5, 0.9), (1.0, 1.0))


QUESTION = """(([{values, n, extent, x, noise, seen, sigma, size}]) => {
  const level = js.surface(values, n, extent);
  return {
    moves: x.map((at, k) => [js.conditionalPlane(level, at, seen, sigma).energy,
      ...js.stepPlane(level, at, seen, sigma, size, noise[k])]),
    masses: js.probabilities(level, n, extent, seen, sigma),
    outside: level([3.5, 0]).energy - level([2.75, 0]).energy,
  };
})(given)"""


def bilinear(x: torch.Tensor, level: torch.Tensor | None = None) -> torch.Tensor:
    """An energy that the page's interpolation gives exactly."""
    return 1 + 2 * x[:, 0] - x[:, 1] + 0.5 * x[:, 0] * x[:, 1]


@node
@pytest.mark.parametrize("sigma", [0.3, 0.9, 1.0])
def test_a_step_of_the_page_is_a_step_of_the_package(sigma, tmp_path):
    task = {"x": X, "noise": NOISE, "seen": [0.7, -0.4], "sigma": sigma, "size": 0.3}
    task |= {"values": bilinear(GRID.points).tolist(), "n": GRID.n}
    found = ask(tmp_path, "langevin_plane", QUESTION, task | {"extent": GRID.extent})
    theirs = torch.tensor(found["moves"], dtype=torch.float64)
    x = torch.tensor(X, dtype=torch.float64)
    above = torch.tensor([[0.7, -0.4]], dtype=torch.float64).expand(len(X), 2)
    levels = torch.zeros(len(X), dtype=torch.long)
    energy = conditional_energy(bilinear, NoiseLevels((sigma,)), above, levels)
    noise = torch.tensor(NOISE, dtype=torch.float64)
    state = vector_state(energy, x)
    moved, _ = langevin_move(energy, state, 0.3, lambda like: noise, adjusted=False)
    assert theirs[:, 0] == pytest.approx(energy(x), rel=1e-10)
    assert theirs[:, 1:] == pytest.approx(moved.x, abs=1e-10)
    # The distribution on the grid, and the wall: a parabola from the last midpoint on.
    points = GRID.points
    every = above[:1].expand(len(points), 2)
    zeros = torch.zeros(len(points), dtype=torch.long)
    given = conditional_energy(bilinear, NoiseLevels((sigma,)), every, zeros)(points)
    assert found["masses"] == pytest.approx((-given).softmax(0).tolist(), rel=1e-9)
    assert found["outside"] == pytest.approx(10 * 0.75**2)


def test_the_page_gets_mean_densities() -> None:
    density = np.random.default_rng(0).uniform(0.1, 1, (2, 8, 8))
    noise = NoiseLevels((0.5, 1.0))
    widget = particle_explorer(np.log(density), noise, 3.0, SAMPLES, SQUARES, n_cells=4)
    energies = np.frombuffer(widget.energies, np.float32).reshape(2, 4, 4)
    means = density.reshape(2, 4, 2, 4, 2).mean(axis=(2, 4))
    means /= means.max(axis=(1, 2), keepdims=True)
    assert np.exp(-energies) == pytest.approx(means, rel=1e-5)
    assert widget.sigmas == [0.5, 1.0]
    assert np.frombuffer(widget.samples, np.float32).tolist() == [0.0, 0.5, 1.0, -1.0]
    assert widget.squares == SQUARES
