"""What signatures declare is held to, at every door of the package."""

import ast
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import torch

import ebmtut
from ebmtut.checks import InputError, Range, shown


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


def messages() -> Iterator[tuple[str, ast.expr]]:
    """Every message of the package that says what something must be."""
    for path in sorted(Path(ebmtut.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name("InputError"), args=[message]):
                    if " must " in ast.unparse(message):
                        yield f"{path.name}:{node.lineno}", message


def test_what_must_be_is_told_with_what_was_given() -> None:
    """Behind "must" stands a value, or the reason why a file could not be read."""
    lacking = []
    for place, message in messages():
        parts = message.values if isinstance(message, ast.JoinedStr) else [message]
        must = next(k for k, part in enumerate(parts) if " must " in ast.unparse(part))
        told = any(isinstance(part, ast.FormattedValue) for part in parts[must + 1 :])
        if not told and "got " not in ast.unparse(message):
            lacking.append(f"{place}: {ast.unparse(message)}")
    assert not lacking, "\n".join(lacking)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        ("cpu", "'cpu'"),
        (list(range(99)), f"{str(list(range(99)))[:60]}..."),
        (torch.eye(2), "tensor([[1., 0.], [0., 1.]])"),
        (object(), "object"),
    ],
)
def test_any_value_is_shown_in_one_short_line(value: object, text: str) -> None:
    assert shown(value) == text
