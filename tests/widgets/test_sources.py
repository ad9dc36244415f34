"""One script a widget, made of modules that import each other."""

from pathlib import Path

import pytest

from ebmtut.widgets import LandscapeExplorer, MessageExplorer, TransportExplorer
from ebmtut.widgets import _sources as sources


def test_what_is_imported_comes_first_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
