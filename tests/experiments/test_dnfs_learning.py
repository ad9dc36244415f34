"""Couplings learned with their sampler: against exact moments, and what is refused."""

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs.ising_learning import LearningConfig, learn_couplings
from ebmtut.experiments.pivot import range_of
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root
from ebmtut.results.tables import Table
from ebmtut.states import enumerate_states
from studies.dnfs.couplings_chains import CHAINS
from studies.dnfs.couplings_gflownet import COUPLINGS, GFlowNetCouplingsConfig

SMALL = LearningConfig(
    problems=((3, 0.15),),
    n_sweeps=200,
    n_steps=150,
    learning_rate=2e-2,
    penalty=0.0,
    n_samples=256,
    n_time_steps=12,
)


def test_learned_couplings_have_the_moments_of_the_data():
    """Without a penalty maximum likelihood matches second moments; by enumeration.

    The moments of the average of the last fifty couplings: 256 weighted samples a
    step leave a noise of 1 / sqrt(256 * 50) = 0.009; five of them.
    """
    generator = make_generator(1)
    x = ising_samples(3, 0.15, 2000, n_sweeps=200, generator=generator)
    found = learn_couplings(x, 3, "AIS", SMALL, seed=0).coupling
    assert torch.equal(found, found.T)
    assert not found.diag().any()
    states = enumerate_states(9).float()
    distribution = (-Ising(found)(states).detach()).softmax(0)
    spins, data = 2 * states - 1, 2 * x - 1
    moments = (spins.T * distribution) @ spins - data.T @ data / len(data)
    assert float(moments.abs().max()) < 5 * 0.009


def test_persistent_chains_learn_from_the_rows_own_data():
    result = CHAINS.run("quick", problems=((4, 0.1),), n_steps=300, n_data=1000)
    (cell,) = result.scalars["table"]["PCD"].values()
    assert cell["nlr"][0] > cell["null"][0] + 0.8
    CHAINS.figure(result)


def test_what_the_page_says_of_couplings():
    """Who is ahead by the means of two runs, in which seconds, and by how much."""
    row = get_experiment("dnfs/ising-learning").stored()
    table = row.scalars["table"] | CHAINS.stored(benchmarks_root()).scalars["table"]

    def mean(method, lattice, key="nlr"):
        return sum(table[method][lattice][key]) / 2

    weak = ("10x10, 0.1", "10x10, 0.2", "9x9, -0.1", "9x9, -0.2")
    for lattice in weak:
        ahead = mean("DNFS+DMALA", lattice) - mean("AIS", lattice)
        assert round(ahead, 1) == (0.5 if lattice.endswith("-0.2") else 0.1)
        times = mean("DNFS+DMALA", lattice, "cpu s") / mean("AIS", lattice, "cpu s")
        assert 3.45 < times < 4.35
        better = mean("PCD", lattice) - mean("DNFS+DMALA", lattice)
        assert better > 0.15 if lattice.endswith("0.2") else abs(better) < 0.05
    for method, (low, high) in {
        "DNFS": (0.02, 0.06),
        "DNFS+DMALA": (0.02, 0.06),
        "AIS": (0.02, 0.06),
        "PCD": (0.09, 0.11),
    }.items():
        above = mean(method, "10x10, 0.3") - mean(method, "10x10, 0.3", "null")
        assert low < above < high
    assert round(mean("PCD", "9x9, -0.2"), 2) == 4.63
    assert round(mean("PCD", "10x10, 0.2"), 2) == 4.11
    alone, moved = (
        row.scalars["table"][method]["10x10, 0.2"]["nlr"]
        for method in ("DNFS", "DNFS+DMALA")
    )
    assert min(moved) > max(alone)


def test_the_null_of_the_row_is_no_coupling():
    row = get_experiment("dnfs/ising-learning")
    sizes = {"n_steps": 2, "n_samples": 16, "n_time_steps": 2, "n_data": 100}
    result = row.run("quick", problems=((4, 0.1),), **sizes)
    table = result.scalars["table"]["DNFS"]["4x4, 0.1"]
    truth = 0.1 * lattice_adjacency(4)
    rmse = float(truth.square().mean().sqrt())
    assert table["null"][0] == pytest.approx(-torch.tensor(rmse).log().item())
    assert row.baseline is not None
    assert (
        row.baseline(result).scalars["table"]["DNFS"]["4x4, 0.1"]["nlr"]
        == table["null"]
    )


def test_a_range_shows_no_more_digits_than_are_known():
    assert range_of([0.0017499, 0.0017446]) == "0.00174–0.00175"
    assert range_of([4818.7, 4660.6]) == "4660–4820"
    assert range_of([0.0309566, 0.012725]) == "0.0127–0.0310"
    assert range_of([0.0071562, 0.0040016]) == "0.00400–0.00716"
    # Both ends alike are one number, and a single run's is the table's to print.
    assert range_of([2.546407, 2.546379], decimals=2) == "2.55"
    assert range_of([0.0123456]) == 0.0123456
    assert range_of([-0.5, -1.25], decimals=1) == "−1.2–−0.5"
    # By default a number, so that its column stays one of numbers.
    table = Table({"": ["a"], "x": [range_of([0.0123456])]})
    assert table.rows == (("a", "0.0123"),) and table.numeric == (False, True)


def test_eb_gfn_learns_the_couplings_of_the_rows_own_data():
    """Nine spins: nearer to the truth than J = 0, as the row's methods have to be."""
    sizes = {"n_steps": 150, "n_samples": 500, "n_back": 2}
    result = COUPLINGS.run("quick", problems=((3, 0.2),), hidden=32, training=sizes)
    cell = result.scalars["table"]["EB-GFN"]["3x3, 0.2"]
    assert cell["nlr"][0] > cell["null"][0] + 0.5
    assert 0.2 < cell["accepted"][0] <= 1
    learned = torch.from_numpy(result.arrays["coupling/EB-GFN/3x3, 0.2"])
    assert torch.equal(learned, learned.T)
    assert not learned.diag().any()
    COUPLINGS.figure(result)
    with pytest.raises(InputError, match="penalty"):
        GFlowNetCouplingsConfig(penalty=-1.0)
