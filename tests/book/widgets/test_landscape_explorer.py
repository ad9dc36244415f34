"""The landscape widget in a page of its own: no kernel, no network."""

from itertools import product

import numpy as np
import pytest

from ebmtut.results import Result
from ebmtut.widgets import landscape_explorer
from tools.pages import visitor

KNOBS = {"eps": (0.1, 0.5, 0.9), "M": (1, 16, 64), "w": (0, 1, 10)}

# Place of the brightest pixel of the learned landscape, from the top left.
BRIGHTEST = """() => {
  const canvas = document.querySelector("canvas");
  const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let best = 0;
  const light = k => image.data[4*k] + image.data[4*k+1] + image.data[4*k+2];
  for (let k = 0; k < canvas.width * canvas.height; k++)
    if (light(k) > light(best)) best = k;
  return [canvas.width, best];
}"""


def toy_result():
    """Return landscapes of one bright cell, whose place tells the setting."""
    variants, arrays = {}, {"truth": np.zeros((8, 8))}
    for k, (eps, m, w) in enumerate(product(*KNOBS.values())):
        recipe = {"method": "ED-Bern", "eps": eps, "n_negatives": m, "stabilizer": w}
        variants[f"{k}"] = {"recipe": recipe, "gap": 0.01 * k}
        arrays[f"{k}"] = np.full((8, 8), -30.0)
        arrays[f"{k}"].ravel()[k] = 0.0
        if (m, w) == (1, 0):
            variants[f"{k}"] = {"recipe": recipe, "diverged_at": 3}
    return Result("ed/w-and-m", "full", {}, {"variants": variants}, arrays)


def make_widget():
    return landscape_explorer(toy_result(), KNOBS, n_pixels=8)


def seen(page):
    """Return the number of the toy landscape that is shown."""
    width, place = page.evaluate(BRIGHTEST)
    assert width == 8
    row, column = divmod(place, 8)
    return (7 - row) * 8 + column


def slider(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def number(eps, m, w):
    return list(product(*KNOBS.values())).index((eps, m, w))


def test_keyboard_and_mouse_choose_the_landscape(visit):
    page = visit.page
    assert seen(page) == number(0.1, 16, 1)

    eps = slider(page, "noise ε")
    eps.focus()
    page.keyboard.press("ArrowRight")
    assert seen(page) == number(0.5, 16, 1)
    assert eps.get_attribute("aria-valuetext") == "noise ε 0.5"
    page.keyboard.press("End")
    assert seen(page) == number(0.9, 16, 1)

    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert seen(page) == number(0.9, 64, 1)
    assert page.get_by_text(f"{0.01 * number(0.9, 64, 1):.2f} nats").is_visible()

    w = slider(page, "stabiliser w")
    box = w.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.98 * box["width"], box["y"] + box["height"] / 2)
    assert seen(page) == number(0.9, 64, 10)
    assert visit.dead_sliders() == []


EMPTY = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>A live widget</title><link rel="icon" href="data:,"></head>
<body></body></html>"""
# The page's side of a live kernel, by a model that keeps what it is told.
FAKE_MODEL = """() => { window.Model = class {
  constructor(values) {
    Object.assign(this, { values, ears: [], sent: [] });
  }
  get(key) { return this.values[key]; }
  set(key, value) {
    this.values[key] = value;
    this.tell(`change:${key}`);
  }
  save_changes() {}
  on(name, ear) { this.ears.push([name, ear]); }
  off(name, ear) { this.ears = this.ears.filter((e) => e[1] !== ear); }
  tell(name, message) {
    for (const [heard, ear] of this.ears) if (heard === name) ear(message);
  }
  send(message) { this.sent.push(message); }
}}"""
OPEN = """async ([source, values]) => {
  const bytes = (list) => new DataView(Uint8Array.from(list).buffer);
  values.pixels = bytes(values.pixels);
  values.colors = bytes(values.colors);
  window.bytes = bytes;
  window.model = new Model(values);
  const file = new Blob([source], { type: "text/javascript" });
  const widget = (await import(URL.createObjectURL(file))).default;
  window.leave = widget.render({ model, el: document.body });
}"""


@pytest.fixture
def live(browser, site):
    """Return an empty page whose widget talks to a model that the test plays.

    Not the built page, emptied: its own widget may still be on its way.
    """
    widget = make_widget()
    values = {
        name: list(value)
        if isinstance(value := getattr(widget, name), bytes)
        else value
        for name in widget.traits(sync=True)
        if not name.startswith("_") and name not in ("layout", "tabbable", "tooltip")
    }
    with visitor(browser) as visit:
        (site / "empty.html").write_text(EMPTY, "utf-8")
        visit.open((site / "empty.html").as_uri())
        visit.page.evaluate(FAKE_MODEL)
        visit.page.evaluate(OPEN, [widget._esm, values])
        yield visit


def test_the_button_asks_the_kernel_and_shows_its_answer(live):
    page = live.page
    button = page.get_by_role("button", name="learn it here")
    assert button.count() == 0
    assert page.evaluate("model.sent") == [{"learns": None}]
    page.evaluate("model.tell('msg:custom', { learns: true })")

    place = number(0.1, 16, 1)
    button.click()
    assert button.is_disabled()
    assert page.evaluate("model.sent[1]") == {"learn": place}
    page.evaluate("model.set('progress', 0.25)")
    assert page.get_by_role("button", name="learning: 25 %").is_disabled()

    answer = """([place, note, lit]) => {
      const list = lit < 0 ? [] : Array(64).fill(0);
      if (lit >= 0) list[lit] = 255;
      model.set("own", { ...model.get("own"), [place]: { note, pixels: bytes(list) } });
      model.set("progress", null);
    }"""
    page.evaluate(answer, [place, "0.42", 5])
    assert button.is_enabled()
    assert seen(page) == place
    own = BRIGHTEST.replace('querySelector("canvas")', 'querySelectorAll("canvas")[1]')
    assert page.evaluate(own) == [8, 5]
    stored = f"KL to the data: {0.01 * place:.2f} nats"
    line = f"{stored}; learned here: 0.42 nats"
    assert page.locator("p").text_content() == line

    # Another setting has not been learned here; back, and the picture is still there.
    slider(page, "noise ε").press("ArrowRight")
    assert not page.get_by_text("learned here", exact=True).is_visible()
    slider(page, "noise ε").press("ArrowLeft")
    assert page.get_by_text("learned here", exact=True).is_visible()
    page.evaluate(answer, [place, "diverged", -1])
    assert page.locator("p").text_content() == f"{stored}; learned here: diverged"
    page.evaluate("leave()")
    assert page.evaluate("model.ears") == []
    assert live.wrong() == []
