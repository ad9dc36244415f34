"""Success rates of the pages' live runs: counted from stored numbers, and repeated."""

import ast
import builtins
import warnings

import pytest

from studies import live_seeds
from studies.live_seeds import RUNS, USUAL

#: Runs of less than a second, with some of their seeds.
CHEAP = {
    "recovery likelihood, one parameter": (0, 4),
    "perturb-and-max-product, own graph": (1,),
    "flow samplers, own graph": (2, 3),
    "own data, graph": (5,),
}


def names_of(source: str) -> tuple[set[str], set[str]]:
    """Names that a piece of code reads, and those that it defines."""
    reads, defines = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (reads if isinstance(node.ctx, ast.Load) else defines).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defines.add(node.name)
        elif isinstance(node, ast.arg):
            defines.add(node.arg)
        elif isinstance(node, ast.alias):
            defines.add((node.asname or node.name).split(".")[0])
    return reads, defines


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_all_its_cells_and_names(name):
    run, known = RUNS[name], set()
    before, after = live_seeds.cells_of(run)
    for source in (*before, *after, *run["numbers"].values()):
        reads, defines = names_of(source)
        known |= defines
        assert reads <= known, f"{reads - known} of {source[:60]!r}"
    for test in run["conclusions"].values():
        assert names_of(test)[0] <= {*run["numbers"], *dir(builtins)}


def test_stored_rates_are_those_of_the_stored_numbers():
    stored = live_seeds.load()
    assert stored.keys() <= RUNS.keys()
    for name, kept in stored.items():
        for found in kept["found"].values():
            assert found["rates"] == live_seeds.rates(RUNS[name], found["numbers"])
            assert found["seeds"] >= (10 if found["cpu_s"] < live_seeds.SLOW_S else 5)
            assert found["provenance"]["commit"] != "unknown"
    if old := list(live_seeds.out_of_date(stored)):
        told = f"python studies/live_seeds.py executes {old} again"
        warnings.warn(told, stacklevel=1)


def test_rates_are_counted():
    run = {"conclusions": {"a is less": "a < b", "b is large": "b > 9"}}
    found = live_seeds.rates(run, {"a": [1, 2, 3, 4], "b": [2, 2, 9, 10]})
    assert found == {"a is less": 0.75, "b is large": 0.25}


@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_part_comes_out_again(name):
    stored = live_seeds.load()[name]["found"][USUAL]["numbers"]
    for seed in CHEAP[name]:
        again = live_seeds.execute(RUNS[name], seed)
        want = {key: values[seed] for key, values in stored.items()}
        assert again == pytest.approx(want, rel=0.05, abs=0.005)
