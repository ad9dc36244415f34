"""What more rounds and other steps bring in Wasserstein NMF, computed on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from ebmtut.experiments.got.wnmf import smoothed_mixtures, smoothed_rounds
from ebmtut.experiments.got.wnmf_measures import (
    ImagesConfig,
    exact_costs,
    looked_at,
    sharpness,
)
from ebmtut.random import make_generator
from ebmtut.results import Table
from ebmtut.results.tables import Cell
from ebmtut.transport import (
    SmoothedWNMF,
    WNMFConfig,
    grid_cost,
    wnmf_epoch,
    wnmf_start,
)

__all__ = ["memberships_table", "rounds_table"]


def rounds_table(
    data: Tensor, config: ImagesConfig, rounds: Sequence[int], *, seed: int = 0
) -> Table:
    """Write what more rounds bring the smoothed rival.

    Parameters
    ----------
    data
        Measures, as of `load_measures`.
    config
        How they are factorised; its number of rounds is not used.
    rounds
        When to look, rising.
    seed
        Of the start.
    """
    start = wnmf_start(data.double(), config.wnmf, generator=make_generator(seed))
    cost, which = grid_cost(config.side), looked_at(config, config.n_exact)
    learned: SmoothedWNMF | None = None
    columns: dict[str, list[Cell]] = {"rounds": [], "cost [1e-3]": [], "support": []}
    done = 0
    for n in rounds:
        learned = smoothed_rounds(data.double(), start, config, n - done, learned)
        done = n
        exact = 1e3 * exact_costs(smoothed_mixtures(learned), data, cost, which)
        error = float(exact.std(ddof=1)) / len(exact) ** 0.5
        numbers: tuple[Cell, ...] = (
            f"{n}",
            (float(exact.mean()), error),
            round(sharpness(learned.dictionary)["support"]),
        )
        for column, number in zip(columns.values(), numbers, strict=True):
            column.append(number)
    return Table(
        columns,
        caption=f"Smoothed W-NMF, {config.n_images} images of {config.side} × "
        f"{config.side}: exact transport costs ± their standard error",
    )


def memberships_table(
    data: Tensor,
    config: WNMFConfig,
    trials: Mapping[str, tuple[float, bool]],
    seed: int,
) -> Table:
    """Write how the learning goes with other steps of the memberships.

    Parameters
    ----------
    data
        Measures, as of `load_measures`; twenty of them are judged.
    config
        The learning, which is looked at half way and at the end.
    trials
        By name, the step and whether it is accelerated.
    seed
        Of start and noise.
    """
    cost = grid_cost(data.shape[1])
    looks = (config.n_epochs // 2, config.n_epochs)
    heads = [f"after {n} epochs" for n in looks]
    columns: dict[str, list[Cell]] = {"memberships": [*trials]}
    columns.update((head, []) for head in heads)
    for size, accelerate in trials.values():
        trial = replace(config, accelerate=accelerate, membership_step_size=size)
        generator = make_generator(seed)
        state = wnmf_start(data, trial, generator=generator)
        for epoch in range(1, trial.n_epochs + 1):
            wnmf_epoch(state, data, cost, trial, generator=generator)
            if epoch in looks:
                exact = exact_costs(state.reconstruction, data, cost, range(20))
                head = heads[looks.index(epoch)]
                columns[head].append(1e3 * float(exact.mean()))
    return Table(
        columns, caption="Mean transport cost of 20 images, 1e-3, one run each"
    )
