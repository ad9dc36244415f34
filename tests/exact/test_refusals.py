"""What exact functions refuse beyond the ranges that their signatures declare."""

import math

import torch

from ebmtut.energies import LatticeIsing
from ebmtut.exact import (
    exact_energy_discrepancy,
    exact_log_partition,
    exact_mean,
    exact_probabilities,
    grid_channel,
    lattice_log_partition,
    pooling_channel,
    torus_energy_distribution,
    torus_log_partition,
    transfer_log_partition,
)
from tests.shared import refusals

LATTICE = LatticeIsing(3, 0.1)
LOG_P = torch.full((16,), 1 / 16).log()
CHANNEL = grid_channel(4).float()


def discrepancy(energy=LOG_P, log_p=LOG_P, log_q=CHANNEL):
    return exact_energy_discrepancy(energy, log_p, log_q)


CASES = {
    "states": (lambda: exact_probabilities(LatticeIsing(5, 0.1), 25), r".*\[1, 24\]"),
    "energies": (lambda: exact_log_partition(lambda x: x, 3), r"energy\(x\) must have"),
    "sites": (lambda: exact_mean(torch.sum, torch.sum), "n_sites must be given"),
    "shape": (lambda: exact_mean(LATTICE, torch.sum), r"f\(x\) must have shape"),
    "nan": (
        lambda: exact_log_partition(lambda x: x.sum(1) * math.nan, 3),
        r"energy\(x\) must be finite, got 8",
    ),
    "integers": (
        lambda: exact_probabilities(LATTICE, 9, dtype=torch.int64),
        "dtype must be floating, got torch.int64",
    ),
    "device": (
        lambda: exact_log_partition(LATTICE, 9, device="cuda:99"),
        "device must .* got cuda:99",
    ),
    "channel": (lambda: discrepancy(LOG_P[:8], LOG_P[8:] + math.log(2)), r"log_q must"),
    "energy": (lambda: discrepancy(LOG_P[:8]), r"energy must have shape \(16,\)"),
    "sum": (lambda: discrepancy(log_p=LOG_P + 1), "log_p_data must be log-prob"),
    "finite": (lambda: discrepancy(LOG_P * math.nan), "energy must be finite, got 16"),
    "window": (lambda: pooling_channel(4, 3), "window must divide n_sites=4, got 3"),
    "side": (lambda: lattice_log_partition(17, 0.1), r".*in \[3, 16\], got 17"),
    "range": (lambda: transfer_log_partition(9, 12, -13.0), ".*<= 600, got 624"),
    "frustrated": (lambda: torus_log_partition(5, 4, -0.7), r"edge_coupling must be"),
    "odd sides": (lambda: torus_energy_distribution(5, 4, 0.2), "rows and cols must"),
}


test_refusals = refusals(CASES)
