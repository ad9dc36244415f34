"""Success rates of the pages' live runs: counted from stored numbers, and repeated."""

import builtins
import dis
import warnings
from types import CodeType

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


def names_of(source: str) -> tuple[set[str], set[str], set[str]]:
    """Names that code reads at once and when its functions run, and that it defines."""
    at_once, later, defines = set(), set(), set()
    codes = [compile(source, "<cell>", "exec")]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                (at_once if code is codes[0] else later).add(step.argval)
            elif step.opname == "STORE_NAME":
                defines.add(step.argval)
    return at_once, later, defines


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_all_its_cells_and_names(name):
    run, wanted = RUNS[name], set()
    known = {*dir(builtins), "__annotations__", "__name__"}
    before, after = live_seeds.cells_of(run)
    for source in (*before, *after, *run["numbers"].values()):
        at_once, later, defines = names_of(source)
        assert at_once <= known | defines, f"{at_once - known} of {source[:60]!r}"
        known |= defines
        wanted |= later
    assert wanted <= known
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
