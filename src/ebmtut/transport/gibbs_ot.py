"""Gibbs-OT: an annealed Gibbs sampler of the dual transport problem.

At temperature T the Boltzmann distribution exp(V(g, h) / T) on the dual domain
g_i - h_j <= M_ij has independent exponential conditionals (Proposition 4.1), and as T
falls its samples concentrate at the optimal potentials. Let every theta be a new
exponential random number of mean 1. Then Algorithm 1 of Ye, Wang and Li (2017) is::

    for t = 1, ..., N:
        L_j = max_i (g_i - M_ij),    h_j = L_j + theta T^(2t-1) / q_j    (Eq. 12)
        U_i = min_j (M_ij + h_j),    g_i = U_i - theta T^(2t) / p_i      (Eq. 13)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Float64, Int64, Real
from torch import Tensor

from ebmtut.checks import Count, InputError, check_type, checked, shown
from ebmtut.kernels.exponentials import exponentials
from ebmtut.kernels.gibbs_ot import CompiledChain, chain_by_kernel
from ebmtut.tensor_checks import check_finite
from ebmtut.transport._problem import as_temperatures, check_problem
from ebmtut.transport.duals import chain_value, feasible_duals_of

__all__ = [
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "gibbs_ot",
    "gibbs_ot_iteration",
    "gibbs_ot_reference",
]

_DRAWS = 2**16  # exponentials held at a time: they stay in the cache


def gibbs_ot_iteration(
    g: Float[Tensor, "*batch m1"],
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    cost: Float[Tensor, "m1 m2"],
    temperature: Float[Tensor, " 2"],
    theta_h: Float[Tensor, "*batch m2"],
    theta_g: Float[Tensor, "*batch m1"],
) -> tuple[
    Float[Tensor, "*batch m1"],
    Float[Tensor, "*batch m2"],
    Float[Tensor, "*batch m1"],
    Float[Tensor, "*batch m2"],
]:
    """One iteration: h given g (Eq. 12), then g given h (Eq. 13).

    Returns the new g and h, and their limits U and L.

    Parameters
    ----------
    g, p, q, cost
        The chain and the problem; points without mass get g = -inf or h = +inf.
    temperature, theta_h, theta_g
        T of the two half steps, and exponentials of mean 1.
    """
    L = (g[..., :, None] - cost).amax(-2)
    h = torch.where(q > 0, L + theta_h * temperature[0] / q, torch.inf)
    U = (cost + h[..., None, :]).amin(-1)
    g = torch.where(p > 0, U - theta_g * temperature[1] / p, -torch.inf)
    return g, h, U, L


class PlainChain:
    """Algorithm 1 for a batch of problems with one cost, as it is written.

    It takes the exponentials as an argument, ``n_draws`` per iteration: those of h
    along the entries of q that have mass, problem by problem, then those of g along the
    entries that have mass in any problem's p.
    """

    def __init__(
        self,
        p: Float[Tensor, "batch m1"],
        q: Float[Tensor, "batch m2"],
        cost: Float[Tensor, "m1 m2"],
        g: Float[Tensor, "batch m1"],
        iteration: Callable[..., tuple[Tensor, ...]] = gibbs_ot_iteration,
    ) -> None:
        self.q, self.cost, self.iteration = q, cost, iteration
        rows = (p > 0).any(0)
        self.h_places = (q > 0).flatten().nonzero()[:, 0]
        self.g_places = rows.expand_as(p).flatten().nonzero()[:, 0]
        self.n_draws = len(self.h_places) + len(self.g_places)
        self.g = self.U = g
        self.set_p(p)

    def set_p(self, p: Float[Tensor, "batch m1"]) -> None:
        """Go on with other masses, on the same rows."""
        self.p = p
        # An entry that had no mass has no g but a U, and the other way round.
        g = torch.where(self.g == -torch.inf, self.U, self.g)
        self.g = g.masked_fill(p == 0, -torch.inf)

    def advance(
        self,
        temperatures: Float[Tensor, "n_iterations 2"],
        theta: Float[Tensor, "n_iterations n_draws"],
    ) -> None:
        """Iterate with these exponentials."""
        # In one piece, whatever the strides of the masses are.
        theta_h, theta_g = self.q.new_ones(self.q.shape), self.p.new_ones(self.p.shape)
        n_h = len(self.h_places)
        for temperature, draws in zip(temperatures, theta.to(self.p), strict=True):
            theta_h.view(-1).index_copy_(0, self.h_places, draws[:n_h])
            theta_g.view(-1).index_copy_(0, self.g_places, draws[n_h:])
            self.g, self.h, self.U, self.L = self.iteration(
                self.g, self.p, self.q, self.cost, temperature, theta_h, theta_g
            )

    def statistics(self, complete: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the last g, h, U and L, always complete."""
        g = torch.where(self.p > 0, self.g, self.U)
        h = torch.where(self.q > 0, self.h, self.L)
        return g, h, self.U, self.L

    def dual_value(self) -> Float[Tensor, " batch"]:
        """Return the lower bounds that U gives by c-transforms."""
        return feasible_duals_of(self.p, self.q, self.cost, g=self.U).value


