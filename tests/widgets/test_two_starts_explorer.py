"""The widget of two initialisations: its messages against the package's."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from ipywidgets.embed import dependency_state, embed_data

import ebmtut.widgets
from ebmtut.checks import InputError
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.states import states_to_index
from ebmtut.widgets import two_starts_explorer

FOLDER = Path(ebmtut.widgets.__file__).parent
SWEEPS = 20

ASK = """
import(process.argv[1]).then((js) => {
  const model = js.fourSpins(Number(process.argv[2]));
  const noise = js.mirroredNoise(100, 3);
  const paths = ["zero", "symmetric"].map((start) =>
    js.sweepPath(model, noise, 20, start).map((states) => [...states]));
  console.log(JSON.stringify({ noise: [...noise], paths,
    best: [...js.optima(model, noise)], wanted: js.exactByOnes(0.5),
    ones: js.byOnes([0, 1, 2, 3, 7, 15, 15, 8]),
    apart: js.divergence([0.5, 0.5], [0.25, 0.75]) }));
});
"""


def toy(theta: float) -> BoltzmannMachine:
    coupling = theta / 2 * (1 - torch.eye(4, dtype=torch.float64))
    return BoltzmannMachine.from_ising(Ising(coupling))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("theta", [0.0, 0.331, 0.9])
def test_messages_of_the_page_are_those_of_the_package(
    theta: float, tmp_path: Path
) -> None:
    for name in ("four_spins", "max_product"):
        text = (FOLDER / f"{name}.js").read_text("utf-8")
        text = text.replace("./max_product.js", "./max_product.mjs")
        (tmp_path / f"{name}.mjs").write_text(text, "utf-8")
    module = tmp_path / "four_spins.mjs"
    answer = subprocess.run(
        ["node", "-e", ASK, str(module), str(theta)],
        check=True,
        capture_output=True,
        text=True,
    )
    page = json.loads(answer.stdout)
    noise = torch.tensor(page["noise"], dtype=torch.float64).view(-1, 4)
    assert torch.equal(noise[::2], -noise[1::2])
    # Logistic: mean 0 by the mirror, variance pi^2 / 3; five standard errors of 400
    # squares whose standard deviation is pi^2 / 3 times sqrt(16 / 5).
    spread = torch.pi**2 / 3
    assert abs(float(noise.square().mean()) - spread) < 5 * spread * (3.2 / 400) ** 0.5
    model = toy(theta)
    for path, init in zip(page["paths"], ("zero", "symmetric"), strict=True):
        for t in (0, 1, 5, SWEEPS):
            ours = max_product(model, model.bias + noise, t, init=init)
            clear = (ours.beliefs.abs() > 1e-9).all(dim=1)
            found = torch.tensor(path[t])
            assert clear.any()
            assert torch.equal(found[clear], states_to_index(ours.x)[clear])
    best = states_to_index(exact_perturb_and_map(model, 4, noise))
    assert page["best"] == best.tolist()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_summaries_of_the_page(tmp_path: Path) -> None:
    for name in ("four_spins", "max_product"):
        text = (FOLDER / f"{name}.js").read_text("utf-8")
        text = text.replace("./max_product.js", "./max_product.mjs")
        (tmp_path / f"{name}.mjs").write_text(text, "utf-8")
    answer = subprocess.run(
        ["node", "-e", ASK, str(tmp_path / "four_spins.mjs"), "0.5"],
        check=True,
        capture_output=True,
        text=True,
    )
    page = json.loads(answer.stdout)
    assert page["ones"] == [1 / 8, 3 / 8, 1 / 8, 1 / 8, 2 / 8]
    assert page["apart"] == pytest.approx(0.5 * torch.tensor(4 / 3).log().item())
    distribution = exact_probabilities(toy(0.5), 4).exp()
    ones = torch.tensor([bin(k).count("1") for k in range(16)])
    want = torch.zeros(5, dtype=torch.float64).index_add(0, ones, distribution)
    assert page["wanted"] == pytest.approx(want.tolist(), abs=1e-12)


def test_state_fits_into_a_page() -> None:
    widget = two_starts_explorer(0.4)
    assert widget.theta == 0.4
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 60_000


@pytest.mark.parametrize("theta", [-0.1, 1.1])
def test_refuses_a_coupling_outside(theta: float) -> None:
    with pytest.raises(InputError, match=r"^theta must be a number in \[0, 1\]"):
        two_starts_explorer(theta)
