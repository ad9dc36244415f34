"""A training step and a rollout of leTF and leConv, beside simpler code and LEAPS.

    python benchmarks/bench_flow.py --leaps FOLDER [--rounds 5] [--json flow.json]

The setting is the paper's: three layers, 4 heads, 64 features, a batch of 128,
10 x 10 sites. A step is a step of Adam on the loss of the package's recipe. A rollout
has 128 chains, and a few of its steps are timed; for this package a rollout of 64
steps is also timed as a whole. *Straightforward* is the same maths with the same
weights in float32: it evaluates the two directions of leTF one after the other, with
attention written out, and leConv by a loop over sites. LEAPS is the network of its
public repository in the sizes of its 15 x 15 lattice, with 209 thousand parameters
(leTF: 178 thousand); FOLDER is a checkout. LEAPS only has a convolution, so it is
compared with a leConv that has as many parameters.

All variants run in turn in one thread and one process, which keeps the memory that it
frees, as training does. The numbers are CPU seconds: medians of the rounds, and their
extremes.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from bench_message_passing import processor
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from ebmtut._allocator import keep_freed_memory
from ebmtut.energies import LatticeIsing
from ebmtut.flows import Flow, HollowConvolution, HollowTransformer, simulate
from ebmtut.losses.kolmogorov import kolmogorov_variance_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import collect_provenance

SIDE, BATCH, WIDTH, ALIKE = 10, 128, 64, 245
ROLLOUT = 4  # timed steps of a rollout; 64 cost sixteen times as much
WHOLE = 64  # steps of a rollout that is timed as a whole, once a round


class PlainTransformer(HollowTransformer):
    """leTF as one would first write it: a direction at a time, scores in full."""

    def hollow(self, x: Tensor, t: Tensor) -> Tensor:
        start = torch.full_like(x[:, :1], self.n_states)
        time = self.time(t)[:, None]
        parts = []
        for k, order in enumerate((x, x.flip(1))):
            tokens = torch.cat([start, order[:, :-1]], 1).long()
            place = self.place if k == 0 else self.place.flip(0)
            h = self.token(tokens) + place + self.direction[k] + time
            for block in self.blocks:
                q, k_, v = self.heads(block, block.norm_attention(h))
                earlier = torch.ones(h.shape[1], h.shape[1], dtype=torch.bool).tril()
                h = h + block.merge(self.attention(q, k_, v, earlier))
                h = h + block.narrow(gelu(block.widen(block.norm_feed(h))))
            h = self.norm(h)
            parts.append(self.heads(self, h if k == 0 else h.flip(1)))
        (qr, kr, vr), (ql, kl, vl) = parts
        q = (qr + ql) / math.sqrt(2)
        keys, values = torch.cat([kr, kl], 2), torch.cat([vr, vl], 2)
        return self.merge(self.attention(q, keys, values, self.seen))

    def heads(self, layer: nn.Module, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = layer.queries_keys_values(h).chunk(3, dim=2)
        split = [p.unflatten(2, (self.n_heads, -1)).transpose(1, 2) for p in parts]
        return split[0], split[1], split[2]

    def attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class PlainConvolution(HollowConvolution):
    """leConv by a loop over sites."""

    def hollow(self, x: Tensor, t: Tensor) -> Tensor:
        s, time, sites = 2 * x - 1, self.time(t), []
        for around in self.index:
            h = silu(self.first(s[:, around]) + time)
            for layer in self.layers:
                h = h + silu(layer(h))
            sites.append(h)
        return torch.stack(sites, 1)


class Leaps(nn.Module):
    """The network of LEAPS, for spins of a square, as one for bits of sites."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        # Its module imports what its convolution does not use.
        name = "rotary_embedding_torch"
        sys.modules.setdefault(name, ModuleType(name)).RotaryEmbedding = None
        spec = importlib.util.spec_from_file_location(
            "leaps_conv", folder / "src/nets/conv.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.net = module.LocEquivConvNet([3, 5, 7, 9, 15], num_channels=20)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.net(2 * x.unflatten(1, (SIDE, SIDE)) - 1, t).flatten(1)


def networks(leaps: Path | None) -> dict[tuple[str, str], tuple[nn.Module, bool]]:
    """Networks by kind and party, and whether they compute in bfloat16."""
    found: dict[tuple[str, str], tuple[nn.Module, bool]] = {}
    kinds = {
        "leTF": (HollowTransformer, PlainTransformer, (SIDE * SIDE,), WIDTH),
        "leConv": (HollowConvolution, PlainConvolution, (SIDE,), WIDTH),
    }
    for kind, (ours, plain, size, width) in kinds.items():
        one = ours(*size, width=width)
        other = plain(*size, width=width)
        other.load_state_dict(one.state_dict())
        x = torch.randint(2, (8, SIDE * SIDE), generator=make_generator(0)).float()
        t = torch.rand(8, generator=make_generator(0))
        torch.testing.assert_close(one(x, t), other(x, t), rtol=1e-4, atol=1e-4)
        found[kind, "straightforward"] = other, False
        found[kind, "ours"] = one, False
        found[kind, "ours, bf16"] = one, True
    if leaps is not None:
        wide = HollowConvolution(SIDE, width=ALIKE)
        found["as large as LEAPS", "LEAPS"] = Leaps(leaps), False
        found["as large as LEAPS", "leConv"] = wide, False
        found["as large as LEAPS", "leConv, bf16"] = wide, True
    return found


def works(
    network: nn.Module, bfloat16: bool, whole: bool
) -> dict[str, Callable[[], object]]:
    """A step of training, a few of a rollout and, if asked, a whole one."""
    path = AnnealingPath(LatticeIsing(SIDE, 0.2))
    flow = Flow(path, network)
    adam = torch.optim.Adam(network.parameters(), 1e-3)
    generator = make_generator(1)
    x = torch.randint(2, (16, BATCH // 16, SIDE * SIDE), generator=generator).float()
    t = torch.rand(16, generator=generator)

    def step() -> None:
        adam.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = kolmogorov_variance_loss(flow, x, t)
        loss.backward()
        adam.step()

    def rollout(n_steps: int = ROLLOUT) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            simulate(flow, BATCH, n_steps, generator=generator)

    found: dict[str, Callable[[], object]] = {"step": step, "rollout": rollout}
    return found | {"whole": partial(rollout, WHOLE)} if whole else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leaps", type=Path, help="a checkout of its repository")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    started, load = time.time(), os.getloadavg()[0]
    parties = networks(arguments.leaps)
    jobs = {
        (*names, what): work
        for names, (network, bfloat16) in parties.items()
        for what, work in works(network, bfloat16, names[1].startswith("ours")).items()
    }
    spent = {names: list[float]() for names in jobs}
    for k in range(arguments.rounds + 1):  # the first warms up
        for names, work in jobs.items():
            began = time.process_time()
            work()
            if k > 0:
                spent[names].append(time.process_time() - began)
        print("round", k, flush=True)
    rows = []
    for kind, party in parties:
        network, _ = parties[kind, party]
        row = {"network": kind, "party": party}
        row["parameters"] = sum(p.numel() for p in network.parameters())
        # An evaluation at the start, and one a step.
        for what, number in (("step", 1), ("rollout", ROLLOUT + 1)):
            each = [s / number for s in spent[kind, party, what]]
            row[f"{what} ms"] = 1000 * statistics.median(each)
            row[f"{what} from to"] = [1000 * min(each), 1000 * max(each)]
        if (kind, party, "whole") in spent:
            each = spent[kind, party, "whole"]
            row["64 steps s"] = statistics.median(each)
            row["64 steps from to"] = [min(each), max(each)]
        rows.append(row)
        print(row, flush=True)
    if arguments.json:
        report = {
            "processor": processor(),
            "rounds": arguments.rounds,
            "load average": load,
            "sites": SIDE * SIDE,
            "batch": BATCH,
            "rows": rows,
            "provenance": asdict(collect_provenance(seed=0, started=started)),
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
