"""Validate arguments, with one-line messages that name the value and what is allowed.

A signature or a field declares what is allowed, ``n_steps: Count``, and `checked`
validates every call; the functions are for conditions on several values. The checks of
tensors are in `ebmtut.tensor_checks`; this module does not import torch.
"""

import difflib
import inspect
import math
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import cache, partial, wraps
from itertools import cycle
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = [
    "BelowOne",
    "Count",
    "DivergenceError",
    "Fraction",
    "InputError",
    "Natural",
    "NonNegative",
    "Number",
    "OneOf",
    "Positive",
    "Probability",
    "Range",
    "check_choice",
    "check_counts",
    "check_positive",
    "check_range",
    "check_type",
    "checked",
    "shown",
]


class InputError(ValueError):
    """An argument is not valid.

    The message is one line that names the argument, its value and what is allowed. All
    functions but the innermost formulas raise it, before any work, for an argument that
    their signature or description does not allow; docstrings list the other errors.
    """


class DivergenceError(RuntimeError):
    """Parameters, the loss or its gradient are no longer finite.

    Attributes
    ----------
    step
        The training step at which this was found.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step

    def __reduce__(self) -> tuple[type["DivergenceError"], tuple[str, int]]:
        """Keep both arguments when a worker process sends the error."""
        return type(self), (str(self), self.step)


def check_range(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    include_low: bool = True,
    include_high: bool = True,
    integer: bool = False,
) -> None:
    """Require a finite number between two bounds.

    Parameters
    ----------
    low, high, include_low, include_high
        Bounds, None leaves a side open; whether a bound itself is allowed.
    """
    kind = Integral if integer else Real
    # bool is an Integral, but True as a count is a mistake.
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if (
        not is_number
        or not math.isfinite(value)
        or (low is not None and (value < low or (value == low and not include_low)))
        or (high is not None and (value > high or (value == high and not include_high)))
    ):
        noun = "an integer" if integer else "a number"
        rule = _interval(low, high, include_low, include_high)
        if low is not None and low == high:  # only one value is allowed
            noun, rule = f"{low}", ""
        raise InputError(f"{name} must be {noun}{rule}, got {shown(value)}")


def check_counts(*, low: int = 1, **values: Any) -> None:
    """Require integers with a lower bound."""
    for name, value in values.items():
        check_range(name, value, low=low, integer=True)


def check_positive(**values: Any) -> None:
    """Require finite numbers above zero."""
    for name, value in values.items():
        check_range(name, value, low=0, include_low=False)


def _interval(
    low: float | None, high: float | None, include_low: bool, include_high: bool
) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" {'>=' if include_low else '>'} {low}"
    if low is None:
        return f" {'<=' if include_high else '<'} {high}"
    left, right = "[" if include_low else "(", "]" if include_high else ")"
    return f" in {left}{low}, {high}{right}"


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Require one of a list of names."""
    known = list(choices)
    if value in known:
        return
    close = difflib.get_close_matches(str(value), known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    words = list(map(str, known))
    listing = ", ".join(words) or "nothing"
    if len(words) > _MANY:
        near = difflib.get_close_matches(str(value), words, n=_NEAREST, cutoff=0)
        listing = f"{len(words)}, such as {', '.join(near)}"
    raise InputError(f"{name} must be one of {listing}; got {shown(value)}{hint}")


_MANY, _NEAREST = 30, 4


def check_type(name: str, value: object, *types: type) -> None:
    """Require an instance of one of several classes."""
    if not isinstance(value, types):
        known = " or ".join(kind.__name__ for kind in types)
        hint = getattr(types[0], "HOW_MADE", "")
        raise InputError(f"{name} must be {known}, got {shown(value)}{hint}")


def shown(value: object) -> str:
    """Show a value in one line of at most 60 characters, for messages."""
    text = " ".join(repr(value).split())
    if f" at {hex(id(value))}" in text:
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


class Range(NamedTuple):
    """A range of finite numbers, for annotations.

    ``Annotated[int, Range(2, 6)]`` means the integers from 2 to 6.
    """

    low: float | None = None
    high: float | None = None
    include_low: bool = True
    include_high: bool = True

    def __repr__(self) -> str:
        """Return the rule as the reference shows it in signatures."""
        return repr(_interval(*self).strip() or "finite")


class OneOf:
    """A set of names, for annotations: ``Annotated[str, OneOf(DENSITIES)]``."""

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = tuple(choices)

    def __repr__(self) -> str:
        """Return the rule as the reference shows it in signatures."""
        return " or ".join(map(repr, self.choices))


#: Integers from 1.
Count = Annotated[int, Range(1)]
#: Integers from 0.
Natural = Annotated[int, Range(0)]
#: Finite numbers.
Number = Annotated[float, Range()]
#: Finite numbers from 0.
NonNegative = Annotated[float, Range(0)]
#: Finite numbers above 0.
Positive = Annotated[float, Range(0, include_low=False)]
#: Numbers from 0 to 1.
Probability = Annotated[float, Range(0, 1)]
#: Numbers from 0 to 1, without 1.
BelowOne = Annotated[float, Range(0, 1, include_high=False)]
#: Numbers between 0 and 1, without both ends.
Fraction = Annotated[float, Range(0, 1, include_low=False, include_high=False)]

_Door = TypeVar("_Door", bound=Callable[..., Any])
_Check = Callable[[str, Any], None]


def checked(door: _Door) -> _Door:
    """Validate every call of a function or class against its annotations.

    A number is compared with its `Range`, a name with its `OneOf` or ``Literal``, also
    in sequences, mappings and unions; what is to be an instance of a class of this
    package, a tensor, a function, a number, a text or a sequence must be one. Defaults
    are not validated. A class is returned itself, with a constructor that validates.
    """
    if isinstance(door, type):
        door.__init__ = checked(door.__init__)  # type: ignore[misc]
        return door
    places = {name: k for k, name in enumerate(inspect.signature(door).parameters)}

    @cache
    def declared() -> list[tuple[str, int, _Check]]:
        # At the first call, since an annotation may use names that are defined later.
        hints = get_type_hints(door, include_extras=True)
        return [
            (name, place, _check_of(hints[name]))
            for name, place in places.items()
            if name in hints and _declares(hints[name])
        ]

    @wraps(door)
    def checked_door(*args: Any, **kwargs: Any) -> Any:
        for name, place, check in declared():
            if name in kwargs:
                check(name, kwargs[name])
            elif place < len(args):
                check(name, args[place])
        return door(*args, **kwargs)

    return checked_door  # type: ignore[return-value]


def _declares(hint: Any) -> bool:
    """Whether an annotation declares allowed values, a plain kind, or a known class."""
    if isinstance(hint, (Range, OneOf)) or _class_of(hint) is not None:
        return True
    if hint in _PLAIN or get_origin(hint) in (Literal, Callable, *_CONTAINERS):
        return hint is not type(None)
    return any(map(_declares, get_args(hint)))


def _class_of(hint: Any) -> type | None:
    """Return the class of this package, or of tensors, that an annotation names."""
    known = _any_class(hint)
    if known is None or (known.__module__, known.__name__) == ("torch", "Tensor"):
        return known
    return known if known.__module__.startswith("ebmtut.") else None


def _any_class(hint: Any) -> type | None:
    """Return the class that an annotation names, unless isinstance refuses it."""
    hint = getattr(hint, "array_type", hint)  # jaxtyping's, of any shape and dtype
    if not isinstance(hint, type) or get_origin(hint) is not None:
        return None
    is_protocol = getattr(hint, "_is_protocol", False)
    return None if is_protocol and not hasattr(hint, "_is_runtime_protocol") else hint


def _number(value: Any) -> Any:
    """Return the number that an array or tensor without dimensions holds."""
    return value.item() if getattr(value, "shape", None) == () else value


def _is_integer(value: Any) -> bool:
    if type(value) is int:
        return True
    number = _number(value)
    return isinstance(number, Integral) and not isinstance(number, bool)


def _is_float(value: Any) -> bool:
    if type(value) is float:
        return True
    number = _number(value)
    return isinstance(number, Real) and not isinstance(number, bool)


def _is_bool(value: Any) -> bool:
    number = value if isinstance(value, bool) else _number(value)
    return isinstance(number, Integral) and number in (0, 1)


def _is_sequence(value: Any) -> bool:
    if type(value) in (list, tuple):
        return True
    # A tensor without dimensions has the method, but cannot be iterated.
    is_text = isinstance(value, (str, bytes))
    return isinstance(value, Iterable) and not is_text and _number(value) is value


#: What a value of a kind that has no rule of its own is called, and whether it is one.
_PLAIN: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    int: ("an integer", _is_integer),
    float: ("a number", _is_float),
    bool: ("True or False", _is_bool),
    str: ("text", lambda value: isinstance(value, str)),
    Path: ("a path", lambda value: isinstance(value, (str, PathLike))),
    type(None): ("None", lambda value: value is None),
}

