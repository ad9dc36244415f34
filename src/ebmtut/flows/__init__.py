"""Flows of discrete distributions: rates, their networks, simulation, weights.

What trains them, the Kolmogorov residual and its Stein control variate, is in
``ebmtut.losses.kolmogorov``.
"""

from ebmtut.flows.gflownet import (
    BitsGFlowNet,
    Trajectories,
    back_and_forth,
    backward_trajectories,
    forward_trajectories,
    terminal_distribution,
    trajectory_balance_loss,
)
from ebmtut.flows.graph_gflownet import SetPolicy, SetWays, balance_variance, set_ways
from ebmtut.flows.graph_transformer import HollowGraphTransformer
from ebmtut.flows.graphs import GraphFlowNetwork, GraphWeights, NetworkOnGraphs
from ebmtut.flows.lattice import OddLatticeNetwork
from ebmtut.flows.master import chain_distribution, flow_distributions
from ebmtut.flows.networks import (
    HollowAttention,
    HollowConvolution,
    HollowMLP,
    HollowNetwork,
    TimeFeatures,
    window_offsets,
)
from ebmtut.flows.rates import Flow, FlowTerms, RatioInfo
from ebmtut.flows.simulation import (
    Kernel,
    Rollout,
    dmala_kernel,
    gibbs_kernel,
    simulate,
)
from ebmtut.flows.thinning import ExactRollout, reverse_elbo, simulate_exact
from ebmtut.flows.transformer import HollowTransformer
from ebmtut.flows.weights import (
    LogPartition,
    effective_sample_size,
    log_partition,
    weighted_mean,
)

__all__ = [
    "BitsGFlowNet",
    "ExactRollout",
    "Flow",
    "FlowTerms",
    "GraphFlowNetwork",
    "GraphWeights",
    "HollowAttention",
    "HollowConvolution",
    "HollowGraphTransformer",
    "HollowMLP",
    "HollowNetwork",
    "HollowTransformer",
    "Kernel",
    "LogPartition",
    "NetworkOnGraphs",
    "OddLatticeNetwork",
    "RatioInfo",
    "Rollout",
    "SetPolicy",
    "SetWays",
    "TimeFeatures",
    "Trajectories",
    "back_and_forth",
    "backward_trajectories",
    "balance_variance",
    "chain_distribution",
    "dmala_kernel",
    "effective_sample_size",
    "flow_distributions",
    "forward_trajectories",
    "gibbs_kernel",
    "log_partition",
    "reverse_elbo",
    "set_ways",
    "simulate",
    "simulate_exact",
    "terminal_distribution",
    "trajectory_balance_loss",
    "weighted_mean",
    "window_offsets",
]
