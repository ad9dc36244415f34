"""Several modules of one architecture as one: their weights are stacked."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ebmtut.checks import InputError


class Stack:
    """Weights and buffers of several modules, stacked, and one call for all."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        kinds = {_sizes(module) for module in modules}
        if len(kinds) > 1:
            raise InputError(
                "energies must be of one class and size, got "
                f"{', '.join(sorted(kind[0] for kind in kinds))} of different ones"
            )
        trained = [n for n, p in modules[0].named_parameters() if p.requires_grad]
        if not trained:
            raise InputError(
                "energies must have parameters to train, got none that asks for a "
                f"gradient in {type(modules[0]).__name__}"
            )
        self.weights, self.buffers = stack_module_state(list(modules))
        self.trained = [self.weights[name] for name in trained]
        self.device = self.trained[0].device
        self.n_models = len(modules)
        self._shape = copy.deepcopy(modules[0]).to("meta")

    def __call__(self, x: Float[Tensor, "n_models batch *shape"]) -> Tensor:
        """Energies of every model at states of its own."""

        def energies(weights: Any, buffers: Any, x: Tensor) -> Any:
            return functional_call(self._shape, (weights, buffers), (x,))

        return vmap(energies)(self.weights, self.buffers, x)

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights and buffers of all by name."""
        return {**self.weights, **self.buffers}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Take others in their place."""
        NamedTensors(self.state_dict()).load_state_dict(state_dict)

    def clip(self, largest: float) -> Float[Tensor, " n_models"]:
        """Shorten each model's gradient as `clip_grad_norm_` does; return norms."""
        slopes = [w.grad.flatten(1) for w in self.trained if w.grad is not None]
        each = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in slopes])
        norms = torch.linalg.vector_norm(each, dim=0)
        factor = (largest / (norms + 1e-6)).clamp(max=1.0)
        for slope in slopes:
            slope *= factor[:, None]
        return norms

    def still(self, rows: Bool[Tensor, " n_models"]) -> None:
        """Let the gradients of some models vanish."""
        for weight in self.trained:
            if weight.grad is not None:
                weight.grad.masked_fill_(rows.view(-1, *(1,) * (weight.ndim - 1)), 0)

    def write_to(self, modules: Sequence[nn.Module]) -> None:
        """Give the modules their weights."""
        for k, module in enumerate(modules):
            module.load_state_dict({n: w[k] for n, w in self.state_dict().items()})

    def copies(
        self, modules: Sequence[nn.Module], trained: Sequence[Tensor]
    ) -> list[nn.Module]:
        """Return frozen copies with other weights in the place of the trained ones."""
        fresh = [copy.deepcopy(module).requires_grad_(False) for module in modules]
        names = [n for n, p in modules[0].named_parameters() if p.requires_grad]
        for k, module in enumerate(fresh):
            values = {n: w[k] for n, w in zip(names, trained, strict=True)}
            module.load_state_dict(values, strict=False)
        return fresh


class NamedTensors:
    """Tensors by name, changed in place."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    def state_dict(self) -> dict[str, Tensor]:
        """Return them."""
        return self._tensors

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Give them other values."""
        for name, tensor in self._tensors.items():
            tensor.copy_(state_dict[name])


class Generators:
    """Generators of random numbers, as one."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._generators = generators

    def get_state(self) -> Tensor:
        """Return where each of them stands."""
        return torch.stack([g.get_state() for g in self._generators])

    def set_state(self, new_state: Tensor) -> None:
        """Let each go to where it stood."""
        for generator, state in zip(self._generators, new_state, strict=True):
            generator.set_state(state.clone())  # torch wants it at a storage's start


def _sizes(module: nn.Module) -> tuple[Any, ...]:
    state = module.state_dict().items()
    return (type(module).__name__, *((n, tuple(t.shape)) for n, t in state))
