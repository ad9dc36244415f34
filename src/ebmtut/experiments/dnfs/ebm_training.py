"""Row dnfs/ebm-training (Figures 6, 16): an energy and its sampler, learned together.

Source: Ou, Zhang and Li (2025), Section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.captions import range_of, ranges_of
from ebmtut.experiments.dnfs.joint_gflownet import gflownet_job
from ebmtut.experiments.dnfs.joint_training import JointConfig, joint_job
from ebmtut.experiments.dnfs.wide_joint import wide_joint
from ebmtut.experiments.dnfs.wide_planes import BITS
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Table
from ebmtut.training import EBGFNConfig

#: What we ask of the energy: nats above the entropy of the data.
GAP = 0.05


def learning_job(
    method: str,
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy by one of the methods: `joint_job` or `gflownet_job`.

    One of 16 bits a coordinate is learned by `wide_joint.wide_joint`.
    """
    if config.n_bits == BITS:
        return wide_joint(
            density,
            n_steps=config.n_steps,
            n_flow_steps=config.n_flow_steps,
            n_last=config.n_last,
            n_time_steps=config.n_time_steps,
            n_samples=config.n_samples,
            width=config.width,
            n_layers=config.n_layers,
            learning_rate=config.learning_rate,
            energy_learning_rate=config.energy_learning_rate,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
        )
    job = gflownet_job if method == "EB-GFN" else joint_job
    return job(density, config, seed, checkpoint, device)


def cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {
        (method, density): {"method": method, "density": density, "config": alone}
        for method in config.methods
        for density in config.densities
    }


def draw_laws(result: Result) -> Figure:
    """Draw data, energy and flow, a column a density."""
    densities = list(result.scalars["table"]["DNFS"])
    names = ("data", "energy", "flow")
    size = panel_size(3, max(3, len(densities)), title=0.15)
    figure, axes = plt.subplots(3, len(densities), figsize=size, squeeze=False)
    for density, column in zip(densities, axes.T, strict=True):
        column[0].set_title(density, fontsize=8)
        for name, ax in zip(names, column, strict=True):
            ax.imshow(result.arrays[f"{name}/DNFS/{density}"], origin="lower")
            ax.set(xticks=[], yticks=[])
            if density == densities[0]:
                ax.set_ylabel(name)
    return figure


def score_table(result: Result) -> Table:
    """Exact scores of energies and samplers beside independent bits, a row each."""
    columns: dict[str, list[Any]] = {"density": [], "law": []}
    columns |= {head: [] for head in ("KL [nats]", "TV", "MMD [1e-4]")}
    kinds = []
    table = result.scalars["table"]
    laws = [("DNFS", "energy", ""), ("DNFS", "flow", "flow ")]
    if "EB-GFN" in table:
        laws += [("EB-GFN", "EB-GFN, energy", ""), ("EB-GFN", "GFlowNet", "flow ")]
    laws.append(("DNFS", "independent", "null "))
    for density in table["DNFS"]:
        for method, name, key in laws:
            cell = table[method][density]
            columns["density"].append(density)
            columns["law"].append(name)
            for head, score in zip(list(columns)[2:], ("KL", "TV", "MMD"), strict=True):
                columns[head].append(range_of(cell[key + score]))
            kinds.append("null" if key == "null " else "")
    return Table(
        columns,
        caption="Distance from the data's law, summed over all states."
        + ranges_of(result),
        kinds=kinds,
    )


def check_gaps(result: Result) -> list[Verdict]:
    """The energy comes close to the entropy; so does the flow's own law.

    So does that of EB-GFN, where it was run.
    """
    verdicts = []
    for density, cell in result.scalars["table"]["DNFS"].items():
        of: dict[str, Any] = {"n_seeds": len(cell["KL"])}
        for words, key in (("energy", "KL"), ("flow", "flow KL")):
            mean, stderr = mean_and_stderr(cell[key])
            name = f"{density}: likelihood of the {words} below the entropy, nats"
            bound = GAP if key == "KL" else 2 * GAP
            verdicts.append(claim(name, mean, "at most", bound, stderr=stderr, **of))
    for density, cell in result.scalars["table"].get("EB-GFN", {}).items():
        mean, stderr = mean_and_stderr(cell["KL"])
        name = f"{density}: likelihood of EB-GFN's energy below the entropy, nats"
        of = {"stderr": stderr, "n_seeds": len(cell["KL"])}
        verdicts.append(claim(name, mean, "at most", 2 * GAP, **of))
    return verdicts


def no_coupling(result: Result) -> Result:
    """Return independent bits in the place of energy and flow."""
    table = {
        method: {
            density: cell | {"KL": cell["null KL"], "flow KL": cell["null KL"]}
            for density, cell in row.items()
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="dnfs/ebm-training",
    title="Energy and sampler, learned together",
    presets={
        "quick": JointConfig(
            densities=("8gaussians",),
            n_steps=200,
            n_last=100,
            n_samples=128,
            width=24,
            gflownet=EBGFNConfig(n_steps=250, n_samples=128, n_last=150),
        ),
        "full": JointConfig(n_seeds=2),
        # Section E.2: 32 bits, an energy of four layers of 256, leTF of three layers of
        # 128, 64 steps of time, batches of 128, a rate of 0.0001 for both, ten steps of
        # the flow to one of the energy. The numbers of steps, which it does not print,
        # are ours, and so are the mean of the energy's weights, the c_t of the flow's
        # loss, a batch's mean, and the last steps of the flow alone.
        "paper": JointConfig(
            methods=("DNFS",),
            n_bits=BITS,
            n_steps=100_000,
            n_flow_steps=10,
            n_last=10_000,
            n_time_steps=64,
            n_samples=128,
            n_reused=1,
            width=128,
            n_layers=3,
            learning_rate=1e-4,
            energy_learning_rate=1e-4,
        ),
    },
    cells=cells,
    job=learning_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    null=no_coupling,
    figure=draw_laws,
    check=check_gaps,
)
