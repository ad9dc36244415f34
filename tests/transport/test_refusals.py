"""What transport refuses: masses, costs, potentials and states that do not fit."""

from dataclasses import replace

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.transport import (
    GibbsOTState,
    WarmChains,
    WNMFConfig,
    as_measures,
    c_transform,
    cost_matrix,
    dual_value,
    exact_oracle,
    exact_ot,
    gibbs_ot,
    gibbs_ot_oracle,
    grid_cost,
    grid_dual_value,
    grid_gibbs_pass,
    has_mixed,
    min_plus,
    simulate_martingale,
    smoothed_wnmf,
    temperature_bound,
    transport_plan,
    wasserstein_loss,
    wasserstein_nmf,
    wnmf_start,
)
from tests.shared import refusals
from tests.transport.conftest import problem

GENERATOR = make_generator(0)
P, Q, COST = problem(3, 4)
BATCH = problem(3, 4, batch=(2,))
INF, NAN = torch.inf, torch.nan


def wide(*values):
    return torch.tensor(values, dtype=torch.float64)


def blocked():
    cost = COST.clone()
    cost[1] = INF
    return cost


def run(**changes):
    arguments = {"p": P, "q": Q, "cost": COST, "temperatures": [0.1, 0.1]}
    gibbs_ot(**arguments | {"generator": GENERATOR} | changes)


def duals(**potential):
    dual_value(P, Q, COST, **potential)


def chains(p):
    WarmChains(BATCH[1], COST)(p, [0.1, 0.1], generator=GENERATOR)


def martingale(p, q):
    simulate_martingale(p, q, COST, [1, 1], n_chains=2, generator=GENERATOR)


def bound(p=P, **changes):
    arguments = {"U": P, "L": Q, "temperature": 0.1} | changes
    temperature_bound(p, Q, COST, **arguments)


IMAGES = torch.rand(8, 6, 6, generator=make_generator(1), dtype=torch.float64)
DATA = as_measures(IMAGES)
SMALL = WNMFConfig(n_components=3, n_epochs=6, temperature=1e-4)
GRID = grid_cost(6, dtype=torch.float64)


def learned(images=IMAGES, config=SMALL, **how):
    state = wnmf_start(DATA, SMALL, generator=make_generator(0))
    wasserstein_nmf(images, config, generator=GENERATOR, **{"state": state} | how)


ONE = r"p must have shape \(m1,\), got \(2, 3\)"
CASES = {
    "negative": (lambda: run(p=wide(0.5, 0.6, -0.1)), "p must be non-negative, got"),
    "too much": (lambda: run(p=wide(0.5, 0.5, 0.25)), "p must sum to 1, got 0.25 too"),
    "nan": (lambda: run(p=wide(0.5, 0.5, NAN)), "p must be finite, got 1 NaN or inf"),
    "half": (lambda: run(p=P.half()), "p must be .*float"),
    "dtypes": (lambda: run(q=Q.float()), "q must have the dtype and device of p"),
    "turned": (lambda: run(cost=COST.T), r"cost must have shape \(3, 4\), got \(4,"),
    "no way": (lambda: run(cost=blocked()), "cost must let every mass go somewhere,"),
    "-inf": (lambda: run(cost=-blocked()), "cost must be finite or .inf, got NaN or"),
    "odd": (lambda: run(temperatures=[0.1]), r"temperatures must be 2N .* shape"),
    "cold": (lambda: run(temperatures=[1, 0.0]), "temperatures must be > 0 .* got 0"),
    "single": (
        lambda: gibbs_ot(
            P.float(), Q.float(), COST.float(), [1, 1e39], generator=GENERATOR
        ),
        r"temperatures .*finite in torch\.float32, got 1e\+39 at 1",
    ),
    "no state": (lambda: run(state=P), "state must be GibbsOTState, got tensor"),
    "state": (lambda: run(state=GibbsOTState(wide(0, 0), Q)), r"state.g must have"),
    "warm chains": (lambda: WarmChains(Q, COST), r"q must have shape \(batch, m2\)"),
    "batch": (lambda: chains(P[None]), r"p must have shape \(2, 3\)"),
    "loss": (
        lambda: wasserstein_loss(BATCH[0], BATCH[1][:1], COST, oracle=exact_oracle()),
        r"q must have shape \(2, m2\)",
    ),
    "oracle": (lambda: gibbs_ot_oracle([], generator=GENERATOR), "temperatures must"),
    "exact": (lambda: exact_ot(*BATCH), ONE),
    "plan": (lambda: transport_plan(*BATCH, P, Q), ONE),
    "bound": (lambda: bound(BATCH[0]), ONE),
    "statistic": (lambda: bound(U=Q), r"U must have shape \(..., 3\)"),
    "all masses": (lambda: martingale(P, wide(0.5, 0.5, 0, 0)), "q must be positive"),
    "both": (lambda: duals(g=P, h=Q), ".*just one of g and h"),
    "potential": (lambda: duals(h=P), r"h must have shape \(4,\)"),
    "lost potential": (lambda: c_transform(COST, g=P * NAN), "g must have no NaN, got"),
    "values": (lambda: has_mixed(COST, 1.0), "V must have shape"),
    "kind": (lambda: cost_matrix(P, P, "manhattan"), "kind must be one of"),
    "dimensions": (lambda: cost_matrix(COST, COST.T), "y must have the dimension"),
    "grid": (lambda: min_plus(IMAGES, grid_cost(6)), "h must .*dtype"),
    "zeros": (lambda: as_measures(0 * IMAGES), ".*all zero"),
    "components": (lambda: learned(IMAGES[:2], state=None), "n_components"),
    "dictionary": (
        lambda: learned(config=replace(SMALL, n_components=2)),
        r"state.dictionary must have shape \(2, 6, 6\)",
    ),
    "image": (lambda: learned(cost=grid_cost(5, dtype=torch.float64)), "images must"),
    "single atoms": (lambda: smoothed_wnmf(DATA, DATA.float()), "dictionary must have"),
}


test_refusals = refusals(CASES)


@pytest.mark.parametrize("side", ["p", "q"])
@pytest.mark.parametrize(
    "wrong", [DATA[:1], DATA[:, :5], DATA.float()], ids=["batch", "size", "dtype"]
)
def test_masses_that_differ_from_the_potential_are_refused(side, wrong):
    """Else the kernels would read beyond the end."""
    masses = {"p": DATA, "q": DATA} | {side: wrong}
    with pytest.raises(InputError, match=f"^{side} must have shape"):
        grid_gibbs_pass(DATA, **masses, cost=GRID, temperature=1.0, generator=GENERATOR)
    with pytest.raises(InputError, match=f"^{side} must have shape"):
        grid_dual_value(DATA, **masses, cost=GRID)
