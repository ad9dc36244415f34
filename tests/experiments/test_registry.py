"""The facts are complete, experiments are found, wrong names are refused."""

import dataclasses
import re
from pathlib import Path

import pytest

from ebmtut.checks import InputError
from ebmtut.experiments import registry
from ebmtut.experiments.facts import facts, get_fact, papers

# How many figures and tables the project set out to regenerate, by paper.
ROWS = {"ed": 9, "drl": 11, "pmp": 10, "got": 7, "dnfs": 13}


def test_every_row_is_there():
    counted = dict.fromkeys(papers(), 0)
    for fact in facts().values():
        counted[fact.paper] += 1
        assert fact.title and fact.shown_in and fact.what and fact.setup, fact.id
    assert counted == ROWS


def test_tables_have_a_number_for_each_column():
    for fact in facts().values():
        for table in fact.tables:
            assert table.better in ("higher", "lower", "equal")
            assert len(set(table.columns)) == len(table.columns)
            assert table.published
            for rows in (table.published, table.spread):
                for method, values in rows.items():
                    assert len(values) == len(table.columns), (fact.id, method)
            assert table.spread.keys() <= table.published.keys()
            assert (table.slack > 0) == bool(table.slack_reason)


@pytest.mark.parametrize(
    ("id", "table", "method", "column", "number"),
    [
        ("ed/ising-rmse", "negative log-RMSE", "ED-Grid", "9x9, -0.2", 4.0),
        ("ed/ising-rmse", "negative log-RMSE", "EB-GFN", "10x10, 0.1", 6.1),
        ("ed/densities-table", "NLL", "ED-Bern", "checkerboard", 20.679),
        ("ed/densities-table", "MMD", "ALOE+", "checkerboard", 12.138),
        ("drl/ablation", "FID", "DRL", "T6 K10", None),
        ("pmp/rbm-twos", "log MMD^2", "PMP", "twos", -5.36),
        ("dnfs/max-cut", "cut size", "DNFS + DMALA", "BA64-75", 192.30),
        ("ed/densities-table", "NLL", "ED-Pool", "moons", None),
    ],
)
def test_published_numbers(id, table, method, column, number):
    assert get_fact(id).table(table).number(method, column) == number


def test_numbers_that_are_not_available_are_said_to_be():
    fact = get_fact("ed/images-table")
    assert not fact.tables
    assert "not available" in fact.note


def test_unknown_names_list_what_exists():
    with pytest.raises(InputError, match=r"ed/ising-rmse.*did you mean 'ed/ising-rms"):
        get_fact("ed/ising-rmze")
    with pytest.raises(InputError, match="NLL, MMD"):
        get_fact("ed/densities-table").table("FID")
    with pytest.raises(InputError, match=r"moons.*'moon'.*did you mean 'moons'"):
        get_fact("ed/densities-table").table("NLL").number("PCD", "moon")


def test_a_row_is_found_because_its_module_is_there():
    """And a module with an experiment is a row's: none is overlooked."""
    package = Path(registry.__file__).parent
    declares = re.compile(r"^EXPERIMENT\b", re.MULTILINE)
    modules = {
        ".".join(path.relative_to(package).with_suffix("").parts)
        for path in package.glob("*/*.py")
        if declares.search(path.read_text("utf-8"))
    }
    rows = {registry.module_of(id) for id in registry.available()}
    assert modules == rows


# No experiment yet; a row that gets one leaves this list.
def test_every_row_has_an_experiment():
    assert registry.available() == list(facts())


def test_every_row_has_its_section_on_one_page():
    """The label of the row, once: the ledger links to it."""
    for id in registry.available():
        label = f"({registry.label_of(id)})="
        pages = (registry.BOOK / id.split("/")[0]).glob("*.ipynb")
        found = sum(page.read_text("utf-8").count(label) for page in pages)
        assert found == 1 and registry.page_of(id) is not None, id


def test_experiments_keep_the_contract():
    for id in registry.available():
        experiment = registry.get_experiment(id)
        assert experiment.id == id
        assert experiment.title
        assert experiment.presets
        assert set(experiment.presets) <= set(registry.SCALES)
        for config in experiment.presets.values():
            assert dataclasses.is_dataclass(config)
        with pytest.raises(InputError, match=r"scale of .*quick.*'huge'"):
            experiment.config("huge")
