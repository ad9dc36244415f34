"""Public names have one entry, which leads to their uses; repairs of the pages hold."""

import importlib.util
from pathlib import Path

import pytest

from tools import api_pages
from tools.api_pages import collect, write_pages
from tools.paths import BOOK


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


@pytest.fixture(scope="module")
def fixes():
    spec = importlib.util.spec_from_file_location("fixes", BOOK / "_ext/book_fixes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_folded_figures_leave_no_gap(fixes):
    numbers = {
        "ed/index": {"idea": (1, 1), "quick": (1, 2), "again": (1, 3), "end": (1, 4)},
        "ed/ising": {"first": (1, 5), "other-label": (1, 5), "live": (1, 6)},
        "drl/index": {"live": (2, 1), "loss": (2, 2)},
    }
    folded = {
        "ed/index": ["quick", "again"],
        "ed/ising": ["live"],
        "drl/index": ["live"],
    }
    fixes.number_visible_figures(numbers, folded)
    assert numbers == {
        "ed/index": {
            "idea": (1, 1),
            "quick": (1, "1a"),
            "again": (1, "1b"),
            "end": (1, 2),
        },
        "ed/ising": {"first": (1, 3), "other-label": (1, 3), "live": (1, "3a")},
        "drl/index": {"live": (2, "0a"), "loss": (2, 1)},
    }


def test_outside_chapters_every_page_counts_from_one(fixes):
    numbers = {
        "ed/index": {"a": (1, 1)},
        "own/bits": {"b": (1,), "c": (2,)},
        "own/graph": {"folded": (3,), "d": (4,), "other-label": (4,), "e": (5,)},
    }
    fixes.number_visible_figures(numbers, {"own/graph": ["folded"]})
    assert numbers == {
        "ed/index": {"a": (1, 1)},
        "own/bits": {"b": (1,), "c": (2,)},
        "own/graph": {"folded": ("0a",), "d": (1,), "other-label": (1,), "e": (2,)},
    }


def test_where_scripts_are_off_the_place_of_a_widget_is_not_empty(fixes):
    view = '<script type="application/vnd.jupyter.widget-view+json">{}</script>'
    state = '<script type="application/vnd.jupyter.widget-state+json">{}</script>'
    mended = fixes.reachable(f"<div>{view}</div>{state}")
    assert mended.startswith("<div><noscript><p>An interactive figure")
    assert mended.count("<noscript>") == 1 and mended.endswith(f"{view}</div>{state}")


def test_only_listings_are_searched_for_names(fixes, tmp_path, monkeypatch):
    def link(document, folder):
        part = Path(folder) / f"{document}.html"
        text = part.read_text("utf-8")
        assert "prose" not in text
        part.write_text(text.replace(">f<", '><a href="#f">f</a><'), "utf-8")

    def listing(kind, name):
        inner = f'<div class="highlight"><pre>{name}</pre></div>'
        return f'<div class="{kind} notranslate">{inner}\n</div>'

    monkeypatch.setattr(fixes, "_link_html", link)
    page = tmp_path / "book" / "page.html"
    page.parent.mkdir()
    kinds = ("highlight-python", "doctest highlight-default")
    before = [listing(kind, name) for kind in kinds for name in ("f", "g")]
    page.write_text("<p>prose of f</p>".join(before), "utf-8")
    fixes._link_listings("book/page", str(tmp_path))
    after = [text.replace(">f<", '><a href="#f">f</a><') for text in before]
    assert page.read_text("utf-8") == "<p>prose of f</p>".join(after)
