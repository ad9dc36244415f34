"""Baseline and exact values: scores of an uninformed and of the true model.

They are computed, never typed. A published comparison that is indistinguishable from
its baseline shows nothing, and no correct number lies beyond the exact value.
Modules that compute are imported where they are used, as the ledger's list needs none.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal

from ebmtut.checks import Range, checked
from ebmtut.experiments.facts import PublishedTable, get_fact

__all__ = ["Reference", "reference_rows"]

_N_BITS = 32  # of a point in the plane
_Estimates = tuple[dict[str, float], dict[str, float]]


@dataclass(frozen=True)
class Reference:
    """A line of a table that is computed rather than learned.

    Attributes
    ----------
    kind
        "baseline" for a baseline, "exact" for the truth.
    values
        A number for each column of the table.
    stderr
        Their standard errors, if estimated.
    size
        Samples that an estimate uses.
    """

    kind: Literal["baseline", "exact"]
    label: str
    values: Mapping[str, float]
    stderr: Mapping[str, float] = field(default_factory=dict)
    size: str = ""


@checked
def reference_rows(
    id: str,
    table: str,
    *,
    n_points: Annotated[int, Range(low=2)] = 1000,
    n_repeats: Annotated[int, Range(low=2)] = 10,
    seed: int = 0,
) -> list[Reference]:
    """Compute the baseline and exact values of a published table.

    Parameters
    ----------
    n_points, n_repeats, seed
        Points per sample, number of samples and seed of estimates.
    """
    from ebmtut.random import check_seed

    check_seed(seed)
    printed = get_fact(id).table(table)
    if table == "negative log-RMSE":
        return [_zero_coupling(printed)]
    if "checkerboard" not in printed.columns:
        return []
    if table == "NLL":
        from ebmtut.data import exact_entropy

        uniform = dict.fromkeys(printed.columns, _N_BITS * math.log(2.0))
        entropy = {column: exact_entropy(column) for column in printed.columns}
        return [
            Reference("baseline", "uniform model", uniform),
            Reference("exact", "entropy of the data", entropy),
        ]
    return list(_mmd_rows(printed.columns, n_points, n_repeats, seed))


def _zero_coupling(table: PublishedTable) -> Reference:
    """Score J = 0: the RMSE is sigma times the root of the density of edges."""
    import torch

    from ebmtut.energies import lattice_adjacency
    from ebmtut.metrics import negative_log_rmse

    values = {}
    for column in table.columns:
        lattice, sigma = column.split(", ")
        truth = float(sigma) * lattice_adjacency(int(lattice.split("x")[0]))
        values[column] = negative_log_rmse(torch.zeros_like(truth), truth)
    return Reference("baseline", "J = 0", values)


@cache  # two papers have the same densities
def _mmd_rows(
    densities: tuple[str, ...], n_points: int, n_repeats: int, seed: int
) -> tuple[Reference, Reference]:
    """Estimate the squared MMD of data to uniform bits, and to held-out data."""
    import torch

    from ebmtut.data import DensityData
    from ebmtut.metrics import mmd
    from ebmtut.random import bernoulli, make_generator

    def estimate(draw: Callable[[DensityData], torch.Tensor]) -> _Estimates:
        means, errors = {}, {}
        for name in densities:
            data = DensityData(name)
            found = torch.tensor(
                [mmd(fresh(data), draw(data)) / 1e-4 for _ in range(n_repeats)],
                dtype=torch.float64,
                device="cpu",
            )
            means[name] = float(found.mean())
            errors[name] = float(found.std()) / math.sqrt(n_repeats)
        return means, errors

    generator = make_generator(seed)

    def fresh(data: DensityData) -> torch.Tensor:
        return data.sample_bits(n_points, generator=generator)

    def uniform(data: DensityData) -> torch.Tensor:
        return bernoulli(
            torch.full((n_points, _N_BITS), 0.5, dtype=torch.float32, device="cpu"),
            generator=generator,
        )

    size = f"{n_repeats} x {n_points} points"
    return (
        Reference("baseline", "uniform bits", *estimate(uniform), size),
        Reference("exact", "fresh data", *estimate(fresh), size),
    )
