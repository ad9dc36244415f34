"""The widget of messages: its script against the package, and its page in use."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page

from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.message_passing import max_product
from ebmtut.random import logistic, make_generator
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.widgets import SMALL_GRAPHS, MessageExplorer, SmallGraph, message_explorer
from tools.pages import PHONE, Visit, visitor

pytestmark = pytest.mark.browser

N_DRAWS = 300
SEED = 4

# The script's answers for one graph, as plain lists.
ANSWERS = """async ({graph, couplings, fields, temperature, noise, stride, runs}) => {
  const js = await import("./max_product.js");
  const model = js.toBits(graph, couplings, fields, temperature);
  const flat = Float64Array.from(noise.flat());
  const unaries = model.bias.map((b, i) => b + noise[0][i]);
  const law = js.boltzmann(model);
  return {
    weight: [...model.weight], bias: [...model.bias], law: [...law],
    on: [...js.marginals(law, model.n)],
    best: js.perturbAndMap(model, flat, stride),
    runs: runs.map(([nSweeps, start, damping]) => {
      const found = js.maxProduct(model, unaries, nSweeps, start, damping);
      return {messages: [...found.messages], beliefs: [...found.beliefs]};
    }),
    states: js.perturbAndMaxProduct(model, flat, stride, 5, "zero"),
  };
}"""


def make_widget() -> MessageExplorer:
    return message_explorer(n_draws=N_DRAWS, generator=make_generator(SEED))


def model_of(graph: SmallGraph, temperature: float = 1.0) -> BoltzmannMachine:
    return BoltzmannMachine(*graph.to_bits(temperature))


def map_states(model: BoltzmannMachine, noise: torch.Tensor) -> torch.Tensor:
    """Return the number of the best state of each perturbed model, by listing."""
    x = enumerate_states(model.n_sites)
    return (noise @ x.T - model(x)).argmax(dim=1)


@pytest.mark.parametrize("graph", SMALL_GRAPHS, ids=lambda graph: graph.name)
def test_script_computes_what_the_package_computes(
    browser: Browser, address: str, graph: SmallGraph
) -> None:
    rng = np.random.default_rng(len(graph.name))
    graph = replace(
        graph,
        couplings=tuple(rng.uniform(-1, 1, len(graph.edges)).tolist()),
        fields=tuple(rng.uniform(-1, 1, graph.n_sites).tolist()),
    )
    n, temperature = graph.n_sites, 0.8
    model = model_of(graph, temperature)
    noise = logistic((200, 6), generator=make_generator(1), dtype=torch.float64)
    runs = [(t, s, d) for t in (0, 1, 7) for s in ("zero", "symmetric") for d in (0.5,)]
    runs += [(3, "zero", 0.0), (3, "zero", 0.2)]
    question: dict[str, Any] = {
        "graph": {"n_sites": n, "edges": graph.edges},
        "couplings": graph.couplings,
        "fields": graph.fields,
        "temperature": temperature,
        "noise": noise.tolist(),
        "stride": 6,
        "runs": runs,
    }
    with visitor(browser) as visit:
        visit.open(address)
        answers = visit.page.evaluate(ANSWERS, question)
        assert visit.problems == []

    def near(ours: Any, expected: torch.Tensor) -> None:
        expected = expected.detach().double().flatten()
        assert torch.allclose(torch.tensor(ours).double(), expected, atol=1e-9)

    weight, bias = graph.to_bits(temperature)
    near(answers["weight"], weight)
    near(answers["bias"], bias)
    law = exact_probabilities(model, n).exp()
    near(answers["law"], law)
    near(answers["on"], law @ enumerate_states(n))
    assert answers["best"] == map_states(model, noise[:, :n]).tolist()
    for answer, (n_sweeps, start, damping) in zip(answers["runs"], runs, strict=True):
        unaries = bias + noise[:1, :n]
        found = max_product(
            model,
            unaries,
            n_sweeps,
            damping=damping,
            init=start,
            return_messages=True,
        )
        near(answer["beliefs"], found.beliefs)
        assert found.messages is not None
        pairs = model.pair_terms()
        sent = torch.zeros(n, n, dtype=torch.float64)
        sent[pairs.first, pairs.second] = found.messages[0, 0]
        sent[pairs.second, pairs.first] = found.messages[0, 1]
        near(answer["messages"], sent)
    found = max_product(model, bias + noise[:, :n], 5, init="zero")
    assert answers["states"] == states_to_index(found.x).tolist()


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=re.compile(f"^{name}"))


def expected_note(graph: SmallGraph, n_sweeps: int) -> list[str]:
    """Return the shares of optima that the page has to name."""
    model = model_of(graph)
    noise = logistic((N_DRAWS, 6), generator=make_generator(SEED))[:, : model.n_sites]
    noise = noise.double()
    best = map_states(model, noise)
    shares = []
    for init in ("zero", "symmetric"):
        unaries = graph.to_bits()[1] + noise
        found = max_product(model, unaries, n_sweeps, init=init)
        share = (states_to_index(found.x) == best).double().mean()
        shares.append(f"{100 * share:.1f} %")
    return shares


def test_keyboard_and_mouse_move_the_model(visit: Visit) -> None:
    page = visit.page
    assert visit.wrong() == []
    note = page.locator(".ex-note")
    zero, symmetric = expected_note(SMALL_GRAPHS[0], 4)
    assert f"{zero} from zero and {symmetric} from the symmetric" in note.inner_text()

    slider(page, "sweeps").press("End")
    zero, symmetric = expected_note(SMALL_GRAPHS[0], 20)
    assert f"{zero} from zero and {symmetric} from the symmetric" in note.inner_text()

    page.get_by_label("graph").select_option("chain of six")
    assert "100.0 % from zero and 100.0 %" in note.inner_text()
    label = page.locator("canvas").first.get_attribute("aria-label")
    assert re.search(r"draw 1 decodes to [01]{6}$", label or "")
    assert visit.dead_sliders() == []
    assert visit.wrong() == []


def click_between(page: Page, i: int, j: int, *, tap: bool = False) -> None:
    """Press the picture in the middle of two nodes of the first graph."""
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    ends = np.array([SMALL_GRAPHS[0].positions[k] for k in (i, j)])
    x, y = ends.mean(axis=0)
    at = (
        box["x"] + (0.5 + 195 / 640 * x) * box["width"],
        box["y"] + (0.5 - 175 / 480 * y) * box["height"],
    )
    if tap:
        page.touchscreen.tap(*at)
    else:
        page.mouse.click(*at)


def test_a_click_chooses_what_the_slider_changes(visit: Visit) -> None:
    page = visit.page
    chosen = page.get_by_label("change")
    click_between(page, 0, 1)
    assert chosen.locator("option:checked").inner_text() == "coupling x1–x2"
    slider(page, "coupling").press("Home")
    assert slider(page, "coupling").get_attribute("aria-valuetext") == "coupling −1.50"
    # Only this edge has changed.
    chosen.select_option("coupling x2–x3")
    assert slider(page, "coupling").get_attribute("aria-valuetext") == "coupling 0.33"
    click_between(page, 2, 2)
    assert chosen.locator("option:checked").inner_text() == "field of x3"
    before = page.locator("canvas").last.get_attribute("aria-label")
    slider(page, "field").press("End")
    assert page.locator("canvas").last.get_attribute("aria-label") != before
    assert visit.wrong() == []


def test_a_finger_chooses_too(browser: Browser, site: Path) -> None:
    context = browser.new_context(
        viewport={"width": PHONE[0], "height": PHONE[1]}, has_touch=True
    )
    page = context.new_page()
    page.goto((site / "page.html").as_uri())
    page.locator("canvas").first.wait_for()
    click_between(page, 1, 2, tap=True)
    chosen = page.get_by_label("change").locator("option:checked")
    assert chosen.inner_text() == "coupling x2–x3"
    context.close()


def test_play_runs_to_the_last_sweep(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="play the sweeps").click()
    assert page.get_by_role("button", name="stop").is_visible()
    page.wait_for_function(
        "document.querySelector('canvas').ariaLabel.startsWith('After 2 sweeps')"
    )
    page.get_by_role("button", name="stop").click()
    assert page.get_by_role("button", name="play the sweeps").is_visible()


def test_focus_is_seen(visit: Visit) -> None:
    visit.page.keyboard.press("Tab")
    style = "e => getComputedStyle(e).outlineStyle"
    assert visit.page.get_by_label("graph").evaluate(style) == "solid"
