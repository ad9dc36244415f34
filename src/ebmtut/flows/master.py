"""Exact distribution of a flow's states, in continuous time and in discrete steps."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, OneOf, check_range, checked
from ebmtut.flows.rates import Flow
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.tensor_checks import check_shape

__all__ = ["chain_distribution", "flow_distributions"]

_MOST_STATES = 2**16
# A step of tau-leaping may lead from each to each.
_MOST_STATES_OF_A_MATRIX = 2**10


@torch.no_grad()
@checked
def flow_distributions(
    flow: Flow,
    n_steps: Count,
    *,
    start: Float[Tensor, " n_all"] | None = None,
    reverse: bool = False,
    device: str | torch.device = "cpu",
) -> Float[Tensor, "n_times n_all"]:
    """Integrate the Kolmogorov equation over all states of a small system.

    Heun's rule, with rates that change within a step: an error of second order in the
    step.

    Parameters
    ----------
    flow
        Of bits, at most 16 sites.
    n_steps, start
        Evaluations of all states; the initial distribution in place of the uniform one.
    reverse
        Whether to follow the reversed process from t = 1 to 0.

    Returns
    -------
    probabilities
        At n_steps + 1 times, float64, in the order of `enumerate_states`.

    See Also
    --------
    simulate : samples the process, for any number of sites.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.flows import Flow, OddLatticeNetwork, flow_distributions
    >>> from ebmtut.paths import AnnealingPath
    >>> network = OddLatticeNetwork(3, width=4, n_hidden=4)
    >>> flow = Flow(AnnealingPath(LatticeIsing(3, 0.2)), network)
    >>> p = flow_distributions(flow, 4)
    >>> p.shape, round(float(p[-1].sum()), 6)
    (torch.Size([5, 512]), 1.0)
    """
    n_sites = flow.path.n_sites
    check_range("n_states", flow.path.n_states, low=2, high=2)
    check_range("states of all sites", 2**n_sites, low=2, high=_MOST_STATES)
    x = enumerate_states(n_sites).float()
    if start is None:
        start = x.new_full((len(x),), 1 / len(x))
    check_shape("start", start, (len(x),))
    flipped = torch.arange(len(x), device="cpu")[:, None] ^ states_to_index(
        torch.eye(n_sites, dtype=torch.float32, device="cpu")
    )
    x, flipped, distribution = (v.to(device) for v in (x, flipped, start.double()))
    distributions = [distribution]
    times = [k / n_steps for k in range(n_steps + 1)]
    rates = _rates(flow, x, times[-1] if reverse else times[0], reverse)
    for t in times[1:]:
        slope = _change(distribution, rates, flipped)
        rates = _rates(flow, x, 1 - t if reverse else t, reverse)
        guess = distribution + slope / n_steps
        distribution = distribution + (slope + _change(guess, rates, flipped)) / (
            2 * n_steps
        )
        distributions.append(distribution)
    return torch.stack(distributions)


@torch.no_grad()
@checked
def chain_distribution(
    flow: Flow,
    n_steps: Count,
    *,
    method: Annotated[str, OneOf(("euler", "tau_leaping"))] = "tau_leaping",
) -> Float[Tensor, " n_all"]:
    """Final distribution of a simulation in discrete steps, from the uniform one.

    Its difference from the last one of `flow_distributions` is the error of the steps.

    Parameters
    ----------
    flow
        Of bits, at most 10 sites.

    Returns
    -------
    probabilities
        In the order of `enumerate_states`, float64.
    """
    n_sites = flow.path.n_sites
    check_range("n_states", flow.path.n_states, low=2, high=2)
    check_range("states of all sites", 2**n_sites, low=2, high=_MOST_STATES_OF_A_MATRIX)
    x = enumerate_states(n_sites).float()
    single = torch.eye(n_sites, dtype=torch.float32, device="cpu")
    flips = x if method == "tau_leaping" else single
    ends = torch.arange(len(x), device="cpu")[:, None] ^ states_to_index(flips)
    distribution = x.new_full((len(x),), 1 / len(x)).double()
    for k in range(n_steps):
        mean_jumps = flow.terms(x, k / n_steps).outward.double() / n_steps
        if method == "tau_leaping":
            moved = distribution[:, None] * _flip_all(mean_jumps)
            distribution = torch.zeros_like(distribution)
        else:
            # Where a probability would be above one, all of it moves.
            total = mean_jumps.sum(1).clamp(min=1)
            moved = (distribution / total)[:, None] * mean_jumps
            distribution = distribution - moved.sum(1)
        distribution = distribution.index_add(0, ends.flatten(), moved.flatten())
    return distribution


def _flip_all(
    mean_jumps: Float[Tensor, "n_all n_sites"],
) -> Float[Tensor, "n_all n_all"]:
    """Probability of every set of sites to flip, each site by its own."""
    stay = (-mean_jumps).exp()
    sets = torch.ones_like(stay[:, :1])
    for site in range(stay.shape[1]):
        by = torch.stack([stay[:, site], 1 - stay[:, site]], 1)
        sets = (sets[:, :, None] * by[:, None]).flatten(1)
    return sets


def _rates(flow: Flow, x: Tensor, t: float, reverse: bool) -> Tensor:
    terms = flow.terms(x, t)
    return (terms.inward if reverse else terms.outward).double()


def _change(distribution: Tensor, rates: Tensor, flipped: Tensor) -> Tensor:
    """What flows into each state less what leaves it; rates are out of a state."""
    flow = distribution[:, None] * rates
    site = torch.arange(flipped.shape[1], device=flipped.device)
    return flow[flipped, site].sum(1) - flow.sum(1)
