"""drl/architectures (Tables 5 and 6): every image set's network, by its sizes."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from ebmtut.checks import Range, checked
from ebmtut.energies import PAPER_NETWORKS, WideResNetEnergy
from ebmtut.experiments.experiment import Experiment, Outcome
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import OKABE_ITO, TEXT_WIDTH
from ebmtut.results import Result


@checked
@dataclass(frozen=True)
class ArchitectureConfig:
    """How wide the networks are built."""

    channels: Annotated[int, Range(low=4)] = 4


def architectures_job(config: ArchitectureConfig, seed: int) -> Outcome:
    """Build every network, and give it an image."""
    table = {}
    for name, whole in PAPER_NETWORKS.items():
        built = replace(whole, channels=config.channels)
        energy = WideResNetEnergy(built)
        image = torch.zeros(1, built.n_colors, built.side, built.side)
        with torch.no_grad():
            value = energy(image, torch.tensor([0]))
        counted = sum(p.numel() for p in energy.parameters())
        table[name] = {
            **asdict(whole),
            "parameters": whole.n_parameters(),
            "counted": counted / built.n_parameters(),
            "finite": bool(torch.isfinite(value).all()),
        }
    return Outcome({"networks": table})


def draw_architectures(result: Result) -> Figure:
    """Draw how many numbers each network has."""
    rows = result.scalars["networks"]
    figure, ax = plt.subplots(figsize=(TEXT_WIDTH, 0.6 + 0.5 * len(rows)))
    labels = [
        f"{name}\nN = {row['n_blocks']}, side {row['side']}"
        for name, row in rows.items()
    ]
    millions = [row["parameters"] / 1e6 for row in rows.values()]
    ax.barh(labels, millions, color=OKABE_ITO["blue"], height=0.6)
    ax.invert_yaxis()
    ax.set_xlabel("trainable parameters, in millions")
    return figure


def check_architectures(result: Result) -> Verdicts:
    """Ask that every column is built, with as many numbers as the formula says."""
    for name, row in result.scalars["networks"].items():
        good = float(row["finite"] and row["counted"] == 1.0)
        label = f"{name}: is built, with as many parameters as the formula says"
        yield claim(label, good, "at least", 1.0, sanity=True)


EXPERIMENT = Experiment(
    id="drl/architectures",
    title="The paper's networks",
    presets={
        "quick": ArchitectureConfig(),
        "full": ArchitectureConfig(channels=16),
        "paper": ArchitectureConfig(channels=128),
    },
    job=architectures_job,
    figure=draw_architectures,
    check=check_architectures,
)
