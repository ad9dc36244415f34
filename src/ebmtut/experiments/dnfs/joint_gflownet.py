"""EB-GFN on a small plane: an energy and a GFlowNet that learn together.

Source: Zhang et al. (2022), a rival in Table 2 of Ou, Zhang and Li (2025).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ebmtut.energies import MLPEnergy
from ebmtut.experiments.dnfs.joint_training import JointConfig
from ebmtut.experiments.dnfs.law_scores import entropy, independent_bits, judged
from ebmtut.experiments.dnfs.planes import plane_law, plane_picture
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import BitsGFlowNet, terminal_law
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import train_eb_gfn


def gflownet_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy with a GFlowNet that proposes its negative samples."""
    data = plane_law(density, config.n_bits)
    n_sites = 2 * config.n_bits
    x_all, law_there = enumerate_states(n_sites).float().to(device), data.to(device)
    energy = MLPEnergy(n_sites, 128, 3, generator=make_generator(seed)).to(device)
    policy = BitsGFlowNet(n_sites, 128, generator=make_generator(seed)).to(device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return x_all[torch.multinomial(law_there, n, True, generator=generator)]

    found = train_eb_gfn(
        energy,
        policy,
        sample,
        config.gflownet,
        generator=make_generator(seed, device),
        checkpoint=checkpoint,
        identity={"density": density, "n_bits": config.n_bits, "seed": seed},
    )
    with torch.no_grad():
        law = (-found.energy(x_all).double()).softmax(0).cpu()
    drawn = terminal_law(policy.cpu()).double().exp()
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    scalars = {"entropy": entropy(data), "accepted": float(late.mean())}
    null = independent_bits(data)
    for name, judged_law in (("", law), ("flow ", drawn), ("null ", null)):
        scalars |= {name + k: v for k, v in judged(judged_law, data).items()}
    pictures = {"energy": law, "flow": drawn}
    return Outcome(
        {**scalars, "cpu s": found.cpu_seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )
