"""A check stands once: in a signature, or in the body that works with the value."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.paths import ROOT

PACKAGE = ROOT / "src" / "ebmtut"
# They draw only where no file is: a bad generator is refused on every machine.
MAY_REPEAT = {("digits_at_hand", "generator"), ("load_digits", "generator")}
MAY_REPEAT |= {("load_faces", "generator")}

Functions = dict[str, ast.FunctionDef]


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def functions(tree: ast.Module) -> Functions:
    """Functions and methods of a module; a class goes by what makes it."""
    found: Functions = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    made = part.name == "__init__"
                    found[node.name if made else f"{node.name}.{part.name}"] = part
    return found


def callees(file: Path, package: Path) -> Functions:
    """Functions of the package by the names that a module gives them."""
    found: Functions = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (known := defined(node.module, alias.name, package)) is not None:
                    found[alias.asname or alias.name] = known
    return found | functions(parsed(file))


def defined(module: str, name: str, package: Path) -> ast.FunctionDef | None:
    """Find a function where a package's door has it from."""
    place = package.parent.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return None
    if (found := functions(parsed(file)).get(name)) is not None:
        return found
    doors = parsed(file).body if place.is_dir() else []
    for node in (n for n in doors if isinstance(n, ast.ImportFrom) and n.module):
        if any(alias.name == name for alias in node.names):
            return defined(node.module, name, package)
    return None


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [a.arg for a in every if a.arg not in ("self", "cls")]


def is_check(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and node.func.id.lstrip("_").startswith("check_")


def checks(function: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    """Parameters that a body checks, each with a call that checks it alone."""
    known = set(parameters(function))
    for node in filter(is_check, ast.walk(function)):
        for argument in node.args:
            if isinstance(argument, ast.Name) and argument.id in known:
                yield argument.id, node
        # check_counts(low=2, a=a, b=b) are two checks.
        named = [k for k in node.keywords if ast.unparse(k.value) == k.arg]
        for one in named:
            rest = [k for k in node.keywords if k not in named]
            yield one.arg, ast.Call(node.func, node.args, [*rest, one])


def in_words(call: ast.Call, names: dict[str, str]) -> str:
    """Write a check down, by other names for what it speaks of."""
    call = ast.parse(ast.unparse(call), mode="eval").body
    for node in ast.walk(call):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.keyword):
            node.arg = names.get(node.arg, node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = names.get(node.value, node.value)
    return ast.unparse(call)


def uses(function: ast.FunctionDef) -> Counter[str]:
    """How often each name is read outside of checks."""
    seen = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name))
    for check in filter(is_check, ast.walk(function)):
        seen.subtract(n.id for n in ast.walk(check) if isinstance(n, ast.Name))
    return seen


def repeated(package: Path) -> Iterator[tuple[str, str]]:
    """Arguments that are only passed on, and checked both here and there."""
    for file in sorted(package.rglob("*.py")):
        known = callees(file, package)
        for name, function in functions(parsed(file)).items():
            own = list(checks(function))
            passed: Counter[str] = Counter()
            for call in ast.walk(function):
                there = isinstance(call, ast.Call) and known.get(ast.unparse(call.func))
                if not there or is_check(call):
                    continue
                given = list(zip(call.args, parameters(there), strict=False))
                given += [(k.value, k.arg) for k in call.keywords if k.arg]
                names = {a.id: p for a, p in given if isinstance(a, ast.Name)}
                theirs = {(p, in_words(c, {})) for p, c in checks(there)}
                passed.update(
                    {
                        p
                        for p, check in own
                        if p in names and (names[p], in_words(check, names)) in theirs
                    }
                )
            read = uses(function)
            yield from ((name, p) for p in passed if passed[p] == read[p])


def undeclared(package: Path) -> Iterator[tuple[str, str]]:
    """Checks in bodies that need no more than the value: a signature can say them."""
    for file in sorted(package.rglob("*.py")):
        for name, function in functions(parsed(file)).items():
            private = "_" in (name[0], file.stem[0]) or name.startswith("check_")
            if private or "@compiled" in file.read_text("utf-8"):
                continue
            known = set(parameters(function))
            stored = {
                n.id
                for n in ast.walk(function)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            for parameter, check in checks(function):
                kind = check.func.id
                others = {n.id for n in ast.walk(check) if isinstance(n, ast.Name)}
                if (
                    kind in ("check_range", "check_counts", "check_positive")
                    and not others & (known | stored | {"self"}) - {parameter}
                    and parameter not in stored
                ):
                    yield name, parameter


def test_what_is_only_passed_on_is_checked_where_it_arrives() -> None:
    assert set(repeated(PACKAGE)) == MAY_REPEAT


def test_what_a_signature_can_say_is_said_there() -> None:
    assert set(undeclared(PACKAGE)) == set()


# ------------------------------------------------------------ each of them can fail

HEAD = "from pack.b import inner\n\ndef outer(n, x, generator):\n    "
INNER = """
def inner(k, y, *, generator=None):
    check_range("k", k, low=1, high=len(y))
    check_counts(low=2, y=y)
    check_generator(generator, y.device)
    return k
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('check_range("n", n, low=1, high=len(x))\n    return inner(n, x)', {"n"}),
        ('check_range("n", n, low=2, high=len(x))\n    return inner(n, x)', set()),
        ('check_range("n", n, low=1, high=len(x))\n    return n + inner(n, x)', set()),
        ("check_counts(low=2, n=n, x=x)\n    return inner(n, x)", {"x"}),
        (
            "check_generator(generator, x.device)\n"
            "    return inner(n, x, generator=generator)",
            {"generator"},
        ),
        ("return inner(n, x, generator=generator)", set()),
    ],
)
def test_a_repeated_check_is_caught(tmp_path: Path, body: str, found: set[str]) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "a.py").write_text(HEAD + body)
    (package / "b.py").write_text(INNER)
    assert {parameter for _, parameter in repeated(package)} == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('check_range("n", n, low=1, integer=True)', {"n"}),
        ("check_positive(x=x, n=n)", {"x", "n"}),
        ('check_range("n", n, high=x)', set()),
        ('n = 2 * n\n    check_range("n", n, low=1)', set()),
        ('check_shape("x", x, (None,))', set()),
    ],
)
def test_an_undeclared_range_is_caught(
    tmp_path: Path, body: str, found: set[str]
) -> None:
    (tmp_path / "a.py").write_text(HEAD + body)
    assert {parameter for _, parameter in undeclared(tmp_path)} == found
