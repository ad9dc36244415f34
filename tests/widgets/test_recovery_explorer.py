"""The widget of recovery likelihood: its chains against the package's."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from ipywidgets.embed import dependency_state, embed_data

import ebmtut.widgets
from ebmtut.checks import InputError
from ebmtut.energies import conditional_energy
from ebmtut.noise import NoiseLevels
from ebmtut.samplers.langevin import langevin_move, vector_state
from ebmtut.widgets import recovery_explorer

FOLDER = Path(ebmtut.widgets.__file__).parent
MODES = ((0.6, -2.0, 0.35), (0.4, 2.0, 0.35))
X = (-3.0, -2.1, -0.4, 0.0, 0.7, 2.3)
NOISE = (0.3, -1.2, 0.0, 2.0, -0.5, 0.9)

ASK = """
import(process.argv[1]).then((js) => {
  const {x, noise, seen, sigma, size} = JSON.parse(process.argv[2]);
  console.log(JSON.stringify(x.map((at, k) => [
    js.mixture(at).log, js.conditional(at, seen, sigma).energy,
    js.step(at, seen, sigma, size, noise[k])])));
});
"""


def ours(x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
    """The energy of the mixture, normalised."""
    parts = [
        p / w * torch.exp(-0.5 * ((x[:, 0] - m) / w) ** 2) / math.sqrt(2 * math.pi)
        for p, m, w in MODES
    ]
    return -torch.stack(parts).sum(0).log()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("sigma", [0.1, 0.5, 0.98, 1.0])
def test_a_step_of_the_page_is_a_step_of_the_package(
    sigma: float, tmp_path: Path
) -> None:
    module = tmp_path / "langevin_line.mjs"
    module.write_text((FOLDER / "langevin_line.js").read_text("utf-8"), "utf-8")
    task = {"x": X, "noise": NOISE, "seen": 0.7, "sigma": sigma, "size": 0.3}
    answer = subprocess.run(
        ["node", "-e", ASK, str(module), json.dumps(task)],
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = torch.tensor(json.loads(answer.stdout), dtype=torch.float64)

    x = torch.tensor(X, dtype=torch.float64)[:, None]
    level = torch.zeros(len(X), dtype=torch.long)
    above = torch.full_like(x, 0.7)
    energy = conditional_energy(ours, NoiseLevels((sigma,)), above, level)
    noise = torch.tensor(NOISE, dtype=torch.float64)[:, None]
    moved, _ = langevin_move(
        energy, vector_state(energy, x), 0.3, lambda like: noise, adjusted=False
    )
    assert theirs[:, 0] == pytest.approx(-ours(x, level), abs=1e-10)
    assert theirs[:, 1] == pytest.approx(energy(x), rel=1e-10)
    assert theirs[:, 2] == pytest.approx(moved.x[:, 0], abs=1e-10)


def test_state_fits_into_a_page() -> None:
    widget = recovery_explorer(0.4)
    assert widget.sigma == 0.4
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 60_000


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_refuses_noise_outside(sigma: float) -> None:
    with pytest.raises(InputError, match=r"^sigma must be a number in \[0.15, 0.98\]"):
        recovery_explorer(sigma)
