"""The page of distant modes: how many samples a loss needs, held against all states."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.func import jacfwd, jacrev

from ebmtut import losses
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.experiments import comparison
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from studies.comparison import modes

PAGE = Path(__file__).parents[2] / "book/modes.ipynb"
IMPORTS = "modes-imports"
LEVELS, GRADIENTS, FACTORS = "losses-levels", "losses-gradients", "losses-factors"


@pytest.fixture(scope="module")
def cells():
    notebook = json.loads(PAGE.read_text())
    return {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}


def names_after(cells, *ids, **names):
    for which in ids:
        exec(cells[which], names)
    return names


class AllStates:
    """An Ising model of n spins with all its parameters, as sums over 2^n states."""

    def __init__(self, n, strength, h):
        self.n, self.bits = n, enumerate_states(n).double()
        spins = 2 * self.bits - 1
        i, j = torch.triu_indices(n, n, 1)
        self.features = torch.cat([spins[:, i] * spins[:, j], spins], 1)
        pairs = torch.full((len(i),), strength / n).double()
        self.theta = torch.cat([pairs, torch.full((n,), h).double()])
        self.up = spins.sum(1) > 0
        apart = (self.bits[:, None] != self.bits).sum(2)
        self.apart, self.flipped = apart, (apart == 1).nonzero()[:, 1].view(-1, n)
        self.p = self.log_p(self.theta).exp()

    def log_p(self, theta):
        return (self.features @ theta).log_softmax(0)

    def chain(self, energy, n_sweeps):
        """Transition matrix of Gibbs updates of random spins."""
        jump = (energy[:, None] - energy).sigmoid() * (self.apart == 1) / self.n
        step = jump + (1 - jump.sum(1)).diag()
        return torch.linalg.matrix_power(step, n_sweeps * self.n)

    def copies(self, energy, rate, many=False):
        apart, chance = self.apart.double(), torch.tensor(rate, dtype=torch.double)
        flip = chance**apart * (1 - chance) ** (self.n - apart)
        if many:
            return energy + flip @ (flip @ (-energy).exp()).log()
        # Two copies of the same perturbed state.
        ratio = (energy[:, None] - energy).exp()
        pair = ((1 + ratio[:, :, None] + ratio[:, None]) / 2).log()
        both = torch.einsum("ya,yb,xab->xy", flip, flip, pair)
        return (flip * both).sum(1)

    def given_mode(self, energy):
        same = self.up[:, None] == self.up
        return energy + (-energy).where(same, -torch.inf).logsumexp(1)

    def gradient(self, name, theta):
        """Gradient of a loss at every state."""
        if name.startswith("CD"):
            ends = self.chain(-self.features @ theta, int(name.split()[1]))
            return ends @ self.features - self.features
        return jacfwd(lambda t: self.loss(name, -self.features @ t))(theta)

    def loss(self, name, energy):
        gain = energy[:, None] - energy[self.flipped]
        match name:
            case "exact":
                return energy + (-energy).logsumexp(0)
            case "given its mode":
                return self.given_mode(energy)
            case "pseudo-likelihood":
                return -(-gain).sigmoid().log().sum(1)
            case "ratio matching":
                return gain.sigmoid().square().sum(1)
            case "ED, one flip in ten":
                return self.copies(energy, 0.1)
            case "ED, four in ten":
                return self.copies(energy, 0.4)
            case "ED, four in ten, many copies":
                return self.copies(energy, 0.4, many=True)
        raise ValueError(name)

    def samples_needed(self, name):
        theta = self.theta
        g = jacrev(lambda t: self.log_p(t).exp()[self.up].sum())(theta)
        H = jacfwd(lambda t: self.p @ self.gradient(name, t))(theta)
        v = torch.linalg.solve(H.T, g)
        return float(self.p @ (self.gradient(name, theta) @ v) ** 2)


def test_thirteen_terms_and_two_parameters_are_enough(cells):
    n, strength, h = 5, 2.0, 0.1
    names = names_after(cells, IMPORTS, LEVELS, GRADIENTS, n_bits=n)
    states = AllStates(n, strength, h)
    theta = torch.tensor([strength / n, h]).double()
    gradients = names["gradients"] | {"exact": names["exact"]}
    assert len(gradients) == 9
    ones = states.bits.sum(1).long()
    found = {}
    for name, psi in gradients.items():
        # The gradient at each state, in the direction of the two parameters.
        by_state = states.gradient(name, states.theta)
        pairs = n * (n - 1) // 2
        both = torch.stack([by_state[:, :pairs].sum(1), by_state[:, pairs:].sum(1)], 1)
        torch.testing.assert_close(psi(theta)[ones], both, atol=1e-8, rtol=1e-8)
        found[name] = float(names["samples_needed"](psi, theta))
        assert found[name] == pytest.approx(states.samples_needed(name), rel=1e-6)
    # No loss beats the likelihood, and these differ from it.
    assert min(found, key=found.get) == "exact"
    assert found["pseudo-likelihood"] > 1.1 * found["exact"]


def test_the_losses_of_the_page_are_those_of_the_package():
    states = AllStates(5, 2.0, 0.1)
    coupling = torch.full((5, 5), 0.2).double().fill_diagonal_(0)
    model = BoltzmannMachine.from_ising(Ising(coupling, torch.full((5,), 0.1).double()))
    energy = -states.features @ states.theta
    for loss, name in (
        (losses.pseudo_likelihood_loss, "pseudo-likelihood"),
        (losses.ratio_matching_loss, "ratio matching"),
    ):
        expected = states.p @ states.loss(name, energy)
        x = states.bits
        each = torch.stack([loss(model, row[None]) for row in x])
        torch.testing.assert_close(states.p @ each.double(), expected)


def test_the_numbers_that_the_page_tells(cells):
    known = {"n_bits": 12, "field": torch.full((12,), 0.05)}
    names = names_after(cells, IMPORTS, LEVELS, GRADIENTS, FACTORS, **known)
    strengths, factors = names["strengths"].tolist(), names["factors"]
    strong, end = strengths.index(2.5), strengths.index(3.0)
    at = {name: round(of[strong], 1) for name, of in factors.items()}
    assert round(at["pseudo-likelihood"]) == 169 and round(1000 / 169) == 6
    assert round(at["CD, 1 sweep"]) == 154 and round(at["ratio matching"]) == 55
    assert round(at["ED, one flip in ten"]) == 88 and round(at["ED, four in ten"]) == 39
    assert at["ED, four in ten, many copies"] == 1.0
    assert at["CD, 100 sweeps"] == 2.7 and round(factors["CD, 100 sweeps"][end]) == 79
    grey = factors.pop("given its mode")
    assert grey[end] == pytest.approx(factors["pseudo-likelihood"][end], rel=0.02)
    # Two copies with many flips are the exception with weak couplings.
    factors.pop("ED, four in ten")
    weak = [of[k] for of in factors.values() for k in range(9)]
    assert strengths[8] == 1.0 and 1 - 1e-6 < min(weak) < max(weak) < 1.4


def test_the_study_trains_the_model_of_the_page():
    stored = comparison.load(["modes-of-12-spins"])["modes-of-12-spins"]
    page = AllStates(12, modes.STRENGTH, modes.FIELD)
    exact = float(page.p[page.up].sum())
    assert stored.scalars["exact"] == pytest.approx(exact, abs=1e-5)  # in float32
    assert stored.config["strength"] == modes.STRENGTH
    for runs in stored.arrays.values():
        assert runs.shape == (10, len(modes.SIZES), 2)
        assert runs[0, :, 0].tolist() == [*modes.SIZES]


def test_errors_of_trained_models(cells):
    stored = comparison.load(["modes-of-12-spins"])["modes-of-12-spins"]
    exact = stored.scalars["exact"]
    off = {name: runs[:, :, 1] - exact for name, runs in stored.arrays.items()}
    rms = {name: (errors**2).mean(0) ** 0.5 for name, errors in off.items()}
    known = {"n_bits": 12, "field": torch.full((12,), 0.05)}
    names = names_after(cells, IMPORTS, LEVELS, GRADIENTS, **known)
    theta = torch.tensor([2.5 / 12, 0.05]).double()
    psi = {**names["gradients"], "exact likelihood": names["exact"]}
    sizes = np.array(modes.SIZES)
    formula = {
        name: (float(names["samples_needed"](psi[name], theta)) / sizes) ** 0.5
        for name in {*psi} & {*rms}
    }
    over = {name: rms[name] / formula[name] for name in formula}
    # Ten data sets: the error of an error is a fifth or so, and marks within two.
    assert 0.6 < over["exact likelihood"].min() < over["exact likelihood"].max() < 1.4
    local = over["pseudo-likelihood"]
    assert round(local[0]) == 2 and 0.6 < local[1:].min() < local[1:].max() < 1.4
    assert f"{rms['pseudo-likelihood'][0]:.2f}" == "0.33"
    assert f"{exact - 0.5:.2f}" == "0.26"
    assert 0.6 < over["CD, 1 sweep"].min() < over["CD, 1 sweep"].max() < 1.4
    assert over["ratio matching"].min() > 2.5
    extreme = abs(stored.arrays["ratio matching"][:, 0, 1] - 0.5) > 0.48
    assert extreme.sum() == 9
    assert (rms["pseudo-likelihood"] < rms["ratio matching"]).all()
    last = {name: f"{errors[-1]:.2f}" for name, errors in rms.items()}
    assert last["ED, four in ten"] == "0.02" and last["ED, one flip in ten"] == "0.06"
    assert last["CD, 1 sweep"] == last["PCD"] == "0.04"
    assert over["ED, four in ten"][:3].max() < 0.8
    assert rms["PCD, ten times faster"].min() > 0.3


def test_the_likelihood_matches_the_means_of_the_data():
    generator = make_generator(1)
    data = torch.rand(500, 12, generator=generator).round()
    data[:, 1] = data[:, 0]
    data[:50, 1] = 1 - data[:50, 0]
    model = modes.trained("exact likelihood", data, generator)
    q = (-model(modes.STATES).detach()).softmax(0)
    moments = modes.STATES.T * q @ modes.STATES
    torch.testing.assert_close(moments, data.T @ data / 500, atol=2e-3, rtol=0)
