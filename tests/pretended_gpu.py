"""A GPU that is not there: the processor's numbers, with a GPU's rules.

Inside ``with pretended_gpu() as device`` a tensor that is made on, or moved to, that
device holds its numbers on the processor, but must not meet tensors that do not lie
beside it, nor generators of another device, nor numpy. So code that would fail on a
GPU, since a part of it was made on the processor, fails here, too. What only a real
one shows, its kernels, its speed and its rounding, is not shown.

To torch it is the device "meta", which knows shapes and no numbers: no build lacks it,
and autograd treats it as the processor.
"""

from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["pretended_gpu"]

DEVICE = "meta"

# Operations that read indices, or numbers, from the processor on their own.
MOVES = {"aten::_to_copy", "aten::copy_"}
INDEXED = {
    "aten::index",
    "aten::index_put_",
    "aten::index_put",
    "aten::_index_put_impl_",
}


# Told of each operation on the GPU's numbers; see `pretended_graphs`.
watch = None

# Products of matrices and vectors, which a GPU has of no integers.
PRODUCTS = {f"aten::{name}" for name in ("mm", "bmm", "mv", "dot", "addmm", "addmv")}

# Operations whose result the processor, or the size of a tensor, depends on.
WAITS = {
    "aten::_local_scalar_dense",
    "aten::_unique",
    "aten::_unique2",
    "aten::bincount",
    "aten::equal",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
}


_TorchsGenerator = torch.Generator


def leaves(value):
    """Return what stands in nested lists and tuples; several times as fast as torch."""
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def mapped(function, value):
    """Return the same lists and tuples with a function's values in them."""
    if isinstance(value, list | tuple):
        return type(value)([mapped(function, part) for part in value])
    return function(value)


class OnGPU(torch.Tensor):
    """A tensor that claims to lie on the GPU."""

    is_cuda = True

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )

    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"OnGPU({self.held})"

    def tolist(self):
        return self.cpu().tolist()

    def new_tensor(self, data, *, dtype=None):
        return torch.tensor(data, dtype=dtype or self.dtype, device=DEVICE)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})


class Generator(torch.Generator):
    # By what torch passes on of it; kept, so that no other gets its place.
    on_gpu: ClassVar = {}

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu")

    def __init__(self, device="cpu"):
        self.claimed = torch.device(device)
        if self.claimed.type == DEVICE:
            self.on_gpu[self._cdata] = self

    @property
    def device(self):
        return self.claimed

    def clone_state(self):
        twin = Generator(self.claimed)
        twin.set_state(self.get_state())
        return twin


class Rules(TorchDispatchMode):
    """Sees every operation, also those that make tensors.

    Attributes
    ----------
    waits
        Names of those for which a program would have to wait for its GPU.
    """

    def __init__(self, waits=None):
        super().__init__()
        self.waits = [] if waits is None else waits

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        given = leaves([*args, *kwargs.values()])
        there = [x for x in given if isinstance(x, OnGPU)]
        reads = name in MOVES and str(kwargs.get("device", DEVICE)) == "cpu"
        masked = name in INDEXED and any(x.dtype == torch.bool for x in there)
        if there and (name in WAITS or reads or masked):
            self.waits.append(name)
            if watch is not None:
                watch.waits(name)
        return computed(function, args, kwargs, given)


def computed(function, args, kwargs, given=None):
    """Check where what is given lies, compute, and let the result lie there, too."""
    name = function._schema.name
    given = leaves([*args, *kwargs.values()]) if given is None else given
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    there = [x for x in tensors if isinstance(x, OnGPU)]
    here = [x for x in tensors if not isinstance(x, OnGPU)]
    assert all(x.device.type == "cpu" for x in here), f"{name}: no numbers"
    first = next(iter(tensors), None)
    asked = kwargs.get("device")
    on_gpu = bool(there) if asked is None else torch.device(asked).type == DEVICE
    if name == "aten::copy_":
        on_gpu = isinstance(first, OnGPU)
    elif there and name not in MOVES:
        # A single number of the processor may stand among tensors of a GPU.
        apart = any(x.dim() for x in here) or function._schema.is_mutable
        apart &= bool(here) and not (name in INDEXED and isinstance(first, OnGPU))
        assert not apart, f"{name}: tensors of the GPU and of the processor"
    for source in given:
        if isinstance(source, _TorchsGenerator):
            of_gpu = source._cdata in Generator.on_gpu
            assert of_gpu == on_gpu, f"{name}: a generator of another device"
    args = mapped(_held, tuple(args))
    kwargs = {name: mapped(_held, value) for name, value in kwargs.items()}
    if asked is not None:
        kwargs["device"] = "cpu"
    if not on_gpu:
        return function(*args, **kwargs)
    floats = all(x.is_floating_point() or x.is_complex() for x in there)
    assert floats or name not in PRODUCTS, f"{name}: a product of integers"
    if watch is not None:
        if here and (name in MOVES or (name in INDEXED and any(x.dim() for x in here))):
            watch.waits(f"{name} from the processor")
        watch.begins(function, args, kwargs)
    found = function(*args, **kwargs)
    if watch is not None:
        watch.ended(function, args, kwargs, found)
    known = {id(x.held): x for x in there}  # what was changed in place is itself

    def put(x):
        return known.get(id(x), OnGPU(x)) if isinstance(x, torch.Tensor) else x

    return mapped(put, found)


def _held(x):
    return x.held if isinstance(x, OnGPU) else x


@contextmanager
def pretended_gpu():
    """Let torch have such a device; yields its name and what waits for it."""
    made, as_tensor, autocast = torch.tensor, torch.as_tensor, torch.autocast

    def placed(make):
        # Torch fills a new tensor where no mode sees it.
        return lambda data, *, device=None, **how: make(data, **how).to(device or "cpu")

    def cast(kind, *args, **how):
        return autocast("cpu" if kind == DEVICE else kind, *args, **how)

    with (
        mock.patch("torch.Generator", Generator),
        mock.patch("torch.tensor", placed(made)),
        mock.patch("torch.as_tensor", placed(as_tensor)),
        mock.patch("torch.autocast", cast),
        mock.patch("torch.optim.adam._device_dtype_check_for_fused"),
        mock.patch("ebmtut.random.check_device"),
        mock.patch("ebmtut.metrics.proposals.check_device"),
        Rules() as rules,
    ):
        yield DEVICE, rules.waits
