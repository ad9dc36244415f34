import ast
import importlib
import inspect
import math
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

import ebmtut
from ebmtut.checks import (
    Count,
    InputError,
    Natural,
    OneOf,
    Positive,
    Range,
    check_choice,
    check_range,
    checked,
    shown,
)
from ebmtut.tensor_checks import check_bits, check_finite, check_floats, check_only_bits


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (0, {"low": 0}),
        (1.5, {"low": 1, "high": 2}),
        (np.float32(0.5), {"low": 0, "high": 1, "include_low": False}),
        (np.int64(3), {"low": 1, "integer": True}),
        (-7, {}),
    ],
)
def test_range_accepts_what_is_inside(value, limits):
    check_range("n", value, **limits)


@pytest.mark.parametrize(
    ("value", "limits", "rule"),
    [
        (-1, {"low": 0}, ">= 0"),
        (0, {"low": 0, "include_low": False}, "> 0"),
        (3, {"high": 2}, "<= 2"),
        (2, {"high": 2, "include_high": False}, "< 2"),
        (1.0, {"low": 0, "high": 1, "include_high": False}, r"\[0, 1\)"),
        (0.0, {"low": 0, "high": 1, "include_low": False}, r"\(0, 1\]"),
        (1.5, {"integer": True}, "an integer"),
        (7, {"low": 8, "high": 8, "integer": True}, "8"),
        (math.nan, {}, "a number"),
        (math.inf, {"low": 0}, "a number"),
        ("3", {}, "a number"),
        (True, {"integer": True}, "an integer"),
        (None, {"low": 0}, "a number"),
    ],
)
def test_range_names_argument_value_and_rule(value, limits, rule):
    with pytest.raises(InputError, match=rf"^eps must be .*{rule}.*, got ") as error:
        check_range("eps", value, **limits)
    assert repr(value) in str(error.value)
    assert "\n" not in str(error.value)


def test_choice_lists_and_suggests():
    check_choice("name", "moons", ["moons", "circles"])
    words = r"name must be one of moons, circles; got 'mons'.*'moons'"
    with pytest.raises(InputError, match=words):
        check_choice("name", "mons", ["moons", "circles"])
    with pytest.raises(InputError, match=r"got 'xyz'$"):
        check_choice("name", "xyz", iter(["moons", "circles"]))


def test_floats():
    x = torch.ones(2, 3, dtype=torch.float16, requires_grad=True)
    got = check_floats("x", x, (None, 3))
    assert torch.equal(got, x) and not got.requires_grad
    for bad, words in (
        (torch.ones(2, 3, dtype=torch.int64), r"a floating tensor, got torch\.int64"),
        (torch.ones(2, 3, dtype=torch.cfloat), r"a floating tensor, got torch\.compl"),
        (torch.full((2, 3), math.nan), "finite, got 6"),
        (torch.ones(3), "shape"),
        ([1.0], "a tensor of shape .*, got \\[1.0\\]"),
    ):
        with pytest.raises(InputError, match=f"x must .*{words}"):
            check_floats("x", bad, (None, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_entries_are_looked_at_to_the_end(dtype):
    x = torch.zeros(2, 2**16 + 3, dtype=dtype).T  # not contiguous, in two pieces
    check_finite("x", x)
    check_only_bits("x", x)
    x[-1, -1] = 0.5
    with pytest.raises(InputError, match=r"x must hold only 0 and 1, got 0.5"):
        check_only_bits("x", x)
    x[-1, -1] = math.inf
    with pytest.raises(InputError, match=r"got 1 NaN or infinite of"):
        check_finite("x", x)


def test_bits():
    check_bits("x", torch.tensor([[0.0, 1.0]]), 2)
    check_bits("x", torch.zeros(0, 2, dtype=torch.float64))
    for bad, words in (
        ([torch.tensor([[0, 1]])], "floating tensor of 0 and 1, got torch.int64"),
        ([torch.tensor([[1.0, -1.0]])], "only 0 and 1, got -1"),
        ([torch.tensor([[math.nan, 1.0]])], "only 0 and 1, got nan"),
        ([torch.tensor([[0.0, 1.0]]), 3], r"shape \(any, 3\), got \(1, 2\)"),
        ([torch.tensor([0.0, 1.0])], r"shape \(any, any\), got \(2,\)"),
    ):
        with pytest.raises(InputError, match=words):
            check_bits("x", *bad)


@checked
@dataclass(frozen=True)
class Setting:
    """What a row may declare."""

    n_steps: Count = 1
    side: Annotated[int, Range(4, 8)] | None = None
    damping: Annotated[float, Range(0, 1, include_high=False)] = 0.0
    methods: tuple[Annotated[str, OneOf(("gibbs", "gwg"))], ...] = ("gibbs",)
    budget: Mapping[Annotated[str, OneOf(("gibbs", "gwg"))], Positive] | None = None
    pairs: tuple[tuple[str, Natural], ...] = ()
    free: float = 0.0


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("n_steps", 0, "n_steps must be an integer >= 1, got 0"),
        ("n_steps", 1.5, "n_steps must be an integer >= 1, got 1.5"),
        ("n_steps", True, "n_steps must be an integer >= 1, got True"),
        ("side", 9, "side must be an integer in [4, 8], got 9"),
        ("damping", 1.0, "damping must be a number in [0, 1), got 1.0"),
        ("damping", math.nan, "damping must be a number in [0, 1), got nan"),
        ("methods", ("gibbs", "gwh"), "methods must be one of gibbs, gwg; got 'gwh'"),
        ("methods", 3, "methods must be a sequence, got 3"),
        ("budget", {"hmc": 1}, "budget must be one of gibbs, gwg; got 'hmc'"),
        ("budget", {"gwg": 0}, "budget['gwg'] must be a number > 0, got 0"),
        ("budget", ("gwg",), "budget must be Mapping, got"),
        ("pairs", (("any", 0), ("thing", -1)), "pairs must be an integer >= 0, got -1"),
    ],
)
def test_what_is_not_declared_is_refused_in_one_line(field, value, words):
    for attempt in (Setting, lambda **given: replace(Setting(), **given)):
        with pytest.raises(InputError, match="^" + re.escape(words)):
            attempt(**{field: value})


