"""Gibbs sweeps of sparse graphs by counted random numbers, in plain torch.

What the GPU's kernel does. Sites are sorted by colour, those of one colour by their
number of neighbours. Four chains share a call of Philox. Fields are single precision,
uniform numbers have 23 bits: a probability below 6e-8 counts as zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ebmtut.energies import PairwiseGraph
from ebmtut.kernels.philox import philox


class ClassPlan(NamedTuple):
    """A graph with its sites sorted by colour.

    Attributes
    ----------
    order, start, neighbor
        Sites in the order of places; where a list begins; places of neighbours.
    first, starts
        Where each colour begins, and the end; the same, on the device.
    edge, weight, bias
        The edge to each neighbour, weights, and the bias of each place.
    """

    order: Int[Tensor, " n_sites"]
    start: Tensor
    neighbor: Tensor
    first: tuple[int, ...]
    starts: Tensor
    edge: Tensor
    weight: Tensor
    bias: Tensor


# What depends on the edges alone, and the version of these that it was made for.
_known = WeakTensorKeyDictionary()


def classes_of(model: PairwiseGraph, device: torch.device) -> ClassPlan:
    """Lay out a graph on a device; what depends on edges is kept for later calls."""
    edges = model.edges
    # Tensors of inference mode count no versions.
    version = None if edges.is_inference() else (edges._version, device)
    kept, layout = _known.get(edges, (None, {}))
    if version is None or kept != version:
        layout = _layout(model, device)
        _known[edges] = version, layout
    order, edge = layout["order"], layout["edge"]
    weight, bias = (x.detach().to(device).float() for x in (model.weight, model.bias))
    return ClassPlan(**layout, weight=weight[edge], bias=bias[order])


def _layout(model: PairwiseGraph, device: torch.device) -> dict[str, Any]:
    """Return a plan without its numbers."""
    lists = model.neighbor_lists()
    colors, degree = lists.coloring(), lists.start.diff()
    order = torch.argsort(degree, stable=True)
    order = order[torch.argsort(colors[order], stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    here, there = place[model.edges.flatten()], place[model.edges.flip(0).flatten()]
    by_place = torch.argsort(here, stable=True)
    start = torch.cat([degree.new_zeros(1), degree[order].cumsum(0)])
    first = (0, *torch.bincount(colors).cumsum(0).tolist())
    starts = torch.tensor(first, dtype=torch.int32, device="cpu")
    return {
        "order": order.to(device),
        "start": start.to(device, torch.int32),
        "neighbor": there[by_place].to(device, torch.int32),
        "first": first,
        "starts": starts.to(device),
        "edge": (by_place % max(1, model.edges.shape[1])).to(device),
    }


def plain_class_sweeps(
    states: Int[Tensor, "n_sites n_chains"], plan: ClassPlan, seed: int, n_sweeps: int
) -> Int[Tensor, "n_sites n_chains"]:
    """Redraw class after class of int8 bits, in the plan's order."""
    states = states.clone()
    n_classes = len(plan.first) - 1
    chain = torch.arange(states.shape[1], device=states.device)
    for step in range(n_sweeps * n_classes):
        begin, end = plan.first[step % n_classes : step % n_classes + 2]
        here = torch.arange(begin, end, device=states.device)[:, None]
        field = plan.bias[begin:end, None].expand(-1, len(chain))
        degree = plan.start.diff()[begin:end, None]
        for k in range(int(degree[-1])):
            some = k < degree
            entry = torch.where(some, plan.start[begin:end, None] + k, 0)[:, 0]
            weight = torch.where(some, plan.weight[entry, None], 0)
            field = field + weight * states[plan.neighbor[entry].long()]
        counters = (here.expand(-1, len(chain)), chain // 4, step, 0)
        draws = torch.stack(philox(seed, counters))
        draw = draws[chain % 4, :, chain].T
        uniform = ((draw >> 9) + 0.5) * 2.0**-23
        # u < 1 / (1 + exp(-f)), without a division by infinity.
        up = uniform + uniform * torch.exp(-field) < 1
        states[begin:end] = up.to(states.dtype)
    return states
