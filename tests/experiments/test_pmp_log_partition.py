"""The log-partition experiment against what is known exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ebmtut.exact import exact_log_partition
from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp.log_partition import (
    ENSEMBLES,
    LogPartitionConfig,
    dense_model,
    lattice_model,
    log_partition_job,
)
from ebmtut.random import make_generator

ROW = get_experiment("pmp/log-partition")
TINY = LogPartitionConfig(
    sizes=(3, 4), n_models=4, n_perturbations=30, n_on_lattice=200, n_sweeps=50
)


@pytest.mark.parametrize("coupling", [0.1, -0.2])
@pytest.mark.parametrize("side", [3, 4])
def test_exact_values_of_lattices(side, coupling):
    model, log_z = lattice_model(side, coupling)
    assert float(exact_log_partition(model, side**2)) == pytest.approx(log_z)


def test_dense_models_have_the_printed_distribution():
    generator = make_generator(0)
    once = torch.stack(
        [dense_model(3, generator=generator)[0].weight for _ in range(300)]
    )
    twice = torch.stack(
        [dense_model(3, 2, generator=generator)[0].weight for _ in range(300)]
    )
    # From spins to bits: a weight is 4 w, uniform in [-8, 8].
    w, two = once[:, 0, 1].detach(), twice[:, 0, 1].detach()
    assert w.abs().max() <= 8 and two.abs().max() > 8
    # Variance of a uniform number: 64 / 3, and its standard error.
    for sample, variance in ((w, 64 / 3), (two, 128 / 3)):
        error = float((sample**2).std()) / 300**0.5
        assert abs(float((sample**2).mean()) - variance) < 5 * error


def test_exact_maxima_bound_log_z_from_above():
    outcome = log_partition_job(ENSEMBLES["dense"], 4, TINY, seed=0)
    errors = outcome.arrays["exact"]
    assert errors.shape == (4,)
    # A score varies by less than a nat: 30 of them by 0.2, four models by 0.1.
    assert errors.mean() > -0.5
    for method in ("PMP", "PMP symmetric", "MPLP"):
        assert (outcome.arrays[method] <= errors + 1e-9).all()
    assert (outcome.arrays["MPLP bound"] >= errors - 1e-4).all()


def test_everything_is_exact_on_an_attractive_lattice():
    outcome = log_partition_job(ENSEMBLES["lattice"], 4, TINY, seed=1)
    errors = outcome.arrays["exact"]
    np.testing.assert_allclose(outcome.arrays["PMP"], errors, atol=1e-9)
    np.testing.assert_allclose(outcome.arrays["MPLP bound"], errors, atol=1e-3)
    stderr = errors.std() / len(errors) ** 0.5
    assert errors.mean() > -5 * stderr


def test_the_verdict_follows_the_errors():
    result = ROW.run(replace(TINY, ensembles=("dense",)))
    cells = result.scalars["table"]["dense"]
    for size, word in (("3", "match"), ("4", "miss")):
        cells["PMP"][size]["abs"] = 1.0
        cells["MPLP"][size]["abs"] = 2.0 if word == "match" else 0.5
    # MPLP in PMP's place is no better than itself.
    assert {v.measured for v in ROW.check(ROW.baseline(result))} == {1.0}
    assert [v.verdict for v in ROW.check(result)] == ["match", "miss"]
