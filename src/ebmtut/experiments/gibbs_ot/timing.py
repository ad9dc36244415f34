"""Row got/timing: what an oracle's gradients cost, and how wrong they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ebmtut.checks import check_range
from ebmtut.experiments.gibbs_ot.timing_reports import (
    GIBBS,
    SINKHORN,
    check_timing,
    draw_timing,
)
from ebmtut.experiments.gibbs_ot.wnmf_measures import (
    ImagesConfig,
    exact_problems,
    load_measures,
    solved,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.transport import (
    GridCost,
    WNMFConfig,
    grid_cost,
    grid_dual_value,
    grid_gibbs_pass,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

__all__ = ["TIMING", "TimingConfig", "grid_sinkhorn", "run_timing"]


@dataclass(frozen=True)
class TimingConfig:
    """A model half learned, and the budgets that oracles get at its next epoch.

    Parameters
    ----------
    images
        The images, and the learning whose last epoch is looked at.
    budgets
        Iterations of an oracle.
    smoothings
        eps of Sinkhorn.
    n_warm
        Iterations that Sinkhorn had at the epoch before, when it starts warm.
    """

    images: ImagesConfig = field(
        default_factory=lambda: ImagesConfig(wnmf=WNMFConfig(n_epochs=300))
    )
    budgets: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    smoothings: tuple[float, ...] = (1e-2, 2e-3)
    n_warm: int = 500

    def __post_init__(self) -> None:
        for budget in self.budgets:
            check_range("budgets", budget, low=1, integer=True)
        for smoothing in self.smoothings:
            check_range("smoothings", smoothing, low=0, include_low=False)


def grid_sinkhorn(
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    smoothing: float,
    n_iterations: int,
    *,
    start: Tensor | None = None,
) -> Tensor:
    """Sinkhorn for a batch on a grid: eps log u, a potential on p's side.

    The kernel is two small matrices, as for Gibbs-OT the cost is, so that an
    iteration is four batched matrix products.

    Parameters
    ----------
    p, q
        Measures, (n, height, width), float64.
    cost
        M.
    smoothing
        eps.
    n_iterations
        Updates of either side.
    start
        The potential to start from, zeros by default.
    """
    rows, columns = (torch.exp(-c / smoothing) for c in cost)
    tiny = torch.finfo(p.dtype).tiny
    u = torch.ones_like(p) if start is None else torch.exp(start / smoothing)
    for _ in range(n_iterations):
        v = q / (rows @ u @ columns).clamp(min=tiny)
        u = p / (rows @ v @ columns).clamp(min=tiny)
    return smoothing * u.clamp(min=tiny).log()


def run_timing(
    config: TimingConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
) -> Result:
    """Learn for a while, then give each oracle each budget, warm and cold.

    Returns
    -------
    Result
        ``scalars["rows"]`` lists method, start, smoothing, budget, CPU
        seconds for all problems and the relative error of the mean feasible
        dual; ``scalars["epoch"]`` has the seconds of an epoch with its
        updates, and of exact solutions of the problems that it leaves, one
        call of ``ot.emd2`` each on the pixels that carry mass.
    """
    generator = make_generator(seed)
    data = load_measures(config.images)
    cost = grid_cost(config.images.side)
    wnmf = config.images.wnmf
    state = wnmf_start(data, wnmf, generator=generator)
    seconds = []
    for _ in range(wnmf.n_epochs):
        before, p_before = time.process_time(), state.reconstruction
        wnmf_epoch(state, data, cost, wnmf, generator=generator)
        seconds.append(time.process_time() - before)
    p, warm = state.reconstruction, state.U
    temperature = wnmf_temperature(data, wnmf, state.epoch)

    problems = exact_problems(p, data, cost, range(len(data)))
    solved(problems[:1])  # the first call loads POT, which takes a second
    exact_seconds, exact = timed(lambda: solved(problems))
    p64, q64 = p.double().contiguous(), data.double().contiguous()
    cost64 = grid_cost(config.images.side, dtype=torch.float64)
    rows: list[dict[str, Any]] = []

    def note(
        method: str,
        start: str,
        budget: int,
        smoothing: float,
        taken: tuple[float, Tensor],
    ) -> None:
        potential = taken[1].double()
        value = grid_dual_value(potential, p64, q64, cost64).mean()
        row = {
            "method": method,
            "start": start,
            "smoothing": smoothing,
            "budget": budget,
            "seconds": taken[0],
            "error": 1 - float(value) / float(exact.mean()),
        }
        rows.append(row)

    sinkhorn_warm = {
        smoothing: grid_sinkhorn(
            p_before.double().contiguous(), q64, cost64, smoothing, config.n_warm
        )
        for smoothing in config.smoothings
    }
    for budget in tqdm(config.budgets, desc="got/timing", disable=not progress):
        starts = {
            "cold": (torch.zeros_like(warm), cooling(0.01 / data[0].numel(), budget)),
            "warm": (warm, [temperature] * budget),
            "warm, cooled": (warm, cooling(temperature, budget)),
        }
        for kind, (U, schedule) in starts.items():
            taken = timed(partial(gibbs, U, p, data, cost, schedule, seed))
            note(GIBBS, kind, budget, 0.0, taken)
        for smoothing in config.smoothings:
            for kind, start in (("cold", None), ("warm", sinkhorn_warm[smoothing])):
                run = partial(grid_sinkhorn, p64, q64, cost64, smoothing, budget)
                taken = timed(partial(run, start=start))
                note(SINKHORN, kind, budget, smoothing, taken)
    late = np.array(seconds[len(seconds) // 2 :])
    scalars = {
        "rows": rows,
        "epoch": {
            "seconds": float(np.median(late)),
            "exact_seconds": exact_seconds,
            "n_passes": state.n_passes,
            "temperature": temperature,
            "n_problems": len(data),
        },
    }
    return Result("got/timing", "quick", asdict(config), scalars)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what the function returns."""
    before = time.process_time()
    value = function()
    return time.process_time() - before, value


def cooling(temperature: float, n_passes: int) -> list[float]:
    """Geometric, over three decades, as long as the budget."""
    return [temperature * 1e-3 ** (k / n_passes) for k in range(n_passes)]


def gibbs(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperatures: list[float],
    seed: int,
) -> Tensor:
    """Run passes of Gibbs-OT at the given temperatures; return U."""
    generator = make_generator(seed)
    for temperature in temperatures:
        U = grid_gibbs_pass(U, p, q, cost, temperature, generator=generator).U
    return U


TIMING = Experiment(
    id="got/timing",
    title="Time and error of an epoch's oracle",
    presets={
        "quick": TimingConfig(
            images=ImagesConfig(
                source="small digits",
                n_images=60,
                side=16,
                wnmf=WNMFConfig(n_components=10, n_epochs=200),
                n_exact=20,
            ),
            budgets=(1, 5, 20, 100),
            n_warm=100,
        ),
        "full": TimingConfig(),
    },
    run=run_timing,
    figure=draw_timing,
    check=check_timing,
)
