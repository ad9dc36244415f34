"""Flows of discrete laws: rate matrices, their networks, simulation, weights."""

from ebmtut.flows.lattice import OddLatticeNetwork
from ebmtut.flows.networks import (
    HollowAttention,
    HollowConvolution,
    HollowMLP,
    HollowNetwork,
    TimeFeatures,
    window_offsets,
)
from ebmtut.flows.rates import Flow, FlowTerms, one_way_rates, reversible_rates
from ebmtut.flows.simulation import (
    ExactRollout,
    Kernel,
    Rollout,
    dmala_kernel,
    gibbs_kernel,
    reverse_elbo,
    simulate,
    simulate_exact,
)
from ebmtut.flows.transformer import HollowTransformer
from ebmtut.flows.weights import (
    LogPartition,
    effective_sample_size,
    independence_metropolis,
    log_partition,
    weighted_mean,
)

__all__ = [
    "ExactRollout",
    "Flow",
    "FlowTerms",
    "HollowAttention",
    "HollowConvolution",
    "HollowMLP",
    "HollowNetwork",
    "HollowTransformer",
    "Kernel",
    "LogPartition",
    "OddLatticeNetwork",
    "Rollout",
    "TimeFeatures",
    "dmala_kernel",
    "effective_sample_size",
    "gibbs_kernel",
    "independence_metropolis",
    "log_partition",
    "one_way_rates",
    "reverse_elbo",
    "reversible_rates",
    "simulate",
    "simulate_exact",
    "weighted_mean",
    "window_offsets",
]
