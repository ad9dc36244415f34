"""What signatures declare is held to, at every door of the package."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

import ebmtut
from ebmtut.checks import InputError, Range


def declares(function: Any) -> bool:
    """Whether an annotation of a function says what is allowed."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # what only a type checker understands
        return False
    return any(get_origin(hint) is Annotated for hint in hints.values())


def doors() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function and method that declares, by its name."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(ebmtut.__path__, "ebmtut."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            parts = vars(value).values() if inspect.isclass(value) else [value]
            for part in parts:
                function = getattr(part, "__func__", part)
                if inspect.isfunction(function) and declares(function):
                    found[f"{function.__module__}.{function.__qualname__}"] = function
    return iter(sorted(found.items()))


def refused(kind: type, rule: Any) -> list[Any]:
    """Values that a rule cannot allow."""
    if not isinstance(rule, Range):
        return ["no such thing", None]
    values: list[Any] = [math.nan, math.inf, "1", None, True]
    values += [0.5] if kind is int else []
    for bound, included, away in (
        (rule.low, rule.include_low, -1),
        (rule.high, rule.include_high, 1),
    ):
        if bound is not None:
            values += [bound + away] if included else [bound]
    return values


@pytest.mark.parametrize(("name", "door"), list(doors()))
def test_what_is_declared_is_asked_for(name: str, door: Callable[..., Any]) -> None:
    """Before all else, in one line that names the parameter."""
    for parameter, hint in get_type_hints(door, include_extras=True).items():
        if get_origin(hint) is Annotated:
            for value in refused(*get_args(hint)):
                with pytest.raises(InputError, match=rf"^{parameter} must .* got"):
                    door(**{parameter: value})
