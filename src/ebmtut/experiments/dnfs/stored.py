"""Networks that a stored run has trained."""

from pathlib import Path

import torch

from ebmtut.experiments.dnfs.lattices import column_name
from ebmtut.experiments.dnfs.recipes import CRITICAL
from ebmtut.flows import OddLatticeNetwork
from ebmtut.results import load_result
from ebmtut.widgets import TrainedFlow

_SIDE = 10


def stored_flows(root: Path | None = None) -> list[TrainedFlow]:
    """Return the first seeds of the package's recipe in dnfs/ising at full scale."""
    result = load_result("dnfs/ising", "full", root)
    found = []
    for name, sigma in (("critical", CRITICAL), ("σ = 0.1", 0.1)):
        cell = f"ours/{column_name(_SIDE, sigma)}"
        state = {
            key.split("/")[0].removeprefix("net."): torch.from_numpy(value)
            for key, value in result.arrays.items()
            if key.startswith("net.") and key.endswith(cell)
        }
        network = OddLatticeNetwork(
            _SIDE,
            width=state["kernel"].shape[1],
            n_hidden=state["squares.weight"].shape[0],
        )
        network.load_state_dict(state)
        found.append(TrainedFlow(name, sigma, network))
    return found
