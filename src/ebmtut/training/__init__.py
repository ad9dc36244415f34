"""One training loop for every energy in the book, and its checkpoints."""

from ebmtut.training.flow import FlowConfig, FlowTraining, train_flow
from ebmtut.training.loop import (
    Loss,
    TrainConfig,
    TrainResult,
    bfloat16_is_fast,
    train,
)
from ebmtut.training.state import RunState

__all__ = [
    "FlowConfig",
    "FlowTraining",
    "Loss",
    "RunState",
    "TrainConfig",
    "TrainResult",
    "bfloat16_is_fast",
    "train",
    "train_flow",
]
