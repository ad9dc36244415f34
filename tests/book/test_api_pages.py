"""Every public name has one entry, which leads to the sections that use it."""

import pytest

from tools import api_pages
from tools.api_pages import collect, write_pages


def test_every_name_has_one_entry_that_leads_to_its_uses(tmp_path):
    text = "\n".join(f.read_text("utf-8") for f in write_pages(tmp_path))
    named = [f"{m}.{n}" for m, names in collect().items() for n in names]
    assert len(named) == len(set(named)) > 100
    for name in named:
        assert text.count(f"autolink-examples:: {name}\n") == 1
    assert ".. autofunction:: one_hot\n" in text
    assert ".. autoclass:: Grid\n" in text


def test_experiments_are_no_public_interface():
    assert not [name for name in collect() if "experiments" in name]


def test_names_are_grouped_by_the_chapter_that_teaches_them(tmp_path):
    files = {file.stem: file.read_text("utf-8") for file in write_pages(tmp_path)}
    losses = files["losses"]
    entry = losses.partition(".. autofunction:: energy_discrepancy_loss\n")[2]
    assert entry.strip().startswith("Taught in :ref:`energy-discrepancy`.")
    discrepancy = losses.index(".. rubric:: Energy discrepancy")
    recovery = losses.index(".. rubric:: Recovery likelihood")
    assert discrepancy < losses.index("   energy_discrepancy_loss\n") < recovery
    assert recovery < losses.index("   recovery_likelihood_loss\n")


def test_a_name_that_is_not_there_is_refused(monkeypatch):
    from ebmtut import states

    monkeypatch.setattr(states, "__all__", ["ghost"])
    with pytest.raises(AttributeError, match="ghost"):
        api_pages.collect()
