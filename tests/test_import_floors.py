"""A module imports lower floors, its own package, and what stands left of it."""

import ast
import subprocess
import sys

import pytest

from tools.architecture import FLOORS, floors_table
from tools.paths import ROOT

ORDER = {part: n for n, part in enumerate(" ".join(FLOORS.values()).split())}
# The package's own door and `python -m ebmtut` look at everything.
ROOF = {"__init__", "__main__"}

PACKAGE = ROOT / "src" / "ebmtut"


def part_of(path, package):
    """Name the part a file belongs to: a module, or the package on the top level."""
    return path.relative_to(package).with_suffix("").parts[0]


def imported_parts(path, package):
    """Parts of the package that a file imports, wherever in the file it does so."""
    name = package.name
    here = [name, *path.relative_to(package).parent.parts]
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = here[: len(here) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            modules |= {f"{base}.{alias.name}" for alias in node.names}
    split = [module.split(".") for module in modules]
    return {parts[1] for parts in split if parts[0] == name and len(parts) > 1}


def violations(package):
    """Imports that go up or sideways, and parts that have no floor."""
    wrong = []
    for path in sorted(package.rglob("*.py")):
        part = part_of(path, package)
        if part in ROOF:
            continue
        if part not in ORDER:
            wrong.append(f"{part} has no floor: give it one in FLOORS")
            continue
        for other in sorted(imported_parts(path, package) - {part}):
            # `from ebmtut import __version__` names no part and starts no cycle.
            if other.startswith("__"):
                continue
            if other not in ORDER or ORDER[other] > ORDER[part]:
                wrong.append(f"{path.relative_to(package)} imports {other}")
    return wrong


def test_the_table_shows_every_part():
    parts = {path.stem for path in PACKAGE.iterdir() if path.stem[:2] != "__"}
    assert ORDER.keys() == parts - {"py"}  # py.typed
    for part in ORDER:  # experiments and kernels have no entry in the reference
        assert (f"`{part}`" in floors_table()) == (part[0] != "_"), part


def test_every_import_goes_down():
    assert list(PACKAGE.rglob("*.py")), "no package to check"
    assert violations(PACKAGE) == []


def test_the_front_door_is_light():
    """Names, facts, stored numbers and their list are there before torch could be."""
    light = """
import ebmtut
import ebmtut.checks
import ebmtut.results as r; r.load_result('got/gibbs-bands', 'full')
import ebmtut.experiments as e; e.facts(); e.available()
import ebmtut.ledger as l; l.tally(l.lines(l.rows()))
from ebmtut.cli import main; main(['list'])
"""
    code = f"""
import sys
for line in {light.splitlines()}:
    exec(line)
    assert "torch" not in sys.modules, line
import ebmtut.tensor_checks
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("path", "line", "caught"),
    [
        ("energies/ising.py", "from ebmtut.samplers import gibbs", True),
        ("energies/ising.py", "from ..losses.mine import loss", True),
        ("energies/ising.py", "from .. import metrics", True),
        ("energies/ising.py", "def f():\n    import ebmtut.cli", True),
        ("states.py", "from . import schedules", True),
        ("attic.py", "", True),
        ("energies/ising.py", "from .base import Energy", False),
        ("energies/ising.py", "from ebmtut.checks import InputError", False),
        ("states.py", "from .checks import check_choice", False),
        ("losses/mine.py", "import torch, ebmtut.exact", False),
        ("__init__.py", "from .cli import main", False),
    ],
)
def test_the_test_tells_good_imports_from_bad(tmp_path, path, line, caught):
    module = tmp_path / "ebmtut" / path
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(line)
    assert bool(violations(tmp_path / "ebmtut")) == caught
