"""Optimal transport: Gibbs-OT, what judges it, and its rivals."""

from ebmtut.transport.cooling import (
    constant_temperatures,
    paper_cooling,
    temperatures_of,
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
from ebmtut.transport.gibbs_ot import (
    GibbsOTResult,
    GibbsOTState,
    GibbsOTTrace,
    gibbs_ot,
    gibbs_ot_iteration,
    gibbs_ot_reference,
)
from ebmtut.transport.grid import (
    GridCost,
    GridDuals,
    grid_cost,
    grid_dual_value,
    grid_duals,
    grid_gibbs_pass,
    instances_innermost,
    max_plus,
    min_plus,
    min_plus_reference,
)
from ebmtut.transport.mirror_descent import (
    AcceleratedDescent,
    accelerated_start,
    accelerated_step,
    mirror_step,
)
from ebmtut.transport.oracle import GibbsOTOracle

__all__ = [
    "AcceleratedDescent",
    "FeasibleDuals",
    "GibbsOTOracle",
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "GridCost",
    "GridDuals",
    "Plan",
    "accelerated_start",
    "accelerated_step",
    "c_transform",
    "chain_value",
    "constant_temperatures",
    "cost_matrix",
    "dual_value",
    "feasible_duals",
    "feasible_plan",
    "gibbs_ot",
    "gibbs_ot_iteration",
    "gibbs_ot_reference",
    "grid_cost",
    "grid_dual_value",
    "grid_duals",
    "grid_gibbs_pass",
    "instances_innermost",
    "marginal_error",
    "max_plus",
    "min_plus",
    "min_plus_reference",
    "mirror_step",
    "paper_cooling",
    "temperatures_of",
    "transport_plan",
]
