"""One flow of a lattice by every kind of weights, and the chain that they correct.

The paper's weights are those of continuous time; a chain of Metropolis and Hastings
with the flow as its independent proposal is what it leaves to the future (Ou, Zhang and
Li, 2025, Section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattice_laws import energy_law
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import (
    ExactRollout,
    Flow,
    Rollout,
    effective_sample_size,
    independence_metropolis,
    log_partition,
    simulate,
    simulate_exact,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

#: Stretches of a chain, whose means tell its error.
_N_STRETCHES = 10


def stored_bound(result: Result, column: str) -> float:
    """Return the bound of the rates that a stored run of dnfs/ising found for ours."""
    return float(result.scalars["table"]["ours"][column]["bound"][0])


def drawn_each_way(
    flow: Flow, steps: Sequence[int], n: int, *, bound: float, seed: int
) -> tuple[dict[str, Rollout], ExactRollout]:
    """Simulate a flow in several numbers of steps, and exactly."""
    stepped = {
        f"{k} steps": simulate(
            flow, n, k, chain_weights=True, generator=make_generator(seed)
        )
        for k in steps
    }
    thinned = simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=make_generator(seed)
    )
    assert thinned.n_exceeded == 0
    return stepped, thinned


def weights_table(
    path: AnnealingPath, stepped: Mapping[str, Rollout], thinned: ExactRollout
) -> Table:
    """Judge one flow by each kind of weights."""
    target = path.target
    assert isinstance(target, LatticeIsing)
    exact = torus_log_partition(target.side, target.side, 2 * target.sigma)
    runs: list[tuple[str, str, Tensor, Tensor | None]] = []
    for name, run in stepped.items():
        runs.append((name, "continuous", run.x, run.log_weights))
        runs.append((name, "chain", run.x, run.chain_log_weights))
    runs.append(("exact", "continuous", thinned.x, thinned.path_log_weights))
    runs.append(("exact", "its candidates", thinned.x, thinned.log_weights))
    heads = ("simulation", "weights", "ESS", "log Z error", "energy")
    rows: list[tuple[Cell, ...]] = []
    for name, kind, x, log_weights in runs:
        assert log_weights is not None
        z = log_partition(log_weights, path.log_partition_start)
        energy = target(x)
        noise = float(energy.std()) / len(energy) ** 0.5
        share = effective_sample_size(log_weights)
        off = (z.estimate - exact, z.standard_error)
        rows.append((name, kind, share, off, (float(energy.mean()), noise)))
    columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    return Table(columns, caption=f"Errors are of {len(thinned.x)} samples.")


def chain_table(
    runs: Mapping[str, tuple[AnnealingPath, ExactRollout]],
    *,
    nulls: Sequence[str] = (),
    seed: int,
) -> Table:
    """Set mean energies of chains that propose a flow's samples beside exact ones."""
    heads = (
        "proposals",
        "n",
        "accepted",
        "as proposed",
        "as the chain has it",
        "exact",
    )
    rows: list[tuple[Cell, ...]] = []
    for name, (path, run) in runs.items():
        held = independence_metropolis(
            run.log_weights, generator=make_generator(seed)
        ).cpu()
        moved = float((held[1:] != held[:-1]).double().mean())
        energy = path.target(run.x).cpu().double()
        kept = [part.mean().item() for part in energy[held].tensor_split(_N_STRETCHES)]
        noise = float(energy.std()) / len(energy) ** 0.5
        proposed = float(energy.mean()), noise
        chain = mean_and_stderr(kept)
        assert isinstance(path.target, LatticeIsing)
        law = energy_law(path.target.side, path.target.sigma)
        exact = round(float(law.levels @ law.chances), 2)
        row = (name, len(held), moved, proposed, chain, exact)
        rows.append(row)
    columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    return Table(
        columns,
        caption="Mean energies of the proposals and of the chain.",
        kinds=["null" if name in nulls else "" for name in runs],
        digits=3,
    )
