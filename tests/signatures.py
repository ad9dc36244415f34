"""What holds calls to the signatures: shapes by jaxtyping, types by beartype."""

import functools
import inspect
import random
import threading
import types
from collections import Counter
from typing import Any, get_type_hints

import numpy as np
import torch
from beartype import BeartypeConf, beartype

__all__ = ["checked_when_done", "once_per_kind"]

#: Where the random numbers of the checks are, which leave those of the tests alone.
_draws = [random.Random(0).getstate()]

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, too

#: Beartype examines one item of a container, at random. Calls whose containers mix
#: kinds of items are therefore checked so many times before they are trusted, and
#: those with more items than it takes time to look at, each time.
_MIXED, _LARGE = 32, 64


def checked_when_done(function):
    """Check arguments and result of a call when it returns, but none that raises.

    jaxtyping asks for a check before the call, of a function that returns Any,
    and for one of everything afterwards. Without the first a bad argument still
    meets the door's own `InputError`, which the tests want to see; with the second
    a door that lets it pass fails.
    """
    if function.__annotations__.get("return") is Any:
        return function
    check = _check(function)

    @functools.wraps(function)
    def unseen(*args, **kwargs):
        # Of a container beartype looks at an item that it draws at random.
        state = random.getstate()
        random.setstate(_draws[0])
        try:
            return check(*args, **kwargs)
        finally:
            _draws[0] = random.getstate()
            random.setstate(state)

    return unseen


@functools.cache
def _family(kind):
    """Return which of these a type is, once: to ask torch's types takes long."""
    families = {
        "type": type,
        "tensor": (torch.Tensor, np.ndarray),
        "items": (tuple, list, set, frozenset),
        "dict": dict,
    }
    return next((name for name, x in families.items() if issubclass(kind, x)), "")


def _kind(value, mixed):
    """Return all that an annotation can tell of a value, and note mixed containers."""
    kind = type(value)
    if kind is str:  # which Literal tells apart
        return value if len(value) < 40 else kind
    family = _family(kind)
    if not family:
        return kind
    if family == "tensor":
        return kind, value.dtype, value.shape
    if family == "type":
        return kind, value
    if len(value) > _LARGE:
        mixed.append(_LARGE)
        return kind
    if family == "dict":
        return kind, _kind(list(value), mixed), _kind(list(value.values()), mixed)
    items = tuple([_kind(item, mixed) for item in value])
    if len(several := frozenset(items)) > 1:
        mixed.append(_MIXED)
    return kind, items if issubclass(kind, tuple) else several


@functools.cache
def _passed(code, module, annotations, generator):
    """Return how often calls of each kind passed, and places for what checks.

    A nested function is made at each call of the outer one, its checker only once for
    each class that stands for torch's generator: the pretended GPU brings its own.
    """
    return Counter(), {}


def _signature(function):
    """Return a signature whose annotations are evaluated, before a test patches any.

    A name that is not known yet allows anything, as jaxtyping has it.
    """

    def evaluated(hint):
        if not isinstance(hint, str):
            return hint
        try:
            one = types.SimpleNamespace(__annotations__={"hint": hint})
            hints = get_type_hints(one, function.__globals__, include_extras=True)
        except Exception:
            return Any
        return hints["hint"]

    signature = inspect.signature(function)
    return signature.replace(
        parameters=[
            p.replace(annotation=evaluated(p.annotation))
            for p in signature.parameters.values()
        ],
        return_annotation=evaluated(signature.return_annotation),
    )


def _checker(function, signature, jaxtyped, typechecker):
    """Return what checks a call that has been made, given its result as well."""
    held = threading.local()

    def give_back(*args, **kwargs):
        return held.result

    # jaxtyping looks for the names in annotations among a function's globals.
    give_back = types.FunctionType(
        give_back.__code__, function.__globals__, closure=give_back.__closure__
    )
    functools.update_wrapper(give_back, function)
    give_back.__signature__ = signature
    del give_back.__wrapped__  # a nested function holds on to what is around it
    checked = jaxtyped(give_back, typechecker=typechecker)

    def check(result, args, kwargs):
        held.result = result
        try:
            checked(*args, **kwargs)
        finally:
            del held.result

    return check


def once_per_kind(jaxtyped):
    """Return a decorator that does what jaxtyping's does, once for calls of one kind.

    A call's kind is all that an annotation can tell: the types of arguments and
    result, dtypes and shapes of tensors, texts, and the same of the items of
    containers. So every call is held to its signature. A check takes half a
    millisecond, several times as long as a small energy; to find the kind takes some
    microseconds. The checker is made at the first call, for making it takes as long.
    """

    def decorate(function=None, *, typechecker):
        if function is None:
            return functools.partial(decorate, typechecker=typechecker)
        if not inspect.isfunction(function):
            made = getattr(function, "__init__", None)
            if getattr(made, "__globals__", None) is globals():
                return function  # a class of which every call is decorated already
            return jaxtyped(function, typechecker=typechecker)
        if not function.__annotations__:
            return function
        told = tuple(map(repr, function.__annotations__.items()))
        passed, kept = _passed(
            function.__code__, function.__module__, told, torch.Generator
        )
        if not kept:
            kept["signature"] = _signature(function)

        @functools.wraps(function)
        def called(*args, **kwargs):
            result = function(*args, **kwargs)
            mixed = []
            kind = (
                tuple([_kind(value, mixed) for value in args]),
                tuple([(name, _kind(kwargs[name], mixed)) for name in kwargs]),
                _kind(result, mixed),
            )
            if _LARGE in mixed or passed[kind] < (_MIXED if mixed else 1):
                if "check" not in kept:
                    kept["check"] = _checker(
                        function, kept["signature"], jaxtyped, typechecker
                    )
                kept["check"](result, args, kwargs)
                passed[kind] += 1
            return result

        return called

    return decorate
