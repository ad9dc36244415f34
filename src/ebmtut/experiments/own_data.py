"""Tables, pictures and the little model of the pages on rows of one's own."""

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError
from ebmtut.energies import Energy, EnergyFunction
from ebmtut.exact import exact_mean
from ebmtut.metrics import BernoulliProposal, Estimate, LogPartitions, nll
from ebmtut.results import Table


def mean_and_error(x: Float[Tensor, " n"]) -> tuple[float, float]:
    """Mean, and its standard error."""
    return float(x.mean()), float(x.std()) / math.sqrt(len(x))


def write_digits(path: Path, pool: int) -> None:
    """Write the digits that come with scikit-learn as a table of 0 and 1."""
    from sklearn.datasets import load_digits

    ink = torch.tensor(load_digits().images) / 16
    ink = torch.nn.functional.avg_pool2d(ink[:, None], pool)
    rows = (ink > ink.mean(0)).flatten(1).numpy()
    np.savetxt(path, rows, fmt="%d", delimiter=",")


def show_refusals(read: Callable[[Path], Any], *texts: str) -> None:
    """Print why files of these texts are refused, a line each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.csv"
        for text in texts:
            path.write_text(text, encoding="utf-8")
            try:
                read(path)
            except InputError as error:
                print(str(error).replace(str(path), path.name))
            else:
                raise RuntimeError(f"{text!r} is read")


def show_pairs(
    held_out: Float[Tensor, "n_rows n_sites"],
    samples: Mapping[str, Float[Tensor, "n_samples n_sites"]],
) -> None:
    """Draw the mean of each product of two bits of samples over that of the data."""
    first, second = torch.triu_indices(held_out.shape[1], held_out.shape[1], 1)

    def of(x: Tensor) -> Tensor:
        return (x.T @ x / len(x))[first, second]

    _, ax = plt.subplots(figsize=(4.2, 3.6))
    ax.axline((0, 0), slope=1, color="black", lw=0.8)
    for (name, x), marker in zip(samples.items(), "ox", strict=True):
        ax.plot(of(held_out), of(x), marker, ms=4, alpha=0.7, label=name)
    ax.set(xlabel="held-out rows", ylabel="samples")
    ax.legend(loc="upper left")
    plt.show()


@torch.no_grad()
def energy_table(
    energy: Energy, samples: Mapping[str, Float[Tensor, "n_samples n_sites"]]
) -> Table:
    """Mean energies of samples, and the exact one up to twenty bits."""
    means: dict[str, Any] = {k: mean_and_error(energy(x)) for k, x in samples.items()}
    kinds = [*[""] * (len(means) - 1), "null"]
    if energy.n_sites <= 20:
        means["exact"] = float(exact_mean(energy, energy))
        kinds.append("exact")
    numbers = list(means.values())
    return Table({"samples": [*means], "mean energy": numbers}, kinds=kinds, digits=3)


def partition_table(found: Mapping[str, LogPartitions]) -> Table:
    """Two estimates of each log Z, and the exact one where there is one."""
    return Table(
        {
            "learned by": list(found),
            "importance": [z.importance for z in found.values()],
            "fraction": [f"{z.share:.2g}" for z in found.values()],
            "annealing": [z.annealed for z in found.values()],
            "enumeration": [z.exact for z in found.values()],
        },
        caption="log Z with standard errors; effective fraction of importance samples.",
        digits=5,
    )


def likelihood_table(
    energies: Mapping[str, EnergyFunction],
    log_z: Mapping[str, Estimate],
    independent: BernoulliProposal,
    held_out: Float[Tensor, "n_data n_sites"],
) -> Table:
    """Negative log-likelihoods, and differences of them row by row."""
    with torch.no_grad():
        rows = {
            name: energy(held_out).double() + log_z[name].value
            for name, energy in energies.items()
        }
        found = [nll(energy, held_out, log_z[k]) for k, energy in energies.items()]
    first = next(iter(rows.values()))
    null = -independent.log_prob(held_out)
    uniform = torch.full_like(null, held_out.shape[1] * math.log(2))
    every = [*rows.values(), null, uniform]
    return Table(
        {
            "learned by": [*rows, "independent bits", "uniform bits"],
            "NLL": [
                *((score.value, score.stderr) for score in found),
                mean_and_error(null),
                float(uniform[0]),
            ],
            "gain over independent bits": [
                None if row is null else mean_and_error(null - row) for row in every
            ],
            f"gain over {next(iter(rows))}": [
                None if row is first else mean_and_error(first - row) for row in every
            ],
        },
        caption="Nats per held-out row: means over the rows and their standard errors.",
        kinds=[*[""] * len(rows), "null", "null"],
        digits=3,
    )
