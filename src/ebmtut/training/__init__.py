"""One training loop for every energy in the book, and its checkpoints."""

from ebmtut.training.averaging import average_weights
from ebmtut.training.clock import CpuClock
from ebmtut.training.distributed import Process, processes
from ebmtut.training.eb_gfn import EBGFNConfig, EBGFNTraining, train_eb_gfn
from ebmtut.training.ensemble import train_ensemble
from ebmtut.training.flow import FlowConfig, FlowTraining, train_flow
from ebmtut.training.follower import FlowFollower
from ebmtut.training.gflownet import GFlowNetTraining, train_gflownet
from ebmtut.training.graph_flow import (
    GraphFlowConfig,
    GraphFlowTraining,
    flow_on,
    train_graph_flow,
)
from ebmtut.training.loop import Loss, TrainConfig, TrainResult, bfloat16_is_fast, train
from ebmtut.training.resumable import ResumableLoop
from ebmtut.training.set_policy import SetPolicyTraining, train_set_policy
from ebmtut.training.state import RunState

__all__ = [
    "CpuClock",
    "EBGFNConfig",
    "EBGFNTraining",
    "FlowConfig",
    "FlowFollower",
    "FlowTraining",
    "GFlowNetTraining",
    "GraphFlowConfig",
    "GraphFlowTraining",
    "Loss",
    "Process",
    "ResumableLoop",
    "RunState",
    "SetPolicyTraining",
    "TrainConfig",
    "TrainResult",
    "average_weights",
    "bfloat16_is_fast",
    "flow_on",
    "processes",
    "train",
    "train_eb_gfn",
    "train_ensemble",
    "train_flow",
    "train_gflownet",
    "train_graph_flow",
    "train_set_policy",
]
