"""Annealed importance sampling against exact partition functions."""

import math

import pytest
import torch

from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.exact import exact_log_partition, exact_mean
from ebmtut.flows import gibbs_kernel
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling

PATH = AnnealingPath(LatticeIsing(3, 0.25, 0.1))
KERNEL = gibbs_kernel(PATH, lattice_coloring(3))
N = 4000


@pytest.mark.parametrize("resample_below", [0.0, 0.5])
def test_mean_weight_and_weighted_energy_are_exact(resample_below):
    generator = make_generator(0)
    want = float(exact_log_partition(PATH.target, 9)) - PATH.log_partition_start
    energy = float(exact_mean(PATH.target, PATH.target))
    ratios, energies = [], []
    for _ in range(16):
        found = annealed_importance_sampling(
            PATH, KERNEL, N // 16, 5, generator=generator, resample_below=resample_below
        )
        w = (found.log_weights - want).exp()
        ratios.append(w.mean())
        energies.append((w * PATH.target(found.x)).mean())
        assert (found.n_resampled > 0) == (resample_below > 0)
    for values, exact in ((ratios, 1.0), (energies, energy)):
        got = torch.stack(values)
        assert abs(float((got.mean() - exact) / (got.std() / math.sqrt(16)))) < 5


def test_one_step_is_importance_sampling_from_the_uniform_distribution():
    start = torch.randint(2, (50, 9)).float()
    found = annealed_importance_sampling(
        PATH, KERNEL, 50, 1, generator=make_generator(0), start=start
    )
    torch.testing.assert_close(found.log_weights.float(), -PATH.target(start))
