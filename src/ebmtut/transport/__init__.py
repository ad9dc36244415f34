"""Optimal transport: Gibbs-OT, its evaluation, and competing methods."""

from ebmtut.transport.bregman_admm import bregman_admm
from ebmtut.transport.conditionals import (
    HalfStep,
    half_step_distribution,
    largest_of_exponentials,
)
from ebmtut.transport.costs import cost_matrix
from ebmtut.transport.duals import (
    FeasibleDuals,
    Plan,
    c_transform,
    chain_value,
    dual_value,
    feasible_duals,
    feasible_plan,
    marginal_error,
    transport_plan,
)
from ebmtut.transport.exact import ExactOT, exact_ot, sinkhorn
from ebmtut.transport.gibbs_ot import (
    GibbsOTResult,
    GibbsOTState,
    GibbsOTTrace,
    gibbs_ot,
    gibbs_ot_iteration,
    gibbs_ot_reference,
)
from ebmtut.transport.grid import (
    GridDuals,
    grid_dual_value,
    grid_duals,
    grid_gibbs_pass,
)
from ebmtut.transport.grid_cost import GridCost, grid_cost, min_plus, min_plus_reference
from ebmtut.transport.loss import (
    Oracle,
    exact_oracle,
    gibbs_ot_oracle,
    sinkhorn_oracle,
    wasserstein_loss,
)
from ebmtut.transport.mixing import has_mixed, has_settled, relative_gap
from ebmtut.transport.temperature_bound import (
    BoundedRun,
    Martingale,
    bounded_gibbs_ot,
    simulate_martingale,
    temperature_bound,
)
from ebmtut.transport.temperatures import (
    annealed_temperatures,
    constant_temperatures,
    temperatures_of,
)
from ebmtut.transport.warm_chains import WarmChains
from ebmtut.transport.wnmf.mirror_descent import (
    AcceleratedDescent,
    accelerated_start,
    accelerated_step,
    mirror_step,
)
from ebmtut.transport.wnmf.smoothed_wnmf import (
    SmoothedWNMF,
    smoothed_conjugate,
    smoothed_wnmf,
)
from ebmtut.transport.wnmf.state import WNMFConfig, WNMFState, as_measures, wnmf_start
from ebmtut.transport.wnmf.wasserstein_nmf import (
    wasserstein_nmf,
    wnmf_epoch,
    wnmf_temperature,
)

__all__ = [
    "AcceleratedDescent",
    "BoundedRun",
    "ExactOT",
    "FeasibleDuals",
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "GridCost",
    "GridDuals",
    "HalfStep",
    "Martingale",
    "Oracle",
    "Plan",
    "SmoothedWNMF",
    "WNMFConfig",
    "WNMFState",
    "WarmChains",
    "accelerated_start",
    "accelerated_step",
    "annealed_temperatures",
    "as_measures",
    "bounded_gibbs_ot",
    "bregman_admm",
    "c_transform",
    "chain_value",
    "constant_temperatures",
    "cost_matrix",
    "dual_value",
    "exact_oracle",
    "exact_ot",
    "feasible_duals",
    "feasible_plan",
    "gibbs_ot",
    "gibbs_ot_iteration",
    "gibbs_ot_oracle",
    "gibbs_ot_reference",
    "grid_cost",
    "grid_dual_value",
    "grid_duals",
    "grid_gibbs_pass",
    "half_step_distribution",
    "has_mixed",
    "has_settled",
    "largest_of_exponentials",
    "marginal_error",
    "min_plus",
    "min_plus_reference",
    "mirror_step",
    "relative_gap",
    "simulate_martingale",
    "sinkhorn",
    "sinkhorn_oracle",
    "smoothed_conjugate",
    "smoothed_wnmf",
    "temperature_bound",
    "temperatures_of",
    "transport_plan",
    "wasserstein_loss",
    "wasserstein_nmf",
    "wnmf_epoch",
    "wnmf_start",
    "wnmf_temperature",
]
