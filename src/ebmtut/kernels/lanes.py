"""Eight words as one value of compiled code, which the processor's registers hold.

Numba knows no such type, and its compiler finds what can be done side by side only in
simple loops. Here ``load`` makes eight neighbouring words a value, on which ``& | ^ ~ +
<< >>`` work word by word; a number beside such a value stands for eight equal words.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

LANES = 8  # 512 bits

_built_in: Any = intrinsic  # whose functions are called without `typing`
_INDEX = ir.IntType(32)
_WORDS = ir.VectorType(ir.IntType(64), LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES_TYPE = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORDS)


def _spread(builder, word):  # type: ignore[no-untyped-def]
    none = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(none, word, _INDEX(0))
    everywhere = ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(first, none, everywhere)


def _define(operation, instruction):  # type: ignore[no-untyped-def]
    """Let an operator of two values, or a value and a number, be an instruction."""

    @_built_in
    def apply(typing, a, b):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            a, b = (
                value
                if kind == _LANES_TYPE
                else _spread(builder, context.cast(builder, value, kind, types.uint64))
                for value, kind in zip(values, signature.args, strict=True)
            )
            return getattr(builder, instruction)(a, b)

        return _LANES_TYPE(a, b), emit

    @overload(operation)
    def typed(a, b):  # type: ignore[no-untyped-def]
        fits = all(
            kind == _LANES_TYPE or isinstance(kind, types.Integer) for kind in (a, b)
        )
        if fits and _LANES_TYPE in (a, b):
            return lambda a, b: apply(a, b)
        return None


for _operation, _instruction in {
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
    operator.ixor: "xor",
    operator.add: "add",
    operator.lshift: "shl",
    operator.rshift: "lshr",
}.items():
    _define(_operation, _instruction)


@overload(operator.invert)
def _invert(a):  # type: ignore[no-untyped-def]
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    return (lambda a: a ^ ones) if a == _LANES_TYPE else None


@_built_in
def spread(typing, word):  # type: ignore[no-untyped-def]
    """Eight equal words."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return _spread(builder, values[0])

    return _LANES_TYPE(types.uint64), emit


def _address(context, builder, kind, array, index):  # type: ignore[no-untyped-def]
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _WORDS.as_pointer())


@_built_in
def load(typing, array, index):  # type: ignore[no-untyped-def]
    """Eight words of an array, contiguous in memory, from an index into it on."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature.args[0], *values)
        return builder.load(address, align=8)

    return _LANES_TYPE(array, types.uint64), emit


@_built_in
def store(typing, array, index, value):  # type: ignore[no-untyped-def]
    """Write eight words from an index into a contiguous array on."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature.args[0], *values[:2])
        builder.store(values[2], address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, _LANES_TYPE), emit


@_built_in
def any_set(typing, value):  # type: ignore[no-untyped-def]
    """Whether any bit is set."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        zero = ir.Constant(_WORDS, [0] * LANES)
        mask = builder.icmp_unsigned("!=", values[0], zero)
        byte = ir.IntType(LANES)
        return builder.icmp_unsigned("!=", builder.bitcast(mask, byte), byte(0))

    return types.boolean(_LANES_TYPE), emit
