"""Training steps per second of energy discrepancy, beside plain torch and a bound.

    python benchmarks/bench_energy_discrepancy.py [--out results.json]
        [--official density_estimation.ipynb]

The setting is the paper's for densities: batch 128, M = 32 negatives, an MLP of
four layers and 256 hidden units on 32 bits, ED-Bern with eps = 0.1, w = 1.
A step samples a batch, makes the negatives, differentiates the loss, clips the
gradient, updates the weights by Adam and averages them. The variants:

- plain: the same step written plainly in float32, with every negative in the
  backward pass and unfused Adam; positives and negatives are evaluated separately,
  as in Eq. 2;
- official, if the notebook of the paper's authors is given (github.com/J-zin/
  discrete-energy-discrepancy, commit 4582685): its network, whose activation has a
  learned slope, its base and its loss in such a step, as its own loop makes it;
- this package: `train` with `energy_discrepancy_loss`, in float32, in bfloat16, and
  in bfloat16 with 4 of the 32 negatives in the backward pass, the recipe of the
  book's chapter.

The floor of a variant is the time of its matrix products alone, at the rate
of one large product of its precision, measured in the same run. It bounds the speedup
of bfloat16 with all negatives: three times plain on an AMD with AVX-512 BF16. On an
Intel that only has AVX-512 BF16, products in bfloat16 ran at 0.6 of float32's rate, and
training in bfloat16 was slower than in float32. On an Intel with AMX, products take a
seventh of the time, and the step takes four times its floor: products of transposed
matrices run at half that rate, and the rest of the time goes into look-up tables (in
one thread only), random numbers, casts and the optimiser.

Other processes may run on the machine. So variants take turns, everything runs in
one thread, and CPU time is measured, which does not grow while a process waits;
medians are compared. The ratio of wall-clock times is shown as well.
"""

import argparse
import copy
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut.energies import MLPEnergy
from ebmtut.losses import Bernoulli, energy_discrepancy_loss
from ebmtut.random import make_generator
from ebmtut.results import collect_provenance
from ebmtut.results.atomic import replace_file
from ebmtut.training import TrainConfig, bfloat16_is_fast, train

N_SITES, HIDDEN, BATCH, M, EPS, W = 32, 256, 128, 32, 0.1, 1.0
TARGET = 2.5  # times the plain steps per second

# name: precision, negatives in the backward pass (None: all)
OURS = {
    "ours, float32": ("float32", None),
    "ours, bfloat16": ("bfloat16", None),
    "ours, bfloat16, 4 backward": ("bfloat16", 4),
}


def sample(n: int, *, generator: torch.Generator) -> Tensor:
    return torch.randint(2, (n, N_SITES), generator=generator).float()


def our_steps(precision: str, n_backward: int | None) -> Callable[[int], None]:
    energy, generator = MLPEnergy(N_SITES, HIDDEN), make_generator(0)

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(
            energy,
            x,
            Bernoulli(EPS),
            n_negatives=M,
            stabilizer=W,
            n_backward=n_backward,
            generator=generator,
        )

    def run(n: int) -> None:
        config = TrainConfig(n_steps=n, batch_size=BATCH, precision=precision)
        train(energy, loss, sample, config, generator=generator)

    return run


