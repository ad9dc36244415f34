"""Linear layers with SiLU between them, in bfloat16 on a processor, by tables.

There are only 65536 numbers in bfloat16: the SiLU and its slope are two tables, looked
up in one pass with the sums of gradients. The hidden units are those of torch under
autocast, bit for bit; the last layer sums in single precision in another order, and the
backward pass has one rounding fewer.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional

from ebmtut._compiled import inlined, reordered


def runs_by_tables(net: nn.Sequential, x: Tensor) -> bool:
    """Whether `silu_tower` may stand for the layers at states ``x``.

    It knows no gradient in the states, no transform of functions and no hooks, and runs
    in one thread.
    """
    return (
        not torch.compiler.is_compiling()
        and type(x) is Tensor
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and torch.get_num_threads() == 1
        and not (x.requires_grad and torch.is_grad_enabled())
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and len(net) > 1
        and getattr(net[-1], "out_features", 0) == 1
        and all(_is_ordinary(layer, k) for k, layer in enumerate(net))
    )


def _is_ordinary(layer: nn.Module, place: int) -> bool:
    hooks = (
        layer._forward_pre_hooks,
        layer._forward_hooks,
        layer._backward_pre_hooks,
        layer._backward_hooks,
    )
    if any(hooks):
        return False
    if place % 2:
        return type(layer) is nn.SiLU
    return type(layer) is nn.Linear and layer.weight.is_cpu and layer.bias is not None


def silu_tower(
    net: nn.Sequential, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, " batch"]:
    """Return the output of linear layers with SiLU, where `runs_by_tables` allows."""
    parameters = [p for layer in net for p in layer.parameters()]
    if not torch.is_grad_enabled():
        return _forward(x, parameters)[0]
    value: Tensor = _SiLUTower.apply(x, *parameters)
    return value


def plain_tower(
    x: Float[Tensor, "batch n_sites"], *parameters: Float[Tensor, "..."]
) -> Float[Tensor, " batch"]:
    """Return the same by torch's own operations."""
    *hidden, weight, bias = parameters
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        for w, b in zip(hidden[::2], hidden[1::2], strict=True):
            x = functional.silu(functional.linear(x, w, b))
    with torch.autocast("cpu", enabled=False):
        return functional.linear(x.to(weight.dtype), weight, bias).squeeze(-1)


