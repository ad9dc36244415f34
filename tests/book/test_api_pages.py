"""Every public name has one entry, which leads to the sections that use it."""

import pytest

from tools import api_pages
from tools.api_pages import ApiError, collect, write_pages


def test_every_name_has_one_entry_that_leads_to_its_uses(tmp_path):
    text = "\n".join(f.read_text("utf-8") for f in write_pages(tmp_path))
    named = [f"{m}.{n}" for p in collect() for m, ns in p.modules.items() for n in ns]
    assert len(named) == len(set(named)) > 100
    for name in named:
        assert text.count(f"autolink-examples:: {name}\n") == 1
    assert ".. autofunction:: one_hot\n" in text
    assert ".. autoclass:: Grid\n" in text


def test_a_name_stands_under_its_shortest_path():
    pages = {page.name: page.modules for page in collect()}
    assert "gibbs_ot" in pages["transport"]["ebmtut.transport"]
    assert "ebmtut.transport.gibbs_ot" not in pages["transport"]


@pytest.mark.parametrize("spoilt", ["__all__", "__doc__"])
def test_what_cannot_be_documented_is_refused(monkeypatch, spoilt):
    from ebmtut import states

    monkeypatch.setattr(states, spoilt, ["ghost"] if spoilt == "__all__" else "")
    with pytest.raises(ApiError, match=r"ghost|no docstring"):
        api_pages.collect()
