"""Which gradients should Wasserstein NMF learn from? One loop, three oracles.

    python studies/got/oracles.py [--trial]

Thirty-two fives of MNIST (28 x 28) are factorised into eight components by the same
mirror descent, with the gradients of the exact solver, of warm-started Sinkhorn
iterations or of warm-started Gibbs-OT. A run has a number of epochs and anneals its
steps over them (Gibbs-OT its temperature, too). Its model is evaluated by exact
transport costs, which are not timed. Steps and iterations per epoch were chosen by
`--trial` on fifty images, ten components and a seed that the study does not use. The
result is stored after every run. Four minutes on a quiet core.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmtut.experiments.got.measures import (
    ImagesConfig,
    exact_costs,
    exact_problems,
    load_measures,
)
from ebmtut.experiments.got.timing import grid_sinkhorn
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result
from ebmtut.transport import (
    WNMFConfig,
    grid_cost,
    grid_dual_value,
    grid_gibbs_pass,
    mirror_step,
    wnmf_start,
)

ID = "got/oracles"
FOLDER = Path(__file__).resolve().parents[1]
IMAGES = ImagesConfig(n_images=32, n_exact=32, wnmf=WNMFConfig(n_components=8))
EPSILON = 2e-3
TEMPERATURE = 1e-5
HOLD, LAST = 0.2, 0.036  # steps and T are held, then fall to this part
SEEDS = (0, 1, 2, 3, 4)
TRIAL_SEED = 100


@dataclass(frozen=True)
class Method:
    """An oracle, its iterations per epoch, a factor of the steps, epochs of runs."""

    oracle: str
    n_iterations: int
    step: float
    budgets: tuple[int, ...]


METHODS = {
    "Sinkhorn": Method("Sinkhorn", 3, 3.0, (100, 300, 1000)),
    "Gibbs-OT": Method("Gibbs-OT", 10, 1.0, (100, 300, 1000)),
    "exact": Method("exact", 0, 1.0, (10, 30)),
}
N_SHOWN = 8


class Learning:
    """Wasserstein NMF whose potentials come from one of the oracles."""

    def __init__(self, data: Tensor, seed: int) -> None:
        self.data, self.side = data, data.shape[1]
        self.cost = grid_cost(self.side)
        self.wide = grid_cost(self.side, dtype=torch.float64)
        self.matrix = self.wide.dense()
        self.q64 = data.double().contiguous()
        self.generator = make_generator(seed)
        start = wnmf_start(data, IMAGES.wnmf, generator=self.generator)
        self.psi, self.beta = start.dictionary.flatten(1), start.memberships.x.clone()
        self.U = torch.zeros_like(data)

    @property
    def p(self) -> Tensor:
        """The model of every image."""
        return (
            (self.psi.T @ self.beta.T).view(self.side, self.side, -1).permute(2, 0, 1)
        )

    def gibbs_ot(self, n_iterations: int, scale: float) -> Tensor:
        """Return U after some more iterations of every chain."""
        p, T = self.p, TEMPERATURE * scale
        for _ in range(n_iterations):
            found = grid_gibbs_pass(
                self.U, p, self.data, self.cost, T, generator=self.generator
            )
            self.U = found.U
        return self.U

    def sinkhorn(self, n_iterations: int, scale: float) -> Tensor:
        """Return the entropic potential after some more iterations."""
        p = self.p.double().contiguous()
        start = self.U.double().contiguous()
        U = grid_sinkhorn(p, self.q64, self.wide, EPSILON, n_iterations, start=start)
        # Minus infinity where the model has no mass, which is no gradient to use.
        self.U = U.clamp(min=EPSILON * math.log(torch.finfo(U.dtype).tiny))
        return self.U.float()

    def exact(self, n_iterations: int, scale: float) -> Tensor:
        """Return optimal potentials, by c-transforms also where p has no mass."""
        import ot

        problems = exact_problems(self.p, self.data, self.cost, range(len(self.data)))
        for i, (a, b, M) in enumerate(problems):
            log = ot.emd(
                a, b, M, numItermax=10_000_000, log=True, check_marginals=False
            )[1]
            inked = self.data[i].flatten() > 1e-9
            reach = self.matrix[:, inked] - torch.from_numpy(log["v"])
            self.U[i] = reach.amin(1).view(self.side, self.side)
        return self.U

    def oracle(self, name: str) -> Callable[[int, float], Tensor]:
        """Return the method of this name."""
        return {
            "exact": self.exact,
            "Sinkhorn": self.sinkhorn,
            "Gibbs-OT": self.gibbs_ot,
        }[name]

    def run(self, method: Method, n_epochs: int) -> dict[str, float]:
        """Learn; return CPU seconds, the exact cost in pixels squared, and the gap."""
        oracle, config = self.oracle(method.oracle), IMAGES.wnmf
        seconds = []
        for epoch in range(n_epochs):
            begun = time.process_time()
            late = max(0.0, (epoch / n_epochs - HOLD) / (1 - HOLD))
            scale = LAST**late
            U = oracle(method.n_iterations, scale).flatten(1)
            slopes = U @ self.psi.T
            size = method.step * scale
            psi = mirror_step(self.psi, self.beta.T @ U, size * config.step_size)
            size *= config.membership_step_size
            self.beta = floored(mirror_step(self.beta, slopes, size))
            self.psi = floored(psi)
            seconds.append(time.process_time() - begun)
        costs = exact_costs(self.p, self.data, self.cost, range(len(self.data)))
        if method.oracle != "exact":
            oracle(method.n_iterations, scale)
        dual = grid_dual_value(self.U.float(), self.p, self.data, self.cost)
        return {
            "seconds": sum(seconds),
            "epoch_seconds": statistics.median(seconds),
            "cost": float(costs.mean()) * self.side**2,
            "gap": 1 - float(dual.mean()) / float(costs.mean()),
        }


def floored(x: Tensor) -> Tensor:
    """Rows of mass 1 without zeros, which multiplicative steps never leave."""
    x = x.clamp(min=1e-12)
    return x / x.sum(1, keepdim=True)


def bytes_of(images: Tensor) -> np.ndarray:
    """Return pictures, each scaled to its darkest pixel."""
    scaled = images / images.amax((1, 2), keepdim=True)
    return (255 * scaled).round().byte().contiguous().numpy()


def trial(data: Tensor) -> None:
    """Print what other steps and numbers of iterations give, at the second budget."""
    for name, method in METHODS.items():
        counts = (0,) if name == "exact" else (3, 10)
        for n, step in itertools.product(counts, (0.3, 1.0, 3.0)):
            other = Method(method.oracle, n, step, ())
            found = Learning(data, TRIAL_SEED).run(other, method.budgets[1])
            print(name, n, step, found, flush=True)


def main() -> None:
    """Run every method and number of epochs, seed by seed."""
    torch.set_num_threads(1)
    started = time.time()
    data = load_measures(IMAGES)
    Learning(data, 0).run(Method("Gibbs-OT", 1, 1.0, ()), 1)  # compiles; not counted
    if "--trial" in sys.argv:
        return trial(data)
    table: dict[str, dict[str, dict[str, list[float]]]] = {}
    arrays = {"images": bytes_of(data[:N_SHOWN])}
    config = {
        "images": asdict(IMAGES),
        "methods": {name: asdict(method) for name, method in METHODS.items()},
        "epsilon": EPSILON,
        "temperature": TEMPERATURE,
        "hold": HOLD,
        "last": LAST,
    }
    jobs_s = 0.0
    for seed in SEEDS:
        for name, method in METHODS.items():
            for n in method.budgets:
                begun, learning = time.process_time(), Learning(data, seed)
                found = learning.run(method, n)
                jobs_s += time.process_time() - begun
                cell = table.setdefault(name, {}).setdefault(str(n), {})
                for key, value in found.items():
                    cell.setdefault(key, []).append(value)
                print(seed, name, n, found, flush=True)
                provenance = collect_provenance(
                    seed=SEEDS[0], device="cpu", started=started, jobs_s=jobs_s
                )
                scalars = {"table": table}
                result = Result(ID, "full", config, scalars, arrays, provenance)
                save_result(result, FOLDER)
            if seed == SEEDS[0]:
                side = learning.side
                components = learning.psi.view(-1, side, side)
                arrays[f"{name}/components"] = bytes_of(components)
                arrays[f"{name}/models"] = bytes_of(learning.p[:N_SHOWN])


if __name__ == "__main__":
    main()
