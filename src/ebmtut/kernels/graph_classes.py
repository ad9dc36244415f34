"""Gibbs sweeps of sparse graphs by counted random numbers, in plain torch.

What the GPU's kernel does. Sites are sorted by colour, chains lie innermost, and all
sites of a colour are redrawn at once, each from a list of its neighbours that is filled
up to the longest of all by weights of zero. Fields are single precision, uniform
numbers have 23 bits: a probability below 6e-8 counts as zero. Four chains share a call
of Philox, which returns four words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from ebmtut.energies import PairwiseGraph
from ebmtut.kernels.philox import philox

__all__ = ["ClassPlan", "classes_of", "plain_class_sweeps"]


class ClassPlan(NamedTuple):
    """A graph with its sites sorted by colour.

    Attributes
    ----------
    order
        Sites in the order of the places.
    neighbor, weight
        Of each place, the places of its neighbours and the edges' weights,
        (n_places, width).
    bias
        Of each place.
    first
        Where each colour begins, and the end.
    starts
        The same, on the device.
    """

    order: Int[Tensor, " n_sites"]
    neighbor: Tensor
    weight: Tensor
    bias: Tensor
    first: tuple[int, ...]
    starts: Tensor


def classes_of(model: PairwiseGraph, device: torch.device) -> ClassPlan:
    """Lay out a graph on a device."""
    lists, colors = model.neighbor_lists(), model.coloring()
    order = torch.argsort(colors, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    degree = lists.start.diff()
    site = torch.repeat_interleave(degree)
    turn = torch.arange(len(site), device=site.device) - lists.start[site]
    width = int(degree.max()) if len(degree) else 0
    neighbor = order.new_zeros(len(order), width)
    weight = torch.zeros_like(neighbor, dtype=torch.float32)
    neighbor[place[site], turn] = place[lists.neighbor]
    weight[place[site], turn] = lists.weight.float()
    first = (0, *torch.bincount(colors).cumsum(0).tolist())
    bias = model.bias.detach().float()[order]
    return ClassPlan(
        order.to(device),
        neighbor.to(device, torch.int32),
        weight.to(device),
        bias.to(device),
        first,
        torch.tensor(first, dtype=torch.int32, device="cpu").to(device),
    )


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
        for k in range(plan.weight.shape[1]):
            other = states[plan.neighbor[begin:end, k].long()]
            field = field + plan.weight[begin:end, k, None] * other
        counters = (here.expand(-1, len(chain)), chain // 4, step, 0)
        draws = torch.stack(philox(seed, counters))
        draw = draws[chain % 4, :, chain].T
        uniform = ((draw >> 9) + 0.5) * 2.0**-23
        # u < 1 / (1 + exp(-f)), without a division by infinity.
        up = uniform + uniform * torch.exp(-field) < 1
        states[begin:end] = up.to(states.dtype)
    return states
