"""The widget of messages: its script against the package, and its page in use."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.random import logistic, make_generator
from ebmtut.states import states_to_index
from ebmtut.widgets import FIRST_SAMPLE, SMALL_GRAPHS, message_explorer

N_SAMPLES = 300
SEED = 4

# The script's answers for one graph, as plain lists.
ANSWERS = """async ({graph, couplings, fields, temperature, noise, stride, runs}) => {
  const js = await import("./max_product.js");
  const model = js.toBits(graph, couplings, fields, temperature);
  const flat = Float64Array.from(noise.flat());
  const unaries = model.bias.map((b, i) => b + noise[0][i]);
  return {
    weight: [...model.weight], bias: [...model.bias],
    probabilities: [...js.boltzmann(model)],
    best: js.perturbAndMap(model, flat, stride),
    runs: runs.map(([nSweeps, start, damping]) => {
      const found = js.maxProduct(model, unaries, nSweeps, start, damping);
      return {messages: [...found.messages], beliefs: [...found.beliefs]};
    }),
  };
}"""


def make_widget():
    return message_explorer(n_samples=N_SAMPLES, generator=make_generator(SEED))


def samples(n_sites):
    noise = logistic((N_SAMPLES, 6), generator=make_generator(SEED))
    noise[0] = torch.tensor(FIRST_SAMPLE)
    return noise[:, :n_sites].double()


@pytest.mark.parametrize("graph", SMALL_GRAPHS, ids=lambda graph: graph.name)
def test_script_computes_what_the_package_computes(ask, graph):
    rng = np.random.default_rng(len(graph.name))
    graph = replace(
        graph,
        couplings=tuple(rng.uniform(-1, 1, len(graph.edges)).tolist()),
        fields=tuple(rng.uniform(-1, 1, graph.n_sites).tolist()),
    )
    n, temperature = graph.n_sites, 0.8
    model = BoltzmannMachine(*graph.to_bits(temperature))
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
    answers = ask(ANSWERS, question)

    def near(found, expected):
        expected = expected.detach().double().flatten()
        assert torch.allclose(torch.tensor(found).double(), expected, atol=1e-9)

    weight, bias = graph.to_bits(temperature)
    near(answers["weight"], weight)
    near(answers["bias"], bias)
    near(answers["probabilities"], exact_probabilities(model, n).exp())
    best = exact_perturb_and_map(model, n, noise[:, :n])
    assert answers["best"] == states_to_index(best).tolist()
    for answer, (n_sweeps, start, damping) in zip(answers["runs"], runs, strict=True):
        found = max_product(
            model,
            bias + noise[:1, :n],
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


def slider(page, name):
    return page.get_by_role("slider", name=re.compile(f"^{name}"))


def expected(graph, n_sweeps, init="symmetric"):
    """Return the fraction of MAP states that the page has to name."""
    model = BoltzmannMachine(*graph.to_bits())
    noise = samples(graph.n_sites)
    best = exact_perturb_and_map(model, graph.n_sites, noise)
    found = max_product(model, model.bias.detach() + noise, n_sweeps, init=init).x
    right = float((found == best).all(1).double().mean())
    return f"{100 * right:.0f} % are MAP states"


def test_keyboard_moves_the_model(visit, line):
    page = visit.page
    assert expected(SMALL_GRAPHS[0], 20) in line.inner_text()
    page.get_by_label("graph").select_option("four coupled spins")
    assert expected(SMALL_GRAPHS[1], 20) in line.inner_text()
    page.get_by_label("initialisation").select_option("N = 0")
    assert expected(SMALL_GRAPHS[1], 20, "zero") in line.inner_text()
    page.get_by_label("graph").select_option("chain of six")
    slider(page, "sweeps").press("End")
    assert "100 % are MAP states" in line.inner_text()
    assert visit.dead_sliders() == []


def flipped(edge):
    ring = SMALL_GRAPHS[0]
    signs = [-1 if k == edge else 1 for k in range(4)]
    couplings = [c * s for c, s in zip(ring.couplings, signs, strict=True)]
    return replace(ring, couplings=tuple(couplings))


def press_edge(page, i, j, *, tap=False):
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


def test_an_edge_flips_by_mouse_and_by_its_button(visit, line):
    page = visit.page
    press_edge(page, 0, 3)
    assert expected(flipped(3), 20) in line.inner_text()
    page.get_by_role("button", name="flip the coupling x1–x4").click()
    assert expected(SMALL_GRAPHS[0], 20) in line.inner_text()
