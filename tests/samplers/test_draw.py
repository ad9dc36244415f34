"""One call from an energy to samples: the distribution, by listing all states."""

import pytest
import torch
from scipy.stats import chi2

from ebmtut.energies import RBM, BoltzmannMachine, Ising, MLPEnergy, PairwiseGraph
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.samplers import draw_samples
from ebmtut.states import states_to_index
from tests.shared import normal

MLP = MLPEnergy(4, 16, 2, generator=make_generator(2))
ENERGIES = {
    "Ising": Ising(0.3 * normal(4, 4)),
    "Boltzmann machine": BoltzmannMachine(normal(4, 4), normal(4)),
    "graph": PairwiseGraph(torch.tensor([[0, 1], [1, 2]]), normal(2), normal(4)),
    "RBM": RBM(normal(2, 4), normal(2), normal(4)),
    "network": MLP,
    "function": lambda x: MLP(x.float()) + 0.5 * x[:, 0].float() * x[:, 3].float(),
}


@pytest.mark.parametrize("method", ["gibbs", "gwg"])
@pytest.mark.parametrize("name", ENERGIES)
def test_the_distribution_is_the_energys(name, method):
    energy, n = ENERGIES[name], 20_000
    sites = {"n_sites": 4} if name == "function" else {}
    x = draw_samples(
        energy, n, n_sweeps=20, method=method, generator=make_generator(1), **sites
    )
    assert x.shape == (n, 4)
    assert x.dtype == (torch.float32 if energy is MLP else torch.float64)
    counts = torch.bincount(states_to_index(x), minlength=16).double()
    expected = n * exact_probabilities(energy, 4).detach().exp()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(float(statistic), 15) > 1e-4


def test_a_start_is_kept_without_sweeps_and_left_alone():
    start = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 1]])
    before = start.clone()
    for energy in ENERGIES.values():
        sites = {"n_sites": 4}
        x = draw_samples(
            energy, 2, n_sweeps=0, start=start, generator=make_generator(0), **sites
        )
        assert torch.equal(x, start) and x.dtype == torch.float32
        draw_samples(
            energy, 2, n_sweeps=3, start=start, generator=make_generator(0), **sites
        )
        assert torch.equal(start, before)
