"""When do noise levels pay? Five trainings of an energy of two modes in equal time.

    python studies/drl/levels.py DIMENSION [--updates 600] [--runs 3]

The data have two normal modes, at -2 and 2 on the first axis, with 60 and 40 percent of
the mass. What varies: the dimension, the width of the modes (so their distance in
widths), the number of levels, the length of the chains, and whether each chain chooses
among sixteen initial points by importance weight. All chains are Metropolis-adjusted
and their step sizes follow the acceptance rate: no method has a step size to tune.

All models of one dimension and method train side by side, as one batch of matrices. A
first pass measures the CPU time of an update of each method; the number of updates
then makes the times equal.
"""

import argparse
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ebmtut.noise import geometric_noise
from ebmtut.results import Result, collect_provenance, save_result

WIDTHS = (0.35, 0.15)
MASSES, MEANS = torch.tensor([0.6, 0.4]), torch.tensor([-2.0, 2.0])
BATCH, HIDDEN, RATE, N_STARTS = 64, 32, 3e-3, 16


@dataclass(frozen=True)
class Method:
    """Levels, Langevin steps of a chain, and whether it chooses its initial point."""

    n_levels: int
    n_steps: int
    resampled: bool = False


METHODS = {
    "six levels, 10 steps": Method(6, 10),
    "one level, 10 steps": Method(1, 10),
    "one level, 40 steps": Method(1, 40),
    "six levels, resampled": Method(6, 2, True),
    "one level, resampled": Method(1, 2, True),
}


def sample_modes(n: int, dim: int, width: Tensor) -> Tensor:
    """Sample the data of every model: (models, n, dim)."""
    x = width[:, None, None] * torch.randn(len(width), n, dim)
    x[..., 0] += MEANS[torch.multinomial(MASSES, len(width) * n, True)].view(-1, n)
    return x


def log_density(x: Tensor, width: Tensor) -> Tensor:
    """Log density of the data."""
    modes = torch.zeros(2, x.shape[2])
    modes[:, 0] = MEANS
    square = ((x[:, :, None] - modes) ** 2).sum(3) / (2 * width[:, None, None] ** 2)
    norm = x.shape[2] * torch.log(2 * math.pi * width**2) / 2
    return (MASSES.log() - square).logsumexp(2) - norm[:, None]


