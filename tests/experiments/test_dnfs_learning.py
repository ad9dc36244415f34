"""Couplings learned with their sampler: against exact moments, and what is refused."""

from dataclasses import replace

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs.coupling_learner import LearningConfig, learn_couplings
from ebmtut.experiments.dnfs.couplings_chains import CHAINS
from ebmtut.experiments.dnfs.couplings_gflownet import (
    COUPLINGS,
    GFlowNetCouplingsConfig,
)
from ebmtut.experiments.dnfs.ebm_training import score_table
from ebmtut.experiments.dnfs.ising_learning import (
    score_table as score_table_of_couplings,
)
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root
from ebmtut.states import enumerate_states

SMALL = LearningConfig(
    problems=((3, 0.15),),
    n_sweeps=200,
    n_steps=150,
    learning_rate=2e-2,
    penalty=0.0,
    n_samples=256,
    n_time_steps=12,
)


def test_learned_couplings_have_the_moments_of_the_data() -> None:
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
    law = (-Ising(found)(states).detach()).softmax(0)
    spins, data = 2 * states - 1, 2 * x - 1
    moments = (spins.T * law) @ spins - data.T @ data / len(data)
    assert float(moments.abs().max()) < 5 * 0.009


def test_persistent_chains_learn_from_the_rows_own_data() -> None:
    result = CHAINS.run("quick", problems=((4, 0.1),), n_steps=300, n_data=1000)
    (cell,) = result.scalars["table"]["PCD"].values()
    assert cell["nlr"][0] > cell["null"][0] + 0.8
    CHAINS.figure(result)
    row = get_experiment("dnfs/ising-learning").stored()
    root = benchmarks_root()
    stored = CHAINS.stored(root)
    table = score_table_of_couplings(row, COUPLINGS.stored(root), stored)
    for name, found in stored.scalars["table"]["PCD"].items():
        lattice = [line for line in repr(table).splitlines() if name in line]
        assert len(lattice) == 1
        assert f"{sum(found['nlr']) / 2:.2f}"[:3] in lattice[0]
    assert "PCD" in repr(table) and "DNFS+DMALA" in repr(table)
    # The page says so.
    alone, moved = (
        row.scalars["table"][method]["10x10, 0.2"]["nlr"]
        for method in ("DNFS", "DNFS+DMALA")
    )
    assert min(moved) > max(alone)


def test_draws_with_dmala_steps_are_other_draws() -> None:
    config = replace(SMALL, n_steps=3)
    x = ising_samples(3, 0.15, 50, n_sweeps=20, generator=make_generator(1))
    found = [
        learn_couplings(x, 3, method, config, seed=0).shares
        for method in ("DNFS", "DNFS+DMALA")
    ]
    assert not torch.equal(*found)
    assert all(bool(((v > 0) & (v <= 1)).all()) for v in found)


def test_the_null_of_the_row_is_no_coupling() -> None:
    row = get_experiment("dnfs/ising-learning")
    result = row.run("quick", problems=((4, 0.1),), n_steps=20, n_data=100)
    table = result.scalars["table"]["DNFS"]["4x4, 0.1"]
    truth = 0.1 * lattice_adjacency(4)
    rmse = float(truth.square().mean().sqrt())
    assert table["null"][0] == pytest.approx(-torch.tensor(rmse).log().item())
    assert row.null is not None
    assert row.null(result).scalars["table"]["DNFS"]["4x4, 0.1"]["nlr"] == table["null"]


def test_eb_gfn_stands_beside_the_flow() -> None:
    row = get_experiment("dnfs/ebm-training")
    result = row.run(
        "quick",
        n_steps=5,
        n_last=2,
        n_samples=16,
        gflownet={"n_steps": 3, "n_last": 1, "n_samples": 8},
    )
    table = {m: cells["8gaussians"] for m, cells in result.scalars["table"].items()}
    assert set(table) == {"DNFS", "EB-GFN"}
    assert table["EB-GFN"]["null KL"] == table["DNFS"]["null KL"]
    assert table["EB-GFN"]["KL"][0] >= 0 and table["EB-GFN"]["flow KL"][0] >= 0
    assert 0 <= table["EB-GFN"]["accepted"][0] <= 1
    laws = [cells[1] for cells in score_table(result).rows]
    assert laws == ["energy", "flow", "EB-GFN, energy", "GFlowNet", "independent"]
    assert row.null is not None
    claims = row.check(row.null(result))
    assert len(claims) == 3
    assert {claim.verdict for claim in claims} == {"miss"}


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"methods.*'Gibbs'"):
        replace(SMALL, methods=("Gibbs",))
    with pytest.raises(InputError, match="n_samples"):
        replace(SMALL, n_samples=8)


def test_eb_gfn_learns_the_couplings_of_the_rows_own_data() -> None:
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
