"""Max-product on a graph of a few nodes, over the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import anywidget
import numpy as np
import torch
import traitlets
from jaxtyping import Float64
from torch import Tensor

from ebmtut.checks import InputError, Positive, Range, check_range, checked
from ebmtut.random import logistic
from ebmtut.widgets._sources import script, style

__all__ = [
    "FIRST_SAMPLE",
    "SMALL_GRAPHS",
    "MessageExplorer",
    "SmallGraph",
    "message_explorer",
]

#: The first perturbation: on the frustrated ring its messages swing for long.
FIRST_SAMPLE = (-0.6, 0.5, -0.1, -0.2, 0.9, -1.2)


@dataclass(frozen=True)
class SmallGraph:
    """A graph that the widget offers, in spins: E = -sum c s_i s_j - h's.

    Attributes
    ----------
    name
        As the reader chooses it.
    positions
        Where its nodes are drawn, about inside [-1, 1] x [-1, 1].
    edges
        Nodes that are coupled.
    couplings
        One an edge; each edge counts once.
    fields
        One a node.
    """

    name: str
    positions: tuple[tuple[float, float], ...]
    edges: tuple[tuple[int, int], ...]
    couplings: tuple[float, ...]
    fields: tuple[float, ...]

    def __post_init__(self) -> None:
        for edge in self.edges:
            if len(set(edge)) != 2 or not set(edge) <= set(range(self.n_sites)):
                raise InputError(
                    f"edges of {self.name!r} must join two of {self.n_sites} nodes, "
                    f"got {edge}"
                )
        for name, values, n in (
            ("couplings", self.couplings, len(self.edges)),
            ("fields", self.fields, self.n_sites),
        ):
            if len(values) != n:
                raise InputError(
                    f"{name} of {self.name!r} must be {n} numbers, got {len(values)}"
                )

    @property
    def n_sites(self) -> int:
        """Number of nodes."""
        return len(self.positions)

    @checked
    def to_bits(
        self, temperature: Positive = 1.0
    ) -> tuple[Float64[Tensor, "n_sites n_sites"], Float64[Tensor, " n_sites"]]:
        """Weight and bias of the same distribution on bits, E = -x'Wx/2 - b'x."""
        weight = torch.zeros((self.n_sites,) * 2, dtype=torch.float64, device="cpu")
        for (i, j), coupling in zip(self.edges, self.couplings, strict=True):
            weight[i, j] = weight[j, i] = 4 * coupling / temperature
        fields = torch.tensor(self.fields, dtype=torch.float64, device="cpu")
        return weight, 2 * fields / temperature - weight.sum(dim=1) / 2


_SQUARE = ((-1.0, 0.9), (1.0, 0.9), (1.0, -0.9), (-1.0, -0.9))
_RING = ((0, 1), (1, 2), (2, 3), (0, 3))
_K4 = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))

#: The graphs that the widget offers. Four coupled spins are the model of Section 5.1 of
#: Lázaro-Gredilla et al. (2021), with the coupling that PMP learns.
SMALL_GRAPHS: tuple[SmallGraph, ...] = (
    SmallGraph("frustrated ring", _SQUARE, _RING, (1.0, 1.0, 1.0, -1.0), (0.0,) * 4),
    SmallGraph("four coupled spins", _SQUARE, _K4, (0.333,) * 6, (0.0,) * 4),
    SmallGraph(
        "four coupled spins, five times stronger",
        _SQUARE,
        _K4,
        (1.665,) * 6,
        (0.0,) * 4,
    ),
    SmallGraph(
        "frustrated triangle",
        ((0.0, 1.0), (1.1, -0.8), (-1.1, -0.8)),
        ((0, 1), (1, 2), (0, 2)),
        (-3.0,) * 3,
        (0.0,) * 3,
    ),
    SmallGraph(
        "chain of six",
        tuple((0.48 * k - 1.2, 0.7 * (-1) ** k) for k in range(6)),
        tuple((k, k + 1) for k in range(5)),
        (0.5,) * 5,
        (0.2,) + (0.0,) * 5,
    ),
)


class MessageExplorer(anywidget.AnyWidget):
    """Decoded states of a small model over the sweeps, beside its MAP states.

    Everything is computed in the page. Make it by `message_explorer`.

    Attributes
    ----------
    graph
        Place of the chosen graph. All attributes down to ``init`` follow the reader.
    couplings
        Of the chosen graph, in spins.
    damping
        Part of the old message that is kept, 0 to 0.9.
    n_sweeps
        Sweeps of max-product, 0 to 40.
    sample
        The perturbation whose decoded states are shown.
    init
        "symmetric" or "zero", the initial messages.
    graphs
        What may be chosen, see `SmallGraph`.
    noise
        Logistic perturbations, float32, ``stride`` per sample.
    stride
        Perturbations per sample; smaller graphs use the first.
    """

    _esm = script("message_explorer.js")
    _css = style("message_explorer.css")

    graph = traitlets.Int().tag(sync=True)
    couplings = traitlets.List(traitlets.Float()).tag(sync=True)
    damping = traitlets.Float(0.5, min=0.0, max=0.9).tag(sync=True)
    n_sweeps = traitlets.Int(20, min=0, max=40).tag(sync=True)
    sample = traitlets.Int(0, min=0).tag(sync=True)
    init = traitlets.Enum(("symmetric", "zero"), "symmetric").tag(sync=True)
    graphs = traitlets.List(traitlets.Dict()).tag(sync=True)
    noise = traitlets.Bytes().tag(sync=True)
    stride = traitlets.Int().tag(sync=True)

    @traitlets.validate("graph")
    def _offered(self, proposal: Any) -> int:
        graph, n = proposal["value"], len(self.graphs)
        if not 0 <= graph < n:
            raise traitlets.TraitError(f"graph must be 0 to {n - 1}, got {graph}")
        return graph


@checked
def message_explorer(
    graphs: Sequence[SmallGraph] = SMALL_GRAPHS,
    *,
    n_samples: Annotated[int, Range(low=40)] = 1000,
    generator: torch.Generator,
) -> MessageExplorer:
    """Make the widget.

    Parameters
    ----------
    graphs
        What the reader may choose from, the first at the start; of at most six nodes.
    n_samples
        Perturbations, at least 40, common to all settings.
    """
    check_range("number of graphs", len(graphs), low=1, integer=True)
    for graph in graphs:
        check_range(f"nodes of {graph.name!r}", graph.n_sites, low=1, high=6)
    stride = max(graph.n_sites for graph in graphs)
    noise = logistic((n_samples, stride), generator=generator)
    noise[0] = noise.new_tensor(FIRST_SAMPLE)[:stride]
    return MessageExplorer(
        graph=0,
        couplings=list(graphs[0].couplings),
        graphs=[asdict(graph) | {"n_sites": graph.n_sites} for graph in graphs],
        noise=noise.numpy().astype(np.float32).tobytes(),
        stride=stride,
    )
