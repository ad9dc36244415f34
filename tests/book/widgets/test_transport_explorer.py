"""The widget of transport: its script against the package, and its page in use."""

import re

import numpy as np
import pytest
import torch

from ebmtut.random import make_generator
from ebmtut.transport import (
    chain_value,
    cost_matrix,
    dual_value,
    exact_ot,
    gibbs_ot_iteration,
)
from ebmtut.widgets import TWO_DISTRIBUTIONS, transport_explorer
from tools.pages import visitor

pytestmark = pytest.mark.browser

N_ITERATIONS = 60
SEED = 4
KINDS = {"squared": "squared_euclidean", "absolute": "euclidean", "coulomb": "coulomb"}

# The script's answers for one problem, as plain lists.
ANSWERS = """async ({p, q, kind, start, cooled, noise, n}) => {
  const js = await import("./gibbs_ot.js");
  const [a, b] = [js.masses(p), js.masses(q)];
  const cost = js.costMatrix(p.length, kind);
  const run = js.gibbsOT(a, b, cost, start, cooled, Float64Array.from(noise), n);
  const exact = js.exactOT(a, b, cost);
  const plain = (o) => Object.fromEntries(
    Object.entries(o).map(([k, v]) => [k, v.length ? [...v] : v]));
  return {run: plain(run), exact: plain(exact)};
}"""


def make_widget():
    return transport_explorer(n_iterations=N_ITERATIONS, generator=make_generator(SEED))


def run_in_package(p, q, cost, temperatures, noise):
    """Do Algorithm 1 with given draws, by the package's own iteration."""
    g, trace, couplings = torch.zeros_like(p), [], []
    k = torch.arange(len(p))
    for T, theta in zip(temperatures, noise, strict=True):
        both = p.new_tensor([T, T])
        theta_h, theta_g = torch.as_tensor(theta).double().chunk(2)
        come_from = (g[:, None] - cost).argmax(0)
        g, h, U, L = gibbs_ot_iteration(g, p, q, cost, both, theta_h, theta_g)
        value = chain_value(p, q, U, L).item()
        trace.append({"V": value, "dual": dual_value(p, q, cost, g=U).item()})
        active = torch.zeros_like(cost)
        active[k, (cost + h).argmin(1)] += p / 2
        active[come_from, k] += q / 2
        couplings.append(active)
    late = couplings[len(couplings) // 2 :]
    coupling = torch.stack(late).mean(0)
    return {"g": g, "h": h, "U": U, "L": L, "coupling": coupling, "trace": trace}


def masses(heights):
    heights = torch.tensor(heights, dtype=torch.float64)
    return heights / heights.sum()


def line(kind, n):
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    return cost_matrix(x, x, KINDS[kind])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("cooled", [False, True], ids=["constant", "cooled"])
def test_script_computes_what_the_package_computes(browser, address, kind, cooled):
    rng = np.random.default_rng(len(kind))
    n, n_iterations, start = 20, 31, 0.01
    p, q = rng.uniform(0.02, 1, (2, n)).tolist()
    noise = rng.exponential(size=(n_iterations, 2 * n))
    question = {
        "p": p,
        "q": q,
        "kind": kind,
        "start": start,
        "cooled": cooled,
        "noise": noise.ravel().tolist(),
        "n": n_iterations,
    }
    with visitor(browser) as visit:
        visit.open(address)
        answers = visit.page.evaluate(ANSWERS, question)
        assert visit.problems == []

    a, b, cost = masses(p), masses(q), line(kind, n)
    factor = 1000 ** (-1 / 100) if cooled else 1.0
    temperatures = [start * factor**t for t in range(n_iterations)]
    expected = run_in_package(a, b, cost, temperatures, noise)
    for name in ("g", "h", "U", "L", "coupling"):
        ours = torch.tensor(answers["run"][name], dtype=torch.float64)
        assert torch.allclose(ours, expected[name].flatten(), atol=1e-9), name
    assert len(answers["run"]["trace"]) == n_iterations
    for ours, theirs in zip(answers["run"]["trace"], expected["trace"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-9)

    exact = answers["exact"]
    solved = exact_ot(a, b, cost)
    assert exact["value"] == pytest.approx(solved.value, abs=1e-9)
    g, h = (torch.tensor(exact[k], dtype=torch.float64) for k in "gh")
    assert bool((g[:, None] - h <= cost + 1e-12).all())
    assert chain_value(a, b, g, h).item() == pytest.approx(solved.value, abs=1e-9)
    plan = torch.tensor(exact["coupling"], dtype=torch.float64).view(n, n)
    assert torch.allclose(plan.sum(1), a, atol=1e-9)
    assert torch.allclose(plan.sum(0), b, atol=1e-9)


def slider(page, name):
    return page.get_by_role("slider", name=re.compile(f"^{name}"))


def choice(page, name):
    return page.get_by_role("combobox", name=re.compile(f"^{name}"))


def expected_note(p, q, kind, n_iterations):
    """Return the beginning of the sentence that the page has to say."""
    draws = torch.rand(N_ITERATIONS, 64, generator=make_generator(SEED))
    noise = (-torch.log1p(-draws)).numpy()[:n_iterations]
    a, b, cost = masses(p), masses(q), line(kind, 32)
    T = 10**-0.5 / 32
    trace = run_in_package(a, b, cost, [T] * n_iterations, noise)["trace"]
    exact = exact_ot(a, b, cost).value
    return (
        f"Exact cost {exact:.4f}. After {n_iterations} iterations the dual value "
        f"is {trace[-1]['dual']:.4f},"
    )


def test_keyboard_moves_the_chain(visit):
    page = visit.page
    assert visit.wrong() == []
    note = page.locator(".ex-note")
    p, q = TWO_DISTRIBUTIONS[0].p, TWO_DISTRIBUTIONS[0].q
    assert note.inner_text().startswith(expected_note(p, q, "squared", 40))

    slider(page, "iterations").press("End")
    expected = expected_note(p, q, "squared", N_ITERATIONS)
    assert note.inner_text().startswith(expected)

    choice(page, "shapes").select_option("both uniform")
    # Equal distributions cost nothing: no percentage of that is shown.
    assert "Infinity" not in note.inner_text()
    choice(page, "cost").select_option("1 / distance (Coulomb)")
    p, q = TWO_DISTRIBUTIONS[2].p, TWO_DISTRIBUTIONS[2].q
    expected = expected_note(p, q, "coulomb", N_ITERATIONS)
    assert note.inner_text().startswith(expected)

    before = note.inner_text()
    choice(page, "annealing").select_option("÷ 1000 in 100 iterations")
    assert note.inner_text() != before
    assert visit.dead_sliders() == []
    assert visit.wrong() == []