class Energies:
    """Many networks at once: a standard normal, and a perceptron with two layers."""

    def __init__(self, n_models: int, dim: int, n_levels: int) -> None:
        def uniform(*shape: int) -> Tensor:
            return (2 * torch.rand(shape) - 1) / shape[1] ** 0.5

        self.one = uniform(n_models, dim, HIDDEN)
        self.two = uniform(n_models, HIDDEN, HIDDEN)
        self.out = torch.zeros(n_models, HIDDEN, 1)  # begin at white noise
        self.shift_one = torch.zeros(n_models, n_levels, HIDDEN)
        self.shift_one += 2 * torch.rand(n_models, 1, HIDDEN) - 1
        self.shift_two = torch.zeros(n_models, n_levels, HIDDEN)
        self.parameters = [*vars(self).values()]

    def __call__(self, x: Tensor, level: Tensor) -> Tensor:
        """Energies."""
        h = torch.nn.functional.silu(x @ self.one + self.shift_one[:, level])
        h = torch.nn.functional.silu(h @ self.two + self.shift_two[:, level])
        return (x**2).sum(2) / 2 + (h @ self.out)[..., 0]

    @torch.no_grad()
    def with_gradient(self, x: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """Energies and their gradient in x."""

        def silu(h: Tensor) -> tuple[Tensor, Tensor]:
            s = h.sigmoid()
            return h * s, s * (1 + h * (1 - s))

        h, slope_one = silu(x @ self.one + self.shift_one[:, level])
        h, slope_two = silu(h @ self.two + self.shift_two[:, level])
        g = (self.out.mT * slope_two) @ self.two.mT * slope_one
        return (x**2).sum(2) / 2 + (h @ self.out)[..., 0], x + g @ self.one.mT


class Chains:
    """Samples of the conditional distributions of all levels, for all models."""

    def __init__(self, how: Method, widths: Tensor) -> None:
        self.how = how
        rows = [(1.0,)] * len(widths)
        if how.n_levels > 1:
            rows = [
                (*geometric_noise(6, 0.7 * w, 4.0, noisy_data=False).sigmas[:-1], 1.0)
                for w in widths.tolist()
            ]
        self.sigma = torch.tensor(rows)
        self.a = (1 - self.sigma**2).clamp(min=0).sqrt()
        self.signal = torch.cat([torch.ones(len(rows), 1), self.a.cumprod(1)], 1)
        self.size = 0.5 * self.sigma

    def noisy(self, x: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """Return the data on a level, and one level above."""
        signal = self.signal[:, level, None]
        x = signal * x + (1 - signal**2).sqrt() * torch.randn_like(x)
        a, sigma = self.a[:, level, None], self.sigma[:, level, None]
        return x, a * x + sigma * torch.randn_like(x)

    @torch.no_grad()
    def run(
        self, energy: Energies, above: Tensor, level: Tensor, adapt: bool = False
    ) -> Tensor:
        """Sample x given its noisy copy by MALA."""
        a, sigma = self.a[:, level, None], self.sigma[:, level, None]
        size = self.size[:, level, None]
        x = a * above + sigma * torch.randn_like(above)
        if self.how.resampled:
            x = self._chosen(energy, a, sigma, above, level)

        def conditional(x: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = energy.with_gradient(x, level)
            error = (a * x - above) / sigma
            return value + (error**2).sum(2) / 2, gradient + a / sigma * error

        u, g = conditional(x)
        accepted = torch.zeros_like(u)
        for _ in range(self.how.n_steps):
            noise = torch.randn_like(x)
            new = x - size**2 / 2 * g + size * noise
            v, f = conditional(new)
            back = size / 2 * (g + f) - noise
            log_ratio = u - v + ((noise**2).sum(2) - (back**2).sum(2)) / 2
            accepted += log_ratio.clamp(max=0).exp().nan_to_num(0.0)
            yes = torch.rand_like(u).log() < log_ratio
            x, g = (torch.where(yes[..., None], *pair) for pair in ((new, x), (f, g)))
            u = torch.where(yes, v, u)
        if adapt:
            error = accepted / self.how.n_steps - 0.7
            total = torch.zeros_like(self.size).index_add_(1, level, error)
            count = torch.bincount(level, minlength=self.how.n_levels).clamp(min=1)
            self.size = (self.size * (0.05 * total / count).exp()).minimum(self.sigma)
        return x

    def _chosen(
        self, energy: Energies, a: Tensor, sigma: Tensor, above: Tensor, level: Tensor
    ) -> Tensor:
        """Choose one of sixteen initial points by its importance weight."""
        n = above.shape[1]
        around = (a * above).repeat(1, N_STARTS, 1)
        x = around + sigma.repeat(1, N_STARTS, 1) * torch.randn_like(around)
        weight = (x**2).sum(2) / 2 - energy(x, level.repeat(N_STARTS))
        gumbel = -torch.log(-torch.log(torch.rand_like(weight)))
        place = (weight + gumbel).view(-1, N_STARTS, n).argmax(1) * n + torch.arange(n)
        return x.gather(1, place[..., None].expand(-1, -1, x.shape[2]))


class Training:
    """All models of one dimension and method."""

    def __init__(self, how: Method, dim: int, widths: Tensor, n_updates: int) -> None:
        self.how, self.dim, self.widths = how, dim, widths
        self.energy = Energies(len(widths), dim, how.n_levels)
        self.chains = Chains(how, widths)
        for tensor in self.energy.parameters:
            tensor.requires_grad_()
        self.adam = torch.optim.Adam(self.energy.parameters, lr=RATE)
        self.decay = torch.optim.lr_scheduler.CosineAnnealingLR(self.adam, n_updates)

    def update(self) -> None:
        """Make one step of Adam."""
        level = torch.randint(self.how.n_levels, (BATCH,))
        x = sample_modes(BATCH, self.dim, self.widths)
        x, above = self.chains.noisy(x, level)
        sample = self.chains.run(self.energy, above, level, adapt=True)
        loss = (self.energy(x, level) - self.energy(sample, level)).mean(1).sum()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.decay.step()

    @torch.no_grad()
    def evaluate(self, n: int = 40_000) -> dict[str, list[float]]:
        """Evaluate energy and samples of every model.

        log Z by importance sampling from three distributions: the data, the data with
        twice the width, and a normal distribution of standard deviation 2.
        """
        dim, widths = self.dim, self.widths
        wide = 2 * torch.randn(len(widths), n // 4, dim)
        parts = sample_modes(n // 2, dim, widths), sample_modes(n // 4, dim, 2 * widths)
        x = torch.cat([*parts, wide], 1)
        normal = -(x**2).sum(2) / 8 - dim * math.log(8 * math.pi) / 2
        logs = [log_density(x, widths), log_density(x, 2 * widths), normal]
        shares = torch.tensor([0.5, 0.25, 0.25]).log()[:, None, None]
        level = torch.zeros(x.shape[1], dtype=torch.long)
        weight = -self.energy(x, level) - (torch.stack(logs) + shares).logsumexp(0)
        log_z = weight.logsumexp(1) - math.log(x.shape[1])
        w = weight.softmax(1)
        data = sample_modes(n, dim, widths)
        gap = log_density(data, widths) + self.energy(data, level)
        y = torch.randn(len(widths), 2000, dim)
        for t in reversed(range(self.how.n_levels)):
            y = self.chains.run(self.energy, y, torch.full((2000,), t))
        one, two = (sample_modes(2000, dim, widths) for _ in range(2))
        return {
            "kl": (gap.mean(1) + log_z).tolist(),
            "energy right": (w * (x[..., 0] > 0)).sum(1).tolist(),
            "effective samples": (1 / (w**2).sum(1)).tolist(),
            "samples right": (y[..., 0] > 0).float().mean(1).tolist(),
            "energy distance": energy_distance(y, one).tolist(),
            "energy distance of data": energy_distance(two, one).tolist(),
            "step size, level 0": self.chains.size[:, 0].tolist(),
        }


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    """Distance of two sets of samples that is 0 for equal distributions."""
    within = torch.cdist(x, x).mean((1, 2)) + torch.cdist(y, y).mean((1, 2))
    return 2 * torch.cdist(x, y).mean((1, 2)) - within


def seconds_of_updates(dim: int, widths: Tensor, rounds: int = 3) -> dict[str, float]:
    """Measure the CPU time of an update: the least of several, taken in turns."""
    trainings = {k: Training(how, dim, widths, 100) for k, how in METHODS.items()}
    least = dict.fromkeys(METHODS, math.inf)
    for _ in range(rounds):
        for name, training in trainings.items():
            begin = time.process_time()
            training.update()
            least[name] = min(least[name], time.process_time() - begin)
    return least


def main() -> None:
    """Run everything, and store it after each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dim", type=int)
    parser.add_argument("--updates", type=int, default=600, help="of six levels")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started, dim, n_runs = time.time(), arguments.dim, arguments.runs
    widths = torch.tensor(WIDTHS).repeat_interleave(n_runs)
    config = {"dim": dim, "n_runs": n_runs, "batch": BATCH, "hidden": HIDDEN}
    config["methods"] = {name: asdict(how) for name, how in METHODS.items()}
    table: dict[str, dict[str, dict[str, object]]] = {str(w): {} for w in WIDTHS}
    cost = seconds_of_updates(dim, widths)
    longest = arguments.updates * cost[next(iter(METHODS))]
    for name, how in METHODS.items():
        n_updates = round(longest / cost[name])
        begin = time.process_time()
        training = Training(how, dim, widths, n_updates)
        for _ in range(n_updates):
            training.update()
        seconds = (time.process_time() - begin) / len(widths)
        found = training.evaluate()
        print(dim, name, n_updates, round(seconds, 1), found, flush=True)
        for k, width in enumerate(WIDTHS):
            row = {m: v[k * n_runs : (k + 1) * n_runs] for m, v in found.items()}
            row |= {"updates": n_updates, "seconds": seconds}
            row["seconds of an update"] = cost[name] / len(widths)
            table[str(width)][name] = row
    provenance = collect_provenance(seed=0, device="cpu", started=started)
    result = Result(
        f"drl/levels-{dim}d", "full", config, {"table": table}, {}, provenance
    )
    print(save_result(result, arguments.root))


if __name__ == "__main__":
    main()
