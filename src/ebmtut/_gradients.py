"""Gradients where the caller has switched them off."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_gradients(function: _Function) -> _Function:
    """Suspend `torch.no_grad` and `torch.inference_mode` during a function's calls."""
    suspended: _Function = torch.inference_mode(False)(torch.enable_grad()(function))
    return suspended