class _SiLUTower(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        energies, weights, inputs, sums = _forward(x, parameters)
        ctx.n_parameters = len(parameters)
        ctx.save_for_backward(x, *parameters, *weights, *inputs, *sums)
        return energies

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = upstream
        x, *saved = ctx.saved_tensors
        parameters = [saved.pop(0) for _ in range(ctx.n_parameters)]
        if torch.is_grad_enabled():  # gradients that are to be differentiated
            return None, *_gradients_of_plain(x, parameters, g)
        n = len(saved) // 3
        kept = saved[:n], saved[n : 2 * n], saved[2 * n :]
        return None, *_backward(g, parameters[-2], *kept)


def _gradients_of_plain(
    x: Tensor, parameters: list[Tensor], g: Tensor
) -> list[Tensor | None]:
    asked = [p for p in parameters if p.requires_grad]
    value = plain_tower(x, *parameters)
    found = iter(torch.autograd.grad(value, asked, g, create_graph=True))
    return [next(found) if p.requires_grad else None for p in parameters]


def _forward(
    x: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """Return energies, and of the hidden layers weights, inputs and sums."""
    *hidden, weight, bias = (p.detach() for p in parameters)
    silu, _ = _tables()
    h = x.detach().bfloat16()
    weights: list[Tensor] = []
    inputs: list[Tensor] = []
    sums: list[Tensor] = []
    for w, b in zip(hidden[::2], hidden[1::2], strict=True):
        if sums:
            h = torch.empty_like(sums[-1])
            _look_up(_words(sums[-1]), silu, _words(h))
        inputs.append(h)
        weights.append(w.bfloat16())
        sums.append(functional.linear(h, weights[-1], b.bfloat16()))
    energies = x.new_empty(len(x))
    _read(_words(sums[-1]), silu, weight[0].numpy(), energies.numpy())
    return energies.add_(bias), weights, inputs, sums


def _backward(
    g: Tensor,
    last: Tensor,
    weights: Sequence[Tensor],
    inputs: Sequence[Tensor],
    sums: Sequence[Tensor],
) -> list[Tensor]:
    """Return the gradients of all weights and biases, in their order."""
    silu, slopes = _tables()
    g, last = g.detach().contiguous(), last.detach()
    at_last = torch.zeros_like(last)
    found = [g.sum().view(1), at_last]
    back = torch.empty_like(sums[-1])
    for k in reversed(range(len(sums))):
        at_bias = g.new_zeros(sums[k].shape[1])
        layer = _words(sums[k]), slopes, _words(back), at_bias.numpy()
        if k + 1 == len(sums):
            row, at_row = last[0].numpy(), at_last[0].numpy()
            _read_back(g.numpy(), row, silu, *layer, at_row)
        else:
            _slope_back(*layer)
        found += [at_bias, (back.t() @ inputs[k]).to(g.dtype)]
        if k:
            back = back @ weights[k]
    return found[::-1]


@cache
def _tables() -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Return SiLU in bfloat16 and its slope in single precision, of all numbers."""
    every = torch.arange(2**16, dtype=torch.int32, device="cpu")
    every = every.to(torch.uint16).view(torch.bfloat16)
    wide = every.double()
    slopes = torch.ops.aten.silu_backward(torch.ones_like(wide), wide)
    return _words(functional.silu(every)), slopes.float().numpy()


def _words(x: Tensor) -> NDArray[np.uint16]:
    """Return the memory of numbers in bfloat16, which numpy does not know."""
    words: NDArray[np.uint16] = x.view(torch.uint16).numpy()
    return words


@inlined
def _wide(word: Any) -> Any:
    """Return the number that a word of bfloat16 stands for."""
    return np.uint32(np.uint32(word) << np.uint32(16)).view(np.float32)


@inlined
def _narrow(number: Any) -> Any:
    """Return the word of bfloat16 next to a number; of two, the even one."""
    bits = np.float32(number).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@reordered
def _look_up(z: Any, silu: Any, out: Any) -> None:
    rows, columns = z.shape
    for r in range(rows):
        for i in range(columns):
            out[r, i] = silu[z[r, i]]


@reordered
def _read(z: Any, silu: Any, weight: Any, out: Any) -> None:
    """Sum the SiLU of each row by the weights of one output."""
    rows, columns = z.shape
    words = np.empty(columns, dtype=np.uint16)
    for r in range(rows):
        for i in range(columns):
            words[i] = silu[z[r, i]]
        total = np.float32(0)
        for i in range(columns):
            total += weight[i] * _wide(words[i])
        out[r] = total


@reordered
def _slope_back(z: Any, slopes: Any, back: Any, at_bias: Any) -> None:
    """Multiply what comes back by the slopes, in place, and sum it over the rows."""
    rows, columns = z.shape
    slope = np.empty(columns, dtype=np.float32)
    for r in range(rows):
        # Apart from looking up, which has no vectors, the products have them.
        for i in range(columns):
            slope[i] = slopes[z[r, i]]
        for i in range(columns):
            product = _wide(back[r, i]) * slope[i]
            at_bias[i] += product
            back[r, i] = _narrow(product)


@reordered
def _read_back(
    g: Any,
    weight: Any,
    silu: Any,
    z: Any,
    slopes: Any,
    back: Any,
    at_bias: Any,
    at_weight: Any,
) -> None:
    """Write what comes back from `_read` so, and sum its weight's gradient."""
    rows, columns = z.shape
    slope = np.empty(columns, dtype=np.float32)
    words = np.empty(columns, dtype=np.uint16)
    for r in range(rows):
        for i in range(columns):
            slope[i] = slopes[z[r, i]]
            words[i] = silu[z[r, i]]
        for i in range(columns):
            product = g[r] * weight[i] * slope[i]
            at_bias[i] += product
            at_weight[i] += g[r] * _wide(words[i])
            back[r, i] = _narrow(product)
