"""What networks of bits share: the base below them, the dtype of their weights."""

import torch
from torch import Tensor, nn

from ebmtut.checks import InputError
from ebmtut.tensor_checks import check_shape


def logits_of_base(base_probs: Tensor | None, n_sites: int) -> Tensor | None:
    """Return the logits of a Bernoulli base, or None where there is none."""
    if base_probs is None:
        return None
    check_shape("base_probs", base_probs, (n_sites,))
    if not bool(((base_probs > 0) & (base_probs < 1)).all()):
        low, high = float(base_probs.min()), float(base_probs.max())
        raise InputError(f"base_probs must lie in (0, 1), got [{low:g}, {high:g}]")
    return torch.logit(base_probs.detach()).float()


def energy_over_base(
    last: nn.Linear, features: Tensor, x: Tensor, base_logits: Tensor | None
) -> Tensor:
    """Return the energies of the last layer over a base, in the weights' dtype.

    Also under autocast, where bfloat16 would round energies of order ten to 0.06.
    """
    with torch.autocast(x.device.type, enabled=False):
        features = features.to(last.weight.dtype)
        if features.ndim == 4:
            features = features.mean((2, 3))
        return over_base(last(features).squeeze(-1), x, base_logits)


def over_base(energy: Tensor, x: Tensor, base_logits: Tensor | None) -> Tensor:
    """Return the energies of a network, (batch,), over a base if there is one."""
    if base_logits is None:
        return energy
    with torch.autocast(x.device.type, enabled=False):
        return energy - x @ base_logits


def check_weights_dtype(x: Tensor, dtype: torch.dtype) -> None:
    """Require states of the dtype of a network's weights."""
    if x.dtype != dtype:
        raise InputError(
            f"x must have the dtype of the weights, {dtype}, got {x.dtype}: "
            f"convert the states (dtype={dtype}) or the energy, to({x.dtype})"
        )
