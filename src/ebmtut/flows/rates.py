"""Rate matrices that transport the distributions along a path.

A locally equivariant network G satisfies G(x -> y) = -G(y -> x) for a state x and
its neighbour y. So one evaluation at x gives the rates from x to all its neighbours
and the rates from these neighbours to x.
"""

from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut.checks import InputError, OneOf, Positive, checked
from ebmtut.paths import AnnealingPath, Time
from ebmtut.tensor_checks import check_shape

__all__ = ["Flow", "FlowTerms", "RatioInfo"]


class FlowTerms(NamedTuple):
    """Rates and derivatives at a batch of states, from one evaluation of a flow.

    Attributes
    ----------
    outward
        Rates R_t(y, x) to all neighbours y.
    inward
        Rates R_t(x, y) p_t(y) / p_t(x) of the reversed process.
    derivative
        Time derivative of the unnormalised log-probability, ``(batch,)``.
    """

    outward: Tensor
    inward: Tensor
    derivative: Tensor

    @property
    def xi(self) -> Float[Tensor, " batch"]:
        """Density of the log-weight, xi_t(x) of Equation 8.

        The derivative plus what flows out less what flows in; of a perfect flow it is d
        log Z_t / dt at every state.
        """
        flow = (self.outward - self.inward).flatten(1).sum(1)
        return self.derivative + flow


class RatioInfo(NamedTuple):
    """The log-ratios of one evaluation of a flow, for messages and statistics.

    Attributes
    ----------
    n_ratios
        Number of log-ratios.
    n_clipped
        Number of clipped ones; a tensor, so that no GPU is waited for.
    largest
        The largest log-ratio before clipping.
    """

    n_ratios: int
    n_clipped: Int[Tensor, ""]
    largest: Float[Tensor, ""]


def one_way_rates(equivariant: Tensor, log_ratios: Tensor) -> tuple[Tensor, Tensor]:
    """Rates relu(G) of the paper (Ou, Zhang and Li 2025, Equation 10), and inward."""
    return equivariant.relu(), (-equivariant).relu() * log_ratios.exp()


def reversible_rates(equivariant: Tensor, log_ratios: Tensor) -> tuple[Tensor, Tensor]:
    """Rates of Gibbs sampling times relu(G): R(y, x) = r / (1 + r) relu(G).

    With r = p(y) / p(x), what flows out less what flows in is r / (1 + r) G: bounded
    however large a ratio is.
    """
    gibbs = log_ratios.sigmoid()
    return gibbs * equivariant.relu(), gibbs * (-equivariant).relu()


_RATES = {"one_way": one_way_rates, "reversible": reversible_rates}


def _check_graphs(network: nn.Module, path: AnnealingPath) -> None:
    """Require a network of graphs to be on those of the path's target."""
    given = getattr(network, "graphs", None)
    expected = getattr(path.target, "graphs", None)
    if given is None or expected is None or given is expected:
        return
    there, here = given.adjacency.device, expected.adjacency.device
    if there != here:
        raise InputError(
            f"network must be on the device of its target's graphs, {here}, got one "
            f"with graphs on {there}"
        )
    if not torch.equal(given.adjacency, expected.adjacency):
        raise InputError(
            f"network must be on the target's {len(expected)} graphs, got one on "
            f"{len(given)} others"
        )


class Flow:
    """A continuous-time Markov chain of single-site jumps along a path.

    Parameters
    ----------
    path
        The distributions to follow.
    network
        ``network(x, t)`` gives G of every neighbour, zero at the current state.
    rates
        "one_way" is relu(G), the paper's; "reversible" multiplies it by Gibbs rates.
    max_log_ratio
        Larger log-ratios are clipped, as in the paper (5); clipping biases the weights.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.flows import Flow, OddLatticeNetwork, simulate
    >>> from ebmtut.paths import AnnealingPath
    >>> from ebmtut.random import make_generator
    >>> network = OddLatticeNetwork(4, width=8, n_hidden=8, generator=make_generator(0))
    >>> flow = Flow(AnnealingPath(LatticeIsing(4, 0.2)), network)
    >>> simulate(flow, 5, 20, generator=make_generator(1)).x.shape
    torch.Size([5, 16])
    """

    @checked
    def __init__(
        self,
        path: AnnealingPath,
        network: nn.Module,
        *,
        rates: Annotated[str, OneOf(_RATES)] = "reversible",
        max_log_ratio: Positive | None = None,
    ) -> None:
        for name in ("n_sites", "n_states"):
            given, expected = getattr(network, name, None), getattr(path, name)
            if given is not None and given != expected:
                raise InputError(f"network must have {name}={expected}, got {given}")
        _check_graphs(network, path)
        self.path = path
        self.network = network
        self.rates = rates
        self.max_log_ratio = max_log_ratio

    def with_network(self, network: nn.Module) -> "Flow":
        """Return the same flow with another network, such as averaged weights."""
        return Flow(
            self.path, network, rates=self.rates, max_log_ratio=self.max_log_ratio
        )

    def terms(self, x: Float[Tensor, "batch n_sites"], t: Time) -> FlowTerms:
        """Rates of all neighbours and the path's derivative at a batch of states.

        Gradients reach the network alone.

        Parameters
        ----------
        t
            Times in [0, 1].
        """
        return self.evaluate(x, t)[0]

    @torch.no_grad()
    def largest_rate(self, states: Float[Tensor, "n batch n_sites"]) -> float:
        """Largest total rate, outward or inward; that of a pilot run bounds the rates.

        Parameters
        ----------
        states
            States at two or more evenly spaced times, from t = 0 to t = 1.
        """
        last = len(states) - 1
        met = [self.terms(x, k / last) for k, x in enumerate(states)]
        return max(float(r.sum(1).max()) for v in met for r in (v.outward, v.inward))

    def evaluate(
        self, x: Float[Tensor, "batch n_sites"], t: Time
    ) -> tuple[FlowTerms, RatioInfo]:
        """Return the terms, and what the log-ratios were."""
        times = t if isinstance(t, Tensor) else x.new_full((len(x),), t)
        with torch.no_grad():
            derivative = self.path.time_derivative(x).detach()
            log_ratios = self.path.log_ratios(x, t).detach()
            empty = log_ratios.numel() == 0
            largest = log_ratios.new_zeros(()) if empty else log_ratios.max()
            n_clipped = torch.zeros((), dtype=torch.long, device=x.device)
            if self.max_log_ratio is not None:
                n_clipped = (log_ratios > self.max_log_ratio).sum()
                log_ratios = log_ratios.clamp(max=self.max_log_ratio)
        equivariant = self.network(x, times)
        check_shape("network(x, t)", equivariant, log_ratios.shape)
        outward, inward = _RATES[self.rates](equivariant, log_ratios)
        info = RatioInfo(log_ratios.numel(), n_clipped, largest)
        return FlowTerms(outward, inward, derivative), info