def plain_loss(energy: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
    """Eq. 2 written directly; the random numbers are those of `Bernoulli`."""
    batch, n_sites = x.shape
    y = (x - (torch.rand(batch, n_sites, generator=generator) < EPS).float()).abs()
    noise = (torch.rand(batch, M, n_sites, generator=generator) < EPS).float()
    negatives = (y.unsqueeze(1) - noise).abs()
    positive = energy(x)
    negative = energy(negatives.view(-1, n_sites)).view(batch, M)
    terms = positive.unsqueeze(1) - negative
    stabilizer = torch.full((batch, 1), math.log(W))
    return (torch.cat([terms, stabilizer], 1).logsumexp(1) - math.log(M)).mean()


def plain_steps() -> Callable[[int], None]:
    energy, generator = MLPEnergy(N_SITES, HIDDEN), make_generator(0)
    average = MLPEnergy(N_SITES, HIDDEN)
    optimizer = torch.optim.Adam(energy.parameters(), lr=2e-3)

    def run(n: int) -> None:
        for _ in range(n):
            loss = plain_loss(energy, sample(BATCH, generator=generator), generator)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(energy.parameters(), 5.0)
            optimizer.step()
            with torch.no_grad():
                pairs = zip(average.parameters(), energy.parameters(), strict=True)
                for mean, weight in pairs:
                    mean.mul_(0.998).add_(weight, alpha=0.002)
            loss.item()

    return run


def official_steps(notebook: Path) -> Callable[[int], None]:
    """Return steps of the authors' network and loss: their cell is run, not copied."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (losses,) = [source for source in sources if "class EBM" in source]
    theirs: dict[str, Any] = {"torch": torch, "np": np, "__name__": "official"}
    exec(compile(losses, str(notebook), "exec"), theirs)
    generator = make_generator(0)
    network = theirs["MLPScore"](N_SITES, [HIDDEN, HIDDEN, HIDDEN, 1])
    energy = theirs["EBM"](network, torch.full((N_SITES,), 0.5))
    average = copy.deepcopy(energy)
    learned = [p for p in energy.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=2e-3)

    def run(n: int) -> None:
        for _ in range(n):
            x = sample(BATCH, generator=generator)
            loss = theirs["energy_discrepancy_bernoulli"](energy, x, EPS, M, W)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learned, 5.0)
            optimizer.step()
            with torch.no_grad():
                pairs = zip(average.parameters(), energy.parameters(), strict=True)
                for mean, weight in pairs:
                    mean.data = mean.data * 0.999 + weight.data * 0.001
            loss.item()

    return run


def check_same_loss() -> None:
    """Fail unless both variants compute one loss, so that they compare."""
    energy, x = MLPEnergy(N_SITES, HIDDEN), sample(BATCH, generator=make_generator(1))
    plain = plain_loss(energy, x, make_generator(2))
    ours = energy_discrepancy_loss(
        energy,
        x,
        Bernoulli(EPS),
        n_negatives=M,
        stabilizer=W,
        generator=make_generator(2),
    )
    torch.testing.assert_close(plain, ours, rtol=0, atol=1e-5)


def gemm_flops(n_backward: int | None) -> float:
    """Floating-point operations of a step's matrix products."""
    layers = [(N_SITES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]
    forward = sum(2 * a * b for a, b in layers)
    # Backward is two products a layer, but the data asks for no gradient.
    backward = 2 * forward - 2 * N_SITES * HIDDEN
    if n_backward is None:
        return BATCH * (1 + M) * (forward + backward)
    chosen = BATCH * (1 + n_backward) * (forward + backward)
    return BATCH * (1 + M) * forward + chosen


def gemm(dtype: torch.dtype) -> Callable[[int], None]:
    """Return the largest product of a step, as often as asked for."""
    a = torch.randn(BATCH * (1 + M), HIDDEN, generator=make_generator(0)).to(dtype)
    b = torch.randn(HIDDEN, HIDDEN, generator=make_generator(1)).to(dtype)

    def run(n: int) -> None:
        for _ in range(n):
            a @ b

    return run


def seconds(run: Callable[[int], None], n: int) -> tuple[float, float]:
    """Seconds of ``run(1)``: of the processor, on the wall."""
    start = time.process_time(), time.perf_counter()
    run(n)
    stop = time.process_time(), time.perf_counter()
    return (stop[0] - start[0]) / n, (stop[1] - start[1]) / n


def measure(n_steps: int, repeats: int, official: Path | None) -> dict:
    runs = {"plain, float32": plain_steps()}
    if official:
        runs["official, float32"] = official_steps(official)
    runs |= {name: our_steps(*how) for name, how in OURS.items()}
    gemms = {"float32": gemm(torch.float32), "bfloat16": gemm(torch.bfloat16)}
    for run in (*runs.values(), *gemms.values()):
        run(3)  # warms up
    times: dict[str, list[float]] = {name: [] for name in (*runs, *gemms)}
    walls: dict[str, list[float]] = {name: [] for name in (*runs, *gemms)}
    for _ in range(repeats):
        for name, run in (*runs.items(), *gemms.items()):
            processor, wall = seconds(run, n_steps)
            times[name].append(processor)
            walls[name].append(wall)

    flops = 2 * BATCH * (1 + M) * HIDDEN * HIDDEN
    rates = {name: flops / statistics.median(times[name]) / 1e9 for name in gemms}
    rows = []
    for name in runs:
        precision, n_backward = OURS.get(name, ("float32", None))
        step = statistics.median(times[name])
        floor = gemm_flops(n_backward) / rates[precision] / 1e9
        ratio = ratios(times, name)
        rows.append(
            {
                "variant": name,
                "steps_per_second": 1 / step,
                "ratio_to_plain": statistics.median(ratio),
                "ratio_range": [min(ratio), max(ratio)],
                "ratio_by_the_wall": statistics.median(ratios(walls, name)),
                "step_ms": 1e3 * step,
                "gemm_floor_ms": 1e3 * floor,
                "times_floor": step / floor,
            }
        )
    return {"rows": rows, "gemm_gflops": rates}


def ratios(times: dict[str, list[float]], name: str) -> list[float]:
    """How many times faster than plain, turn by turn, under the same load."""
    plain = times["plain, float32"]
    return [p / t for p, t in zip(plain, times[name], strict=True)]


def print_table(report: dict) -> None:
    titles = f"{'steps/s':>9}{'ratio':>7}{'by wall':>9}"
    titles += f"{'ms':>8}{'floor ms':>10}{'x floor':>9}"
    print(f"{'variant':28}{titles}")
    for row in report["rows"]:
        print(
            f"{row['variant']:28}{row['steps_per_second']:9.1f}"
            f"{row['ratio_to_plain']:7.2f}{row['ratio_by_the_wall']:9.2f}"
            f"{row['step_ms']:8.1f}"
            f"{row['gemm_floor_ms']:10.1f}{row['times_floor']:9.2f}"
        )
    rates = ", ".join(f"{k} {v:.0f}" for k, v in report["gemm_gflops"].items())
    print(f"matrix products, Gflop/s: {rates}")
    best = report["rows"][-1]["ratio_to_plain"]
    if report["bfloat16_is_fast"]:
        verdict = "met" if best >= TARGET else "missed"
        print(f"target: {TARGET} times plain; {best:.2f}: {verdict}")
    else:
        print(f"target of {TARGET} times plain: not asked of a CPU without bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="steps a repeat")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--official", type=Path, help="the authors' notebook")
    parser.add_argument("--out", type=Path, help="where to write the numbers")
    arguments = parser.parse_args()
    started = time.time()
    torch.set_num_threads(1)

    check_same_loss()
    report = measure(arguments.steps, arguments.repeats, arguments.official)
    report["bfloat16_is_fast"] = bfloat16_is_fast(torch.device("cpu"))
    report["setting"] = {
        "batch": BATCH,
        "n_negatives": M,
        "hidden": HIDDEN,
        "n_layers": 4,
        "n_sites": N_SITES,
        "threads": 1,
        "steps_a_repeat": arguments.steps,
        "repeats": arguments.repeats,
    }
    print_table(report)
    if arguments.out:
        provenance = collect_provenance(seed=0, started=started)
        report["provenance"] = asdict(provenance)
        replace_file(arguments.out, (json.dumps(report, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