_CONTAINERS = (tuple, list, dict, Sequence, Iterable, Mapping, MutableMapping)


def _kind_of(hint: Any) -> tuple[str, Callable[[Any], bool]] | None:
    """Return the name of an annotation's kind and whether a value is of it.

    None for what only a type checker knows, and for a rule that decides by itself.
    """
    origin = get_origin(hint) or hint
    if plain := _PLAIN.get(hint):
        return plain
    if origin is Callable:
        return "a function", callable
    if origin in _CONTAINERS and get_args(hint):
        if issubclass(origin, Mapping):
            return "Mapping", lambda value: isinstance(value, Mapping)
        return "a sequence", _is_sequence
    if (known := _any_class(hint)) is not None:
        return known.__name__, lambda value: isinstance(value, known)
    return None


def _check_of(hint: Any) -> _Check:
    """Return the check of a value, or of its entries, by the annotation."""
    origin, inside = get_origin(hint), get_args(hint)
    if not _declares(hint):
        return lambda name, value: None
    if (known := _class_of(hint)) is not None:
        return lambda name, value: check_type(name, value, known)
    if origin is Literal:
        return partial(check_choice, choices=inside)
    if origin is Annotated:
        kind, rule = inside
        if isinstance(rule, OneOf):
            return partial(check_choice, choices=rule.choices)
        return partial(check_range, **rule._asdict(), integer=kind is int)
    if origin in (Union, UnionType):
        return _check_of_union(inside)
    about = _kind_of(hint)
    if about is None:  # a container of another kind
        return lambda name, value: None
    noun, is_one = about

    def check_kind(name: str, value: Any) -> None:
        if type(value) is not hint and not is_one(value):
            raise InputError(f"{name} must be {noun}, got {shown(value)}")

    if not inside or origin is Callable:
        return check_kind
    checks = [_check_of(part) for part in inside]

    def check_mapping(name: str, value: Any) -> None:
        check_kind(name, value)
        for key, item in value.items():
            checks[0](name, key)
            checks[1](f"{name}[{key!r}]", item)

    def check_sequence(name: str, value: Any) -> None:
        check_kind(name, value)
        # The entries of an iterator would be used up, those of an array have one dtype.
        if type(value) not in (list, tuple) and (
            isinstance(value, Iterator) or (hasattr(value, "dtype") and is_plain)
        ):
            return
        if not alike and len([*value]) != len(checks):
            raise InputError(f"{name} must be {len(checks)} values, got {shown(value)}")
        for item, check in zip(value, cycle(checks), strict=False):
            check(name, item)

    is_plain = inside[0] in _PLAIN
    alike = len(inside) == 1 or inside[1] is ...
    checks = checks[:1] if alike else checks
    return check_mapping if noun == "Mapping" else check_sequence


def _check_of_union(members: tuple[Any, ...]) -> _Check:
    """Return the check of a value by that member whose kind it is.

    A value of no member's kind is compared with the first member that has a rule.
    """
    # A tensor is of the class of tensors before it is a sequence.
    members = tuple(sorted(members, key=lambda member: _any_class(member) is None))
    kinds = [_kind_of(member) for member in members]
    checks = [_check_of(member) for member in members]
    ruled = [
        check
        for member, kind, check in zip(members, kinds, checks, strict=True)
        if kind is None and _declares(member)
    ]
    classes = [known for member in members if (known := _class_of(member)) is not None]
    others = [member for member in members if member is not type(None)]
    names = " or ".join(kind[0] for kind in map(_kind_of, others) if kind)

    def check_union(name: str, value: Any) -> None:
        for kind, check in zip(kinds, checks, strict=True):
            if kind is not None and kind[1](value):
                return check(name, value)
        if ruled:
            return ruled[0](name, value)
        if len(classes) == len(others):
            return check_type(name, value, *classes)
        if all(map(_declares, others)):
            raise InputError(f"{name} must be {names}, got {shown(value)}")
        return None

    return check_union
