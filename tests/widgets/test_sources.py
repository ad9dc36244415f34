"""One script a widget, made of modules that import each other."""

import importlib
import sys
import tomllib

import pytest

from ebmtut.widgets import LandscapeExplorer, MessageExplorer, TransportExplorer
from ebmtut.widgets import _sources as sources
from tools.paths import ROOT


def test_without_anywidget_an_extra_is_named_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "ebmtut.widgets")
    words = r"pip install 'ebmtut\[sweep\]', or \[book\]"
    with pytest.raises(ImportError, match=words):
        importlib.import_module("ebmtut.widgets")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra in ("sweep", "book"):
        named = project["optional-dependencies"][extra]
        assert any(line.startswith("anywidget") for line in named)


def test_what_is_imported_comes_first_and_once(tmp_path, monkeypatch):
    (tmp_path / "a.js").write_text("export const a = 1;\n")
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\nexport const b = a;\n')
    (tmp_path / "c.js").write_text(
        'import { b } from "./b.js";\nimport {\n  a,\n} from "./a.js";\nb + a;\n'
    )
    monkeypatch.setattr(sources, "_HERE", tmp_path)
    together = "export const a = 1; export const b = a; b + a;"
    assert sources.script("c.js").split() == together.split()


@pytest.mark.parametrize(
    "widget", [LandscapeExplorer, MessageExplorer, TransportExplorer]
)
def test_nothing_is_left_to_load(widget: type) -> None:
    assert "import" not in widget._esm
    assert widget._esm.count("export default") == 1
    assert widget._esm.count("function frame(") == 1
    assert widget._css.startswith("/* Light controls")
