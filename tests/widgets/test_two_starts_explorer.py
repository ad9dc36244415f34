"""The widget of two initialisations: its messages against the package's."""

from pathlib import Path

import pytest
import torch

from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.states import states_to_index
from tests.widgets.pages import ask, node

SWEEPS = 20


QUESTION = """(([theta]) => {
  const model = js.fourSpins(theta);
  const noise = js.mirroredNoise(100, 3);
  const paths = ["zero", "symmetric"].map((start) =>
    js.sweepPath(model, noise, 20, start).map((states) => [...states]));
  return { noise: [...noise], paths,
    best: [...js.optima(model, noise)], wanted: js.exactByOnes(0.5),
    ones: js.byOnes([0, 1, 2, 3, 7, 15, 15, 8]),
    apart: js.divergence([0.5, 0.5], [0.25, 0.75]) };
})(given)"""


def toy(theta: float) -> BoltzmannMachine:
    coupling = theta / 2 * (1 - torch.eye(4, dtype=torch.float64))
    return BoltzmannMachine.from_ising(Ising(coupling))


@node
@pytest.mark.parametrize("theta", [0.0, 0.331, 0.9])
def test_messages_of_the_page_are_those_of_the_package(theta, tmp_path):
    page = ask(tmp_path, "four_spins max_product", QUESTION, theta)
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


@node
def test_summaries_of_the_page(tmp_path: Path) -> None:
    page = ask(tmp_path, "four_spins max_product", QUESTION, 0.5)
    assert page["ones"] == [1 / 8, 3 / 8, 1 / 8, 1 / 8, 2 / 8]
    assert page["apart"] == pytest.approx(0.5 * torch.tensor(4 / 3).log().item())
    distribution = exact_probabilities(toy(0.5), 4).exp()
    ones = torch.tensor([bin(k).count("1") for k in range(16)])
    want = torch.zeros(5, dtype=torch.float64).index_add(0, ones, distribution)
    assert page["wanted"] == pytest.approx(want.tolist(), abs=1e-12)
