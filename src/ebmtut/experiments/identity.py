"""What a function computes, told by its code: a digest of all that it can reach.

A stored outcome is used again only if the code that made it is today's. The whole
package would be too much: a new caption would throw hours of work away. The lines
of the one function would be too little: what it calls can change. So we follow the
names in its compiled code through the package, and what it imports when it runs. A
module of kernels for the GPU, ``*_triton``, can't be imported everywhere: it counts by
its text, so that a digest is the same on all machines.
"""

import ast
import dis
import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ebmtut import __version__
from ebmtut._digests import text_digest
from ebmtut.checks import InputError
from ebmtut.results import to_json


def code_digest(function: Callable[..., Any], *others: object) -> str:
    """Digest a function's code and all code and constants that it can reach."""
    ours = {"ebmtut", function.__module__.partition(".")[0]}
    parts: set[str] = {__version__}
    seen: dict[int, object] = {}  # holds what it names, so that no id comes twice
    waiting: list[object] = [function, *map(type, others)]
    while waiting:
        value = _unwrapped(waiting.pop())
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Mapping):
            waiting += _others(parts, "item", {str(k): v for k, v in value.items()})
        elif isinstance(value, (list, tuple)):
            waiting += _others(parts, "item", {str(k): v for k, v in enumerate(value)})
        elif isinstance(value, partial):
            waiting += [value.func, value.args, value.keywords]
        elif str(getattr(value, "__module__", "")).partition(".")[0] not in ours:
            continue
        elif isinstance(value, FunctionType):
            where = f"{value.__module__}.{value.__qualname__}"
            parts.add(f"{where} {_code(value.__code__, value.__doc__)}")
            named = _named(value, ours)
            named["defaults"] = (value.__defaults__, value.__kwdefaults__)
            cells = zip(
                value.__code__.co_freevars, value.__closure__ or (), strict=True
            )
            named |= {name: cell.cell_contents for name, cell in cells}
            waiting += _others(parts, where, named)
            for module, names in _imports(value.__code__):
                if module.partition(".")[0] in ours:
                    waiting += _imported(parts, module, names, ours)
        elif isinstance(value, type):
            where = f"{value.__module__}.{value.__qualname__}"
            # But not its module, or what pickling leaves there.
            own = {
                name: inner
                for name, inner in vars(value).items()
                if not name.startswith("__") or callable(_unwrapped(inner))
            }
            waiting += [*_others(parts, where, own), *value.__bases__]
        else:
            waiting.append(type(value))
    return text_digest("\n".join(sorted(parts)))[:16]


def _unwrapped(value: Any) -> Any:
    """Return what a decorator, a compiler or a descriptor is wrapped around."""
    for name in ("__wrapped__", "py_func", "__func__", "fget"):
        inner = value.__dict__.get(name) if isinstance(value, FunctionType) else None
        if inner is None and not isinstance(value, (type, ModuleType, FunctionType)):
            inner = getattr(value, name, None)
        if callable(inner):
            return _unwrapped(inner)
    return value


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return (*code.co_names, *(name for part in inner for name in _names(part)))


def _named(function: FunctionType, ours: set[str]) -> dict[str, Any]:
    """Return what the names in a function's code stand for."""
    names = _names(function.__code__)
    found = {n: function.__globals__[n] for n in names if n in function.__globals__}
    for module in [v for v in found.values() if isinstance(v, ModuleType)]:
        if module.__name__.partition(".")[0] in ours:
            found |= {n: vars(module)[n] for n in names if n in vars(module)}
    return {n: v for n, v in found.items() if not isinstance(v, ModuleType)}


@cache
def _imports(code: CodeType) -> tuple[tuple[str, list[str]], ...]:
    """Return what a function imports when it runs: a module, and names from it."""
    found: list[tuple[str, list[str]]] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            found.append((instruction.argval, []))
        elif instruction.opname == "IMPORT_FROM":
            found[-1][1].append(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _imports(constant)
    return tuple(found)


def _imported(
    parts: set[str], module: str, names: list[str], ours: set[str]
) -> list[Any]:
    """Return what names from a module stand for; note the text of GPU kernels."""
    if not module.endswith("_triton"):
        found = vars(importlib.import_module(module))
        return _others(parts, module, {n: found[n] for n in names if n in found})
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    code, imports = _parsed(Path(spec.origin).read_text("utf-8"))
    parts.add(f"{module} {code}")
    rest = []
    for source, of_source in imports:
        if source.partition(".")[0] in ours:
            rest += _imported(parts, source, of_source, ours)
    return rest


@cache
def _parsed(text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return a module's code without its documentation, and what it imports."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    imports = [
        (statement.module or "", [alias.name for alias in statement.names])
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom)
    ]
    return ast.dump(tree), imports


def _others(parts: set[str], where: str, named: Mapping[str, Any]) -> list[Any]:
    """Note the constants among what is named, and return the rest."""
    rest = []
    for name, value in named.items():
        if callable(value):
            rest.append(value)
            continue
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
        try:
            parts.add(f"{where} {name} = {json.dumps(to_json(value))}")
        except InputError:
            rest.append(value)
    return rest


@cache
def _code(code: CodeType, doc: str | None) -> str:
    """Return what a compiled function does, without its documentation."""
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            constants.append(_code(constant, None))
        elif isinstance(constant, frozenset):
            constants.append(repr(sorted(map(repr, constant))))
        elif constant is None or constant != doc:
            constants.append(repr(constant))
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