def test_a_function_is_held_to_its_signature():
    @checked
    def scale(x, by: Positive = 0.0, *, n: Count | Sequence[Count] = 1):
        return x * by

    assert scale(3) == 0, "a default is the author's"
    assert scale(3, 2, n=[1, 2]) == 6
    signature = str(inspect.signature(scale)).replace("typing.", "")
    assert "by: Annotated[float, '> 0']" in signature
    for given, words in (
        (((3, -1), {}), "by must be a number > 0, got -1"),
        (((3,), {"by": 0}), "by must be a number > 0, got 0"),
    ):
        with pytest.raises(InputError, match=f"^{words}$"):
            scale(*given[0], **given[1])
    with pytest.raises(TypeError, match="scale"):
        scale()


def test_what_is_called_must_be_a_function() -> None:
    @checked
    def apply(f: Callable[[int], int] | None = None) -> int:
        return f(1) if f else 0

    assert apply() == apply(None) == 0 and apply(lambda n: n + 1) == 2
    with pytest.raises(InputError, match=r"^f must be a function, got 3$"):
        apply(3)


@checked
def plain(
    n: int = 0,
    rate: float = 0.0,
    on: bool = True,
    name: str = "",
    path: str | Path | None = None,
    sizes: Sequence[int] = (),
    ends: tuple[float, float] = (0.0, 1.0),
    times: Sequence[float] | torch.Tensor = (),
    mixed: float | str = 0.0,
    once: Iterable[float] = (),
) -> tuple[float, ...]:
    return tuple(once)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "words"),
    [
        ("n", [3, np.int64(3), torch.tensor(3)], ["3", 2.0, True, None], "an integer"),
        ("rate", [1, math.inf, np.float32(1), torch.tensor(1.0)], ["1"], "a number"),
        ("on", [False, np.bool_(True), 1], ["no", 2, None], "True or False"),
        ("name", ["a"], [3, None], "text"),
        ("path", ["a", Path("a"), None], [3], "text or a path"),
        ("sizes", [[1], (), np.arange(3), {1, 2}], [3, "12"], "a sequence"),
        ("sizes", [range(3)], [["1"], (1.5,)], "an integer"),
        ("ends", [[0, 1]], [(0,), [0, 1, 2]], "2 values"),
        ("times", [torch.ones(2), [1]], [1, np.array(1)], "Tensor or a sequence"),
        ("mixed", [1, "a"], [None, [1]], "a number or text"),
    ],
)
def test_numbers_texts_and_sequences(name, right, wrong, words) -> None:
    for value in right:
        plain(**{name: value})
    for value in wrong:
        with pytest.raises(InputError, match=rf"^{name} must be {words}.*, got .*\Z"):
            plain(**{name: value})


def test_a_check_uses_up_no_iterator() -> None:
    assert plain(once=iter([1.0, 2.0])) == (1.0, 2.0)


def test_objects_of_a_wrong_kind_are_an_input_error() -> None:
    """Of whatever function promises one; without anywidget, which is for widgets."""
    command = [sys.executable, "-m", "tests.wrong_kinds"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *wrong, last = done.stdout.splitlines()
    assert not wrong, "\n".join(wrong)
    assert int(last.split()[0]) > 100


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
