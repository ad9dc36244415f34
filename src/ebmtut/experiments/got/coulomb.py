"""Experiment got/coulomb (Figure 3): two uniform distributions that repel."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.checks import Count, InputError, Range, checked
from ebmtut.experiments.experiment import Outcome
from ebmtut.experiments.got import lines
from ebmtut.experiments.got.lines import DUAL_ERROR, Method, anneal, uniform_coulomb
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.results import Result

# What we ask.
NEAR = 0.99
ENTROPIC_BOUNDARY = 1.1
GIBBS_BOUNDARY = 0.05
WIDEST = "largest |U| or |L|, in units of the cost"
CROWD = "concentration at the boundary"


@checked
@dataclass(frozen=True)
class CoulombConfig:
    """Solvers of the two-electron problem; epsilons in units of 1 / N, N is even."""

    n_points: Annotated[int, Range(low=16)] = 128
    budgets: tuple[int, ...] = (1, 10, 50, 200, 1000, 2000, 5000)
    epsilons: tuple[float, ...] = (0.5, 0.45, 0.43, 0.3)
    tau: float = 2.0
    n_seeds: Count = 1

    def __post_init__(self) -> None:
        if self.n_points % 2:
            raise InputError(f"n_points must be even, got {self.n_points}")


def methods_of(config: Mapping[str, Any]) -> list[Method]:
    """Return the methods of a configuration, in the order of the result."""
    names = [
        (f"entropic, {e:g}/N", lines.SINKHORN.format(e), e) for e in config["epsilons"]
    ]
    return [
        *(Method(key, label, "Sinkhorn", e) for key, label, e in names),
        Method("B-ADMM", "B-ADMM", "B-ADMM", config["tau"]),
        Method("Gibbs-OT", "Gibbs-OT", "Gibbs-OT", 4.0),
    ]


def coulomb_job(
    solver: str,
    parameter: float,
    budget: int,
    n_points: int,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Couple two uniform distributions that repel; only Gibbs-OT runs on the device."""
    problem = uniform_coulomb(n_points)
    numbers: dict[str, float] = {}
    if solver == "Gibbs-OT":
        exact = transport.exact_ot(problem.p, problem.q, problem.cost)
        coupling, found = anneal(problem, exact, budget, parameter, seed, device)
        numbers = {key: found[key] for key in ("dual", "V", "range")}
    elif solver == "B-ADMM":
        coupling = transport.bregman_admm(*problem[1:], budget, tau=parameter)
    else:
        # Where the kernel underflows, POT says so; the table says it, too.
        with warnings.catch_warnings(action="ignore"):
            coupling = transport.sinkhorn(*problem[1:], parameter / n_points, budget)
    return Outcome(describe(coupling) | numbers, {"coupling": lines.as_bytes(coupling)})


def exact_coupling(config: CoulombConfig, seed: int) -> Outcome:
    """Return the optimal coupling and its value."""
    problem = uniform_coulomb(config.n_points)
    exact = transport.exact_ot(problem.p, problem.q, problem.cost)
    return Outcome({"exact": exact.value}, {"exact": lines.as_bytes(exact.plan)})


def describe(coupling: Tensor) -> dict[str, float]:
    """Return where the mass of a coupling of two uniform distributions is.

    The concentration compares rows that are within 1/16 of an end of the line, or
    whose partner is, with rows at least 3/16 away: how much of a row's mass its largest
    entry holds, in the first over the second. It is 1 for the analytic coupling.
    """
    n = len(coupling)
    bad = int((~torch.isfinite(coupling)).sum())
    z = coupling.nan_to_num()
    i = torch.arange(n)
    away = ((i[:, None] - i).abs() - n // 2).abs()  # cells off y = x +- 1/2
    x = (i + 0.5) / n
    end = torch.stack([x, 1 - x, (x - 0.5).abs()]).amin(0)
    peak = z.amax(1) / z.sum(1).clamp(min=1e-300)
    middle = peak[end >= 3 / 16].mean().clamp(min=1e-300)
    return {
        "l1": lines.distance(z, (away == 0) / n),
        "near": float(z[away <= 2].sum()),
        "boundary": float(peak[end < 1 / 16].mean() / middle),
        "mass": float(z.sum()),
        "bad": float(bad),
    }


def draw_coulomb(result: Result) -> Figure:
    """Draw the couplings of Sinkhorn's iteration and of Gibbs-OT."""
    entropic, *_, gibbs = methods_of(result.config)
    gibbs = gibbs._replace(label="Gibbs-OT, k = 4")
    return lines.draw_plans(
        result, (entropic, gibbs), "near", "within 2 points: {:.2f}"
    )


def check_coulomb(result: Result) -> Verdicts:
    """No overflow, the analytic coupling, and no crowd at the boundary."""
    table = result.scalars["table"]
    entropic = next(iter(table))
    last = max(table["Gibbs-OT"], key=int)
    gibbs: Mapping[str, Sequence[float]] = table["Gibbs-OT"][last]
    of: dict[str, Any] = {"n_seeds": len(gibbs["near"])}
    bad = sum(sum(cell["bad"]) for cell in table["Gibbs-OT"].values())
    reach = max(max(cell["range"]) for cell in table["Gibbs-OT"].values())
    reach /= result.scalars["exact"]
    crowd = table[entropic][last]["boundary"][0]
    even = abs(float(np.mean(gibbs["boundary"])) - 1)
    near = "Gibbs-OT: least mass within two cells of the analytic coupling"
    error = "Gibbs-OT: error of the worst dual value"
    sanity = of | {"sanity": True}
    crowded = f"Gibbs-OT: deviation of the {CROWD} from one"
    yield claim("Gibbs-OT: entries that are not finite", bad, "at most", 0, **sanity)
    yield claim(f"Gibbs-OT: {WIDEST}", reach, "at most", 10, **sanity)  # no overflow
    yield claim(near, min(gibbs["near"]), "at least", NEAR, **of)
    yield claim(error, max(gibbs["dual"]), "at most", DUAL_ERROR, **of)
    yield claim(f"{entropic}: {CROWD}", crowd, "at least", ENTROPIC_BOUNDARY)
    yield claim(crowded, even, "at most", GIBBS_BOUNDARY, **of)


EXPERIMENT = lines.coupling_row(
    id="got/coulomb",
    title="Two electrons on a line",
    presets={
        "quick": CoulombConfig(n_seeds=2),
        "full": CoulombConfig(n_seeds=20),
        "paper": CoulombConfig(),
    },
    cells=lines.cells_of(methods_of),
    job=coulomb_job,
    extras=exact_coupling,
    figure=draw_coulomb,
    check=check_coulomb,
    parallel=False,  # seconds of work
)