Chain = PlainChain | CompiledChain


def chain_for(p: Tensor, q: Tensor, cost: Tensor, g: Tensor) -> Chain:
    """Make the chain that is fastest on the tensors' device."""
    return chain_by_kernel(PlainChain, p, q, cost, g)


def advance(
    chain: Chain, schedule: Float[Tensor, "n_iterations 2"], generator: torch.Generator
) -> None:
    """Do the iterations of a schedule with new random numbers."""
    n = chain.n_draws
    for chunk in schedule.split(max(1, _DRAWS // n)):
        chain.advance(chunk, standard_exponential(len(chunk), n, generator=generator))


class GibbsOTState(NamedTuple):
    """The sampler's coordinates, from which a run can be continued.

    Attributes
    ----------
    g, h
        U and L where p and q have no mass, since g and h have no distribution there.
    """

    g: Float[Tensor, "*batch m1"]
    h: Float[Tensor, "*batch m2"]


class GibbsOTTrace(NamedTuple):
    """What was recorded along the way.

    Attributes
    ----------
    iterations
        After which iterations, the first being 1.
    V
        V(z^(2t)), at equilibrium an upper bound on average.
    dual
        The feasible dual value, a lower bound.
    """

    iterations: Int64[Tensor, " n_noted"]
    V: Float64[Tensor, " n_noted *batch"]
    dual: Float64[Tensor, " n_noted *batch"]


class GibbsOTResult(NamedTuple):
    """The last iteration's coordinates and statistics.

    Attributes
    ----------
    state
        Give it to the next call for a warm start.
    U
        The gradient of the loss in p.
    L
        Minus the gradient in q.
    """

    state: GibbsOTState
    U: Float[Tensor, "*batch m1"]
    L: Float[Tensor, "*batch m2"]
    trace: GibbsOTTrace | None = None


@checked
def gibbs_ot(
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    cost: Float[Tensor, "m1 m2"],
    temperatures: Sequence[float] | Real[Tensor, " n_half_steps"],
    *,
    state: GibbsOTState | None = None,
    trace_every: Count | None = None,
    complete: bool = True,
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run Algorithm 1, the Gibbs sampler with an annealing schedule.

    On the CPU compiled code evaluates only pairs that can be an extreme, which changes
    no number and saves nearly all the work for a Monge cost; on a GPU a Triton kernel
    runs.

    Parameters
    ----------
    p, q
        Masses; with a batch, many problems with one cost. Entries of zero take no part.
    cost
        M, of the masses' dtype; +inf forbids a pair. See `wasserstein_loss` for
        gradients.
    temperatures
        T^(1), ..., T^(2N), one for each half step; see `temperatures_of`.
    state
        Where to start, zeros by default. Only its g matters.
    trace_every
        Record V and the feasible dual value after every so many iterations.
    complete
        Whether to compute U and L also where there is no mass; otherwise they are
        +-inf.
    generator
        Source of the exponentials, which tracing or splitting a run does not change.

    References
    ----------
    Ye, Wang and Li, A simulated annealing based inexact oracle for
    Wasserstein loss minimization, 2017, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.transport import cost_matrix, gibbs_ot, annealed_temperatures
    >>> points = torch.linspace(0, 1, 8)
    >>> p = torch.full((8,), 1 / 8)
    >>> cost = cost_matrix(points, points)
    >>> g = make_generator(0)
    >>> result = gibbs_ot(p, p, cost, annealed_temperatures(500, 8), generator=g)
    >>> result.U.shape
    torch.Size([8])
    """
    return _run(
        chain_for, p, q, cost, temperatures, state, trace_every, complete, generator
    )


@checked
def gibbs_ot_reference(
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    cost: Float[Tensor, "m1 m2"],
    temperatures: Sequence[float] | Real[Tensor, " n_half_steps"],
    *,
    state: GibbsOTState | None = None,
    trace_every: Count | None = None,
    complete: bool = True,
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run :func:`gibbs_ot` in plain torch with the same random numbers."""
    return _run(
        PlainChain, p, q, cost, temperatures, state, trace_every, complete, generator
    )


def _run(
    make_chain: Callable[[Tensor, Tensor, Tensor, Tensor], Chain],
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperatures: Sequence[float] | Tensor,
    state: GibbsOTState | None,
    trace_every: int | None,
    complete: bool,
    generator: torch.Generator,
) -> GibbsOTResult:
    check_problem(p, q, cost)
    p, q, cost = p.detach(), q.detach(), cost.detach()
    schedule = as_temperatures(temperatures, p)
    check_type("generator", generator, torch.Generator)
    g = start_of(state, p)
    chain = make_chain(*map(torch.atleast_2d, (p, q, cost, g)))
    noted = []
    for block in schedule.split(trace_every or len(schedule)):
        advance(chain, block, generator)
        if len(block) == trace_every:
            _, _, U, L = chain.statistics(complete=False)
            V = chain_value(chain.p, chain.q, U, L)
            noted.append([V.tolist(), chain.dual_value().tolist()])
    g, h, U, L = (x.view(*p.shape[:-1], -1) for x in chain.statistics(complete))
    trace = None
    if trace_every is not None:
        iterations = torch.arange(1, len(noted) + 1, device="cpu") * trace_every
        values = torch.tensor(noted, dtype=torch.float64, device="cpu")
        values = values.view(-1, 2, *p.shape[:-1])
        trace = GibbsOTTrace(iterations, *values.unbind(1))
    return GibbsOTResult(GibbsOTState(g, h), U, L, trace)


def start_of(
    state: GibbsOTState | None, p: Float[Tensor, "*batch m1"]
) -> Float[Tensor, "*batch m1"]:
    """Pick the g to start from; InputError if it does not fit."""
    if state is None:
        return torch.zeros_like(p)
    if not isinstance(state, GibbsOTState):
        raise InputError(f"state must be a GibbsOTState, got {shown(state)}")
    if state.g.shape != p.shape or state.g.dtype != p.dtype:
        raise InputError(
            f"state.g must have shape {tuple(p.shape)} and {p.dtype}, "
            f"got {tuple(state.g.shape)} and {state.g.dtype}"
        )
    check_finite("state.g", state.g.where(p > 0, 0))
    return state.g


def standard_exponential(
    rows: int, n: int, *, generator: torch.Generator
) -> Float32[Tensor, "n_rows n_draws"]:
    """Sample exponentials of mean 1, never 0, the noise of Gibbs-OT.

    They are float32, by inversion of uniform numbers of 24 bits. Rows do not depend on
    how they are grouped; on a GPU every row is a call.
    """
    check_type("generator", generator, torch.Generator)
    draws = torch.empty(rows, -(-n // 2), dtype=torch.int64, device=generator.device)
    for call in draws if draws.is_cuda else draws[None]:
        call.random_(generator=generator)
    bits = draws.view(torch.int32)[:, :n]
    if bits.device.type == "cpu":
        theta = torch.empty(rows, n, dtype=torch.float32, device="cpu")
        exponentials(bits.reshape(-1).numpy(), theta.view(-1).numpy())
        return theta
    u = (bits & 0xFFFFFF).float().mul_(2.0**-24).clamp_(min=2.0**-25)
    return u.log_().neg_()
