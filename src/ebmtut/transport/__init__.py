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

__all__ = [
    "FeasibleDuals",
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "Plan",
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
    "marginal_error",
    "paper_cooling",
    "temperatures_of",
    "transport_plan",
]
