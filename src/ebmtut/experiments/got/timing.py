"""Experiment got/timing: what an oracle's gradients cost, and their gap."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.checks import Count, Positive, checked
from ebmtut.experiments.experiment import Experiment, Outcome
from ebmtut.experiments.got import measures
from ebmtut.experiments.got.measures import ImagesConfig, timed
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Result

GIBBS, SINKHORN = "Gibbs-OT", "Sinkhorn"
_EXACT_RUNS = 5  # of which the median counts, as of the epochs


@checked
@dataclass(frozen=True)
class TimingConfig:
    """A model half learned, and the budgets that oracles get at its next epoch."""

    images: ImagesConfig = field(
        default_factory=lambda: ImagesConfig(wnmf=transport.WNMFConfig(n_epochs=300))
    )
    budgets: tuple[Count, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    smoothings: tuple[Positive, ...] = (1e-2, 2e-3)
    n_warm: int = 500


def grid_sinkhorn(
    p: Tensor,
    q: Tensor,
    cost: transport.GridCost,
    smoothing: float,
    n_iterations: int,
    *,
    start: Tensor | None = None,
) -> Tensor:
    """Sinkhorn for a batch on a grid: eps log u, a potential on p's side.

    The kernel is two small matrices, as for Gibbs-OT the cost is, so that an
    iteration is four batched matrix products. Scalings are kept as logarithms, and
    the potential of a pixel without mass is minus infinity.
    """
    rows, columns = (torch.exp(-c / smoothing) for c in cost)
    log_p, log_q = p.log(), q.log()
    log_u = torch.zeros_like(p) if start is None else start / smoothing

    def scaling(log_mass: Tensor, log_other: Tensor) -> Tensor:
        top = log_other.amax((1, 2), keepdim=True)
        return log_mass - (rows @ (log_other - top).exp() @ columns).log() - top

    for _ in range(n_iterations):
        log_u = scaling(log_p, scaling(log_q, log_u))
    return smoothing * log_u


def timing_job(config: TimingConfig, seed: int) -> Outcome:
    """Learn for a while, then give each oracle each budget, warm and cold.

    Gibbs-OT starts warm, from the last epoch's potentials, or cold, from zero;
    it stays at the last epoch's temperature or, "cooled", ends at a thousandth
    of its first: that temperature for a warm start and 0.01 / m for a cold one.
    """
    generator = make_generator(seed)
    data = measures.load_measures(config.images)
    cost = transport.grid_cost(config.images.side)
    wnmf = config.images.wnmf
    state = transport.wnmf_start(data, wnmf, generator=generator)
    seconds = []
    for _ in range(wnmf.n_epochs):
        p_before = state.reconstruction
        learn = partial(transport.wnmf_epoch, state, data, cost, wnmf)
        seconds.append(timed(learn, generator=generator)[0])
    p, warm, cold = state.reconstruction, state.U, torch.zeros_like(state.U)
    temperature = transport.wnmf_temperature(data, wnmf, state.epoch)

    problems = measures.exact_problems(p, data, cost, range(len(data)))
    measures.solved(problems[:1])  # the first call loads POT, which takes a second
    exact_runs = [timed(measures.solved, problems) for _ in range(_EXACT_RUNS)]
    exact = exact_runs[0][1]
    p64, q64 = p.double().contiguous(), data.double().contiguous()
    cost64 = transport.grid_cost(config.images.side, dtype=torch.float64)
    keys = ("method", "start", "smoothing", "budget", "seconds", "error")
    rows: list[dict[str, Any]] = []

    def note(*values: Any, seconds: float, potential: Tensor) -> None:
        duals = transport.grid_dual_value(potential.double(), p64, q64, cost64)
        error = 1 - float(duals.mean()) / float(exact.mean())
        rows.append(dict(zip(keys, (*values, seconds, error), strict=True)))

    sinkhorn_warm = {
        smoothing: grid_sinkhorn(
            p_before.double().contiguous(), q64, cost64, smoothing, config.n_warm
        )
        for smoothing in config.smoothings
    }
    hot = 0.01 / data[0].numel()
    note(GIBBS, "warm", 0.0, 0, seconds=0.0, potential=warm)
    for budget in config.budgets:
        constant = [temperature] * budget
        starts = {
            "cold": (cold, constant),
            "cold, cooled": (cold, measures.three_decades(hot, budget)),
            "warm": (warm, constant),
            "warm, cooled": (warm, measures.three_decades(temperature, budget)),
        }
        for kind, (U, schedule) in starts.items():
            run = partial(measures.run_passes, U, p, data, cost, schedule)
            spent, U = timed(run, generator=make_generator(seed))
            note(GIBBS, kind, 0.0, budget, seconds=spent, potential=U)
        for smoothing in config.smoothings:
            for kind, start in (("cold", None), ("warm", sinkhorn_warm[smoothing])):
                run = partial(grid_sinkhorn, p64, q64, cost64, smoothing, budget)
                spent, U = timed(run, start=start)
                note(SINKHORN, kind, smoothing, budget, seconds=spent, potential=U)
    late = np.array(seconds[len(seconds) // 2 :])
    epoch = {
        "seconds": float(np.median(late)),
        "exact_seconds": float(np.median([taken for taken, _ in exact_runs])),
        "n_passes": state.n_passes,
        "temperature": temperature,
        "n_problems": len(data),
    }
    return Outcome({"rows": rows, "epoch": epoch})


def draw_timing(result: Result) -> Figure:
    """Draw the gap against time for four ways to run an oracle, and the exact time."""
    figure, ax = plt.subplots(figsize=(5.2, 3.8))
    rows = [row for row in result.scalars["rows"] if row["budget"]]
    fine = min(row["smoothing"] for row in rows if row["smoothing"])
    for method, start, line in (
        (GIBBS, "warm", "-o"),
        (GIBBS, "cold", ":o"),
        (GIBBS, "cold, cooled", "--s"),
        (SINKHORN, "warm", "-^"),
    ):
        of = [r for r in rows if (r["method"], r["start"]) == (method, start)]
        of = [row for row in of if row["smoothing"] in (0, fine)]
        name = f"{method}, {start}" + (f", ε = {fine:g}" if method == SINKHORN else "")
        seconds, errors = ([row[key] for row in of] for key in ("seconds", "error"))
        ax.plot([1e3 * s for s in seconds], errors, line, c=COLORS[method], label=name)
    exact = 1e3 * result.scalars["epoch"]["exact_seconds"]
    ax.axvline(exact, color=COLORS["exact"], label="network simplex: no gap")
    n = result.scalars["epoch"]["n_problems"]
    ax.set(xscale="log", yscale="log", xlabel=f"CPU time for {n} problems, ms")
    ax.set_ylabel("relative duality gap")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def check_timing(result: Result) -> Verdicts:
    """An epoch against exact solutions, and a warm start against cold ones."""
    epoch = result.scalars["epoch"]
    error = {
        (r["start"], r["budget"]): r["error"]
        for r in result.scalars["rows"]
        if r["method"] == GIBBS
    }
    budget = max(b for _, b in error if b <= 20)
    for start, how in (("cold", ""), ("cold, cooled", ", annealed")):
        ratio = error["warm", budget] / error[start, budget]
        name = f"error after {budget} iterations: warm start over cold start{how}"
        yield claim(name, ratio, "at most", 1.0)
    if result.scale != "quick":
        ratio = epoch["exact_seconds"] / epoch["seconds"]
        name = "exact solutions' time over an epoch's"
        yield claim(name, ratio, "at least", 50.0)


def warm_as_cold(result: Result) -> Result:
    """Return warm starts that are worth a cold one, and epochs of a solver's time."""
    rows = result.scalars["rows"]
    cold = {(r["method"], r["budget"]): r for r in rows if r["start"] == "cold"}
    alike = [
        row | {"error": cold.get((row["method"], row["budget"]), row)["error"]}
        for row in rows
    ]
    epoch = result.scalars["epoch"]
    slow = epoch | {"seconds": epoch["exact_seconds"]}
    return replace(result, scalars=result.scalars | {"rows": alike, "epoch": slow})


EXPERIMENT = Experiment(
    id="got/timing",
    title="Time and error of an epoch's oracle",
    presets={
        "quick": TimingConfig(
            images=ImagesConfig(
                source="small digits",
                n_images=60,
                side=16,
                wnmf=transport.WNMFConfig(n_components=10, n_epochs=200),
                n_exact=20,
            ),
            budgets=(1, 5, 20, 100),
            n_warm=100,
        ),
        "full": TimingConfig(),
        # The time an epoch that the paper prints, in its learning of the fives; its
        # eps is that of the smoothed method. The oracles' budgets are our choice.
        "paper": TimingConfig(images=measures.PAPER, smoothings=(1e-2,)),
    },
    # Times are only fair side by side: one job, whose outcome is no table.
    job=timing_job,
    baseline=warm_as_cold,
    figure=draw_timing,
    check=check_timing,
    parallel=False,
)
