"""A page with one widget, as the book builds it: no kernel, no network."""

import json
from pathlib import Path

import pytest
from ipywidgets.embed import embed_data

import ebmtut.widgets
from tools.pages import DESKTOP, PHONE, serve, visitor
from tools.paths import BOOK

# What a built page consists of, in the same order as in _config.yml.
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>A widget</title>
<link rel="icon" href="data:,">
<script src="static/vendor/requirejs/require.js"></script>
<script src="static/offline-widgets.js"></script>
<script src="static/vendor/html-manager/embed-amd.js"></script>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
</head><body><main><div class="cell_output">
<script type="application/vnd.jupyter.widget-view+json">{view}</script>
</div></main></body></html>"""


@pytest.fixture(scope="module")
def site(request, tmp_path_factory):
    """Return a folder with page.html, which shows the module's `make_widget()`.

    The widgets' scripts lie beside it, for questions to their functions.
    """
    folder = tmp_path_factory.mktemp("site")
    (folder / "static").symlink_to(BOOK / "_static")
    for script in Path(ebmtut.widgets.__file__).parent.glob("*.js"):
        (folder / script.name).symlink_to(script)
    widget = request.module.make_widget()
    data = embed_data(views=[widget], drop_defaults=False)
    state, view = (json.dumps(data[k]) for k in ("manager_state", "view_specs"))
    page = PAGE.format(state=state, view=view[1:-1])
    (folder / "page.html").write_text(page, "utf-8")
    return folder


@pytest.fixture(scope="module")
def address(site):
    with serve(site) as where:
        yield f"{where}/page.html"


@pytest.fixture(params=["desktop", "phone from a file"])
def visit(browser, address, site, request):
    """Return the page, open, its widget drawn."""
    is_phone = request.param != "desktop"
    with visitor(browser, PHONE if is_phone else DESKTOP) as visit:
        visit.open((site / "page.html").as_uri() if is_phone else address)
        visit.wait_for_widgets()
        yield visit
