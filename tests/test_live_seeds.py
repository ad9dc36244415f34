"""Success rates over seeds, of claims and of live runs: counted, stored, repeated."""

import builtins
import dis
import re
import warnings
from statistics import fmean
from types import CodeType, SimpleNamespace

import pytest

from ebmtut.results import load_result
from studies import live_seeds, seeds
from studies.live_seeds import RUNS, USUAL
from tools.paths import BOOK

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


OUTCOMES = {
    0: {"a": ("match", 1.0), "b": ("miss", 0.1)},
    1: {"a": ("better", 1.1), "b": ("match", 0.3)},
    2: {"a": ("match", 1.0), "b": ("like the baseline", None)},
    3: {"a": ("match", 1.0), "b": ("miss", 0.1)},
}


def test_rates_are_counted_and_kept(tmp_path, monkeypatch):
    made = []

    def outcomes(experiment, seed):
        made.append(seed)
        return OUTCOMES[seed]

    config = SimpleNamespace(config=lambda scale: seeds.Result("x/y", scale, {}, {}))
    monkeypatch.setattr(seeds, "outcomes", outcomes)
    monkeypatch.setattr(seeds, "get_experiment", lambda name: config)
    found = seeds.study("ed/window", range(2), tmp_path)
    assert found.scalars["rates"] == {"b": 0.5, "a": 1.0}
    found = seeds.study("ed/window", range(4), tmp_path)
    assert found.scalars["rates"] == {"b": 0.25, "a": 1.0}
    assert made == [0, 1, 2, 3]
    assert found == load_result("seeds/ed-window", "quick", tmp_path)
    assert found.provenance.command and found.scalars["commits"].keys() == set("0123")


def test_the_table_of_initial_guesses_has_the_stored_fractions():
    page = (BOOK / "own-data/histograms.ipynb").read_text("utf-8")
    found = live_seeds.load()["own data, histograms"]["found"][USUAL]["numbers"]
    rows = re.findall(r"\| ([\d.]+) \| ([\d.]+) to ([\d.]+) \|", page)
    keys = ("highest", "apart", "random", "narrowing", "subtracted", "both")
    for row, key in zip(rows, keys, strict=True):
        shown = fmean(found[key]), min(found[key]), max(found[key])
        assert row == tuple(f"{100 * fraction:.1f}" for fraction in shown)
