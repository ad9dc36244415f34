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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Every test of this folder needs a browser."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return a folder for pages, with all scripts that they load.

    The widgets' scripts lie beside the pages, for questions to their functions.
    """
    folder = tmp_path_factory.mktemp("site")
    (folder / "static").symlink_to(BOOK / "_static")
    for script in Path(ebmtut.widgets.__file__).parent.glob("*.js"):
        (folder / script.name).symlink_to(script)
    return folder


@pytest.fixture(scope="session")
def served(site):
    with serve(site) as where:
        yield where


@pytest.fixture(scope="module")
def page(request, site):
    """Return the name of a page that shows the module's `make_widget()`."""
    data = embed_data(views=[request.module.make_widget()], drop_defaults=False)
    state, view = (json.dumps(data[k]) for k in ("manager_state", "view_specs"))
    name = f"{Path(request.module.__file__).stem}.html"
    (site / name).write_text(PAGE.format(state=state, view=view[1:-1]), "utf-8")
    return name


@pytest.fixture
def address(served, page):
    return f"{served}/{page}"


@pytest.fixture(scope="module")
def ask(browser, served, page):
    """Return a function: script and question -> what the page's scripts answer."""
    with visitor(browser) as visit:
        visit.open(f"{served}/{page}")

        def answer(script, question):
            found = visit.page.evaluate(script, question)
            assert visit.problems == []
            return found

        yield answer


@pytest.fixture(scope="session")
def windows(browser):
    """Return two windows, which keep the scripts that they have loaded."""
    with visitor(browser, DESKTOP) as desk, visitor(browser, PHONE) as phone:
        yield {"desktop": desk, "phone from a file": phone}


@pytest.fixture(params=["desktop", "phone from a file"])
def visit(windows, address, site, page, request):
    """Return the page, open, its widget drawn; nothing is wrong before and after."""
    visit = windows[request.param]
    is_phone = request.param != "desktop"
    visit.open((site / page).as_uri() if is_phone else address)
    assert visit.wrong() == []
    yield visit
    assert visit.wrong() == []


@pytest.fixture
def line(visit):
    return visit.page.locator(".ex-note")
