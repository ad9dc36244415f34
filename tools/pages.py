"""Open pages in headless Chromium with the network cut, and say what is wrong there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

from tools.chromium import find_chromium, install_chromium

DESKTOP = (1280, 900)
PHONE = (390, 844)

# No name resolves, and all but this machine is reached by a proxy that is not there.
# To intercept requests instead would take the browser its cache.
CUT_OFF = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-server=127.0.0.1:9",
    *("--disable-quic", "--disable-gpu"),
)

LOCAL = ("http://127.0.0.1:", "file:", "data:", "blob:", "about:")

# Resolves when fonts, formulas, pictures and widgets are there.
SETTLED = """async () => {
  for (const image of document.images) image.loading = "eager";
  await document.fonts.ready;
  await window.MathJax?.startup?.promise;
  await Promise.all([...document.images].map(i => i.decode().catch(() => null)));
}"""

# Resolves when what waits for a frame has been told of it.
DRAWN = """() => new Promise(
  done => requestAnimationFrame(() => requestAnimationFrame(done)))"""

# One view script a widget; the manager puts the widget itself into a .widget-subarea.
WIDGETS_READY = """() => {
  const kind = "application/vnd.jupyter.widget-view+json";
  const wanted = document.querySelectorAll(`script[type="${kind}"]`).length;
  const made = [...document.querySelectorAll(".widget-subarea")];
  return made.filter(e => e.querySelector(".jupyter-widgets")).length >= wanted;
}"""

WRONG = """() => {
  const wrong = [];
  const root = document.documentElement;
  const main = document.querySelector("main, article, body");
  for (const image of document.images)
    if (!image.naturalWidth)
      wrong.push(`picture not loaded: ${image.src.slice(0, 80)}`);
  for (const formula of document.querySelectorAll(".math"))
    if (!formula.querySelector("mjx-container"))
      wrong.push(`formula not typeset: ${formula.textContent.trim().slice(0, 60)}`);
  for (const listing of document.querySelectorAll(".cell_input pre"))
    if (listing.scrollWidth > listing.clientWidth && root.clientWidth > 1000)
      wrong.push(`listing scrolls: ${listing.textContent.trim().slice(0, 60)}`);
  for (const error of document.querySelectorAll("mjx-merror"))
    wrong.push(`formula with an error: ${error.textContent.trim().slice(0, 60)}`);
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode()); )
    if (/\\\\[(\\[]|\\$\\$/.test(node.data) &&
        !node.parentElement.closest("pre, code, script, style, mjx-container, .math"))
      wrong.push(`raw formula: ${node.data.trim().slice(0, 60)}`);
  if (root.scrollWidth > root.clientWidth) {
    const right = e => e.getBoundingClientRect().right;
    const clipped = e => e && e !== document.body &&
      (getComputedStyle(e).overflowX !== "visible" || clipped(e.parentElement));
    const wide = [...document.body.querySelectorAll("*")]
      .filter(e => right(e) > root.clientWidth + 1 && !clipped(e.parentElement))
      .sort((a, b) => right(b) - right(a)).slice(0, 3)
      .map(e => `<${e.localName} class="${e.className}"> ${e.textContent}`)
      .map(name => name.replace(/\\s+/g, " ").slice(0, 80));
    wrong.push(`${root.scrollWidth} px wide, window ${root.clientWidth} px: ` +
               wide.join("; "));
  }
  return wrong;
}"""

# The pictures that a widget shows now, as a reader sees them: their pixels.
PICTURES = """area => {
  const canvas = document.createElement("canvas");
  const seen = [...area.querySelectorAll("img, canvas")].filter(e => e.offsetWidth);
  return seen.map(e => {
    canvas.width = e.naturalWidth || e.width;
    canvas.height = e.naturalHeight || e.height;
    canvas.getContext("2d").drawImage(e, 0, 0);
    return canvas.toDataURL();
  });
}"""

# Sliders of ipywidgets, and the browser's own, which anywidgets use.
HANDLES = ", ".join(
    f".widget-subarea {kind}:visible"
    for kind in (".noUi-handle", "input[type=range]:enabled")
)

# The value of a browser's own slider, and how to set it again.
VALUE = "e => e.matches('input') ? e.value : null"
SET_BACK = """(e, value) => {
  e.value = value;
  e.dispatchEvent(new Event("input", { bubbles: true }));
}"""

# Where a slider stands, from 0 to 1.
PLACE = """e => {
  const [value, low, high] = e.matches("input") ? [e.value, e.min, e.max]
    : ["now", "min", "max"].map(name => e.getAttribute(`aria-value${name}`));
  return (value - low) / (high - low);
}"""

# Controls of widgets that are lower than a finger needs, with their heights.
SMALL_CONTROLS = """() => [...document.querySelectorAll(
    ".explorer :is(input, select, button)")]
  .map(e => [e, e.getBoundingClientRect().height])
  .filter(([e, height]) => e.checkVisibility() && height < 44)
  .map(([e, height]) => `${e.className} is ${height} px high, at least 44`)"""


@dataclass
class Visit:
    """One page, open, with what went wrong while it loaded and since."""

    page: Page
    problems: list[str] = field(default_factory=list)
    patience: float = 60.0

    def open(self, address: str) -> None:
        """Load a page and wait until formulas, pictures and widgets are there."""
        self.problems.clear()
        self.page.goto(address, wait_until="load")
        self.page.evaluate(SETTLED)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the window another size, and wait until the page is drawn in it."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.evaluate(DRAWN)

    def wait_for_widgets(self) -> None:
        """Wait until every widget of the page is drawn."""
        try:
            self.page.wait_for_function(WIDGETS_READY, timeout=1000 * self.patience)
        except TooLate:
            self.problems.append(f"widgets not drawn after {self.patience:.0f} s")
        self.page.evaluate(SETTLED)

    def wrong(self) -> list[str]:
        """Return everything that is wrong with the page now, one line each."""
        self.wait_for_widgets()
        return [*self.problems, *self.page.evaluate(WRONG)]

    def small_controls(self) -> list[str]:
        """Return the controls of widgets that are lower than 44 px."""
        small: list[str] = self.page.evaluate(SMALL_CONTROLS)
        return small

    def dead_sliders(self) -> list[str]:
        """Move every slider by keyboard and by mouse; return those without effect."""
        handles = self.page.locator(HANDLES).all()
        dead = [] if handles else ["the page has no slider"]
        for number, handle in enumerate(handles, start=1):
            area = _ancestor(handle, "widget-subarea")
            handle.scroll_into_view_if_needed()
            start = handle.evaluate(VALUE)
            before = _pictures(area)
            # One step, away from the end.
            handle.press("ArrowLeft" if handle.evaluate(PLACE) == 1 else "ArrowRight")
            if (by_key := _pictures(area, before)) == before:
                dead.append(f"slider {number}: the arrow keys change no picture")
            _click_far_end(handle)
            if _pictures(area, by_key) == by_key:
                dead.append(f"slider {number}: the mouse changes no picture")
            # At a far end the others may have nothing left to change.
            if start is not None:
                handle.evaluate(SET_BACK, start)
        return dead


def _ancestor(element: Locator, css_class: str) -> Locator:
    return element.locator(f"xpath=ancestor::*[contains(@class, '{css_class}')]")


def _pictures(area: Locator, unlike: list[str] | None = None) -> list[str]:
    """Return what a widget shows, once two consecutive readings agree.

    A reading that shows what was there before is waited out.
    """
    before: list[str] = []
    for _ in range(50):
        area.page.wait_for_timeout(40)
        now: list[str] = area.evaluate(PICTURES)
        if now and now == before and now != unlike:
            break
        before = now
    return before


def _click_far_end(handle: Locator) -> None:
    """Click on the slider's track, near the end that is farther from the handle."""
    is_native = handle.evaluate("e => e.matches('input')")
    track = handle if is_native else _ancestor(handle, "noUi-target")
    box = track.bounding_box()
    if box is None:
        raise ValueError("the slider is not visible")
    is_right = handle.evaluate(PLACE) > 0.5
    x = box["x"] + (0.02 if is_right else 0.98) * box["width"]
    handle.page.mouse.click(x, box["y"] + box["height"] / 2)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a Chromium with a fresh profile, installed first if there is none."""
    binary = find_chromium() or install_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=[*CUT_OFF])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visitor(
    browser: Browser, size: tuple[int, int] = DESKTOP, *, scripts: bool = True
) -> Iterator[Visit]:
    """Open a window that notes every request to the outside."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, java_script_enabled=scripts
    )
    context.set_default_timeout(60_000)
    visit = Visit(context.new_page())
    wrong = visit.problems

    def ask(url: str) -> None:
        if not url.startswith(LOCAL):
            wrong.append(f"request to the outside: {url}")

    def say(line: ConsoleMessage) -> None:
        if line.type == "error":
            wrong.append(f"console: {line.text} ({line.location.get('url')})")

    context.on("request", lambda request: ask(request.url))
    visit.page.on("websocket", lambda socket: ask(socket.url))
    visit.page.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
    visit.page.on("console", say)
    try:
        yield visit
    finally:
        context.close()


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the tests' own lines."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve `folder` to this machine while the context is open; yields the address."""
    handler = partial(_QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
