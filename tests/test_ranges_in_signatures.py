"""What a signature can say of a value is not checked in a function's body."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.paths import ROOT

PACKAGE = ROOT / "src" / "ebmtut"


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions and methods of a module; a class goes by what makes it."""
    found: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    made = part.name == "__init__"
                    found[node.name if made else f"{node.name}.{part.name}"] = part
    return found


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


def undeclared(package: Path) -> Iterator[tuple[str, str]]:
    """Checks in bodies that need no more than the value: a signature can say them."""
    for file in sorted(package.rglob("*.py")):
        text = file.read_text("utf-8")
        for name, function in functions(ast.parse(text)).items():
            private = "_" in (name[0], file.stem[0]) or name.startswith("check_")
            if private or "@compiled" in text:
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


def test_what_a_signature_can_say_is_said_there() -> None:
    assert set(undeclared(PACKAGE)) == set()


# ------------------------------------------------------------ each of them can fail

HEAD = "def outer(n, x, generator):\n    "


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
