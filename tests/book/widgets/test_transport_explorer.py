"""The widget of transport: its script against the package, and its page in use."""

import re

import numpy as np
import pytest
import torch

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.widgets import TWO_DISTRIBUTIONS, transport_explorer

N_ITERATIONS = 60
SEED = 4

# The script's answers for one problem, as plain lists.
ANSWERS = """async ({p, q, temperatures, noise}) => {
  const js = await import("./gibbs_ot.js");
  const [a, b] = [js.masses(p), js.masses(q)];
  const cost = js.costMatrix(p.length);
  const run = js.gibbsOT(a, b, cost, temperatures, Float64Array.from(noise));
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
        g, h, U, L = transport.gibbs_ot_iteration(g, p, q, cost, both, theta_h, theta_g)
        active = torch.zeros_like(cost)
        active[k, (cost + h).argmin(1)] += p / 2
        active[come_from, k] += q / 2
        couplings.append(active)
        coupling = torch.stack(couplings[len(couplings) // 2 :]).mean(0)
        plan = transport.feasible_plan(coupling, p, q)
        dual = transport.dual_value(p, q, cost, g=U).item()
        trace.append({"dual": dual, "plan": (plan * cost).sum().item()})
    return {"g": g, "h": h, "U": U, "L": L, "coupling": coupling, "trace": trace}


def masses(heights):
    heights = torch.tensor(heights, dtype=torch.float64)
    return heights / heights.sum()


def squares(n):
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    return transport.cost_matrix(x, x)


def test_script_computes_what_the_package_computes(ask):
    rng = np.random.default_rng(7)
    n, n_iterations = 20, 31
    p, q = rng.uniform(0.02, 1, (2, n)).tolist()
    noise = rng.exponential(size=(n_iterations, 2 * n))
    temperatures = rng.uniform(0, 0.02, n_iterations).tolist()
    question = {"p": p, "q": q, "temperatures": temperatures}
    question["noise"] = noise.ravel().tolist()
    answers = ask(ANSWERS, question)

    a, b, cost = masses(p), masses(q), squares(n)
    expected = run_in_package(a, b, cost, temperatures, noise)
    for name in ("g", "h", "U", "L", "coupling"):
        ours = torch.tensor(answers["run"][name], dtype=torch.float64)
        assert torch.allclose(ours, expected[name].flatten(), atol=1e-9), name
    assert len(answers["run"]["trace"]) == n_iterations
    for ours, theirs in zip(answers["run"]["trace"], expected["trace"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-9)

    exact = answers["exact"]
    solved = transport.exact_ot(a, b, cost)
    assert exact["value"] == pytest.approx(solved.value, abs=1e-9)
    g, h = (torch.tensor(exact[k], dtype=torch.float64) for k in "gh")
    assert bool((g[:, None] - h <= cost + 1e-12).all())
    assert transport.chain_value(a, b, g, h).item() == pytest.approx(
        solved.value, abs=1e-9
    )
    plan = torch.tensor(exact["coupling"], dtype=torch.float64).view(n, n)
    assert torch.allclose(plan.sum(1), a, atol=1e-9)
    assert torch.allclose(plan.sum(0), b, atol=1e-9)


def slider(page, name):
    return page.get_by_role("slider", name=re.compile(f"^{name}"))


def choice(page, name):
    return page.get_by_role("combobox", name=re.compile(f"^{name}"))


def expected_note(which, n_iterations):
    draws = torch.rand(N_ITERATIONS, 64, generator=make_generator(SEED))
    noise = (-torch.log1p(-draws)).numpy()[:n_iterations]
    shape = TWO_DISTRIBUTIONS[which]
    a, b, cost = masses(shape.p), masses(shape.q), squares(32)
    T = transport.annealed_temperatures(N_ITERATIONS, 32, power=2.0)[
        ::2
    ]  # of both half steps
    end = run_in_package(a, b, cost, T.tolist()[:n_iterations], noise)["trace"][-1]
    exact = transport.exact_ot(a, b, cost).value
    below, above = (100 * abs(end[k] / exact - 1) for k in ("dual", "plan"))
    return (
        f"Exact cost {exact:.4f}. After {n_iterations} iterations the certified bound "
        f"is {end['dual']:.4f}, {below:.1f} % below; "
        f"the rounded plan costs {end['plan']:.4f}, {above:.1f} % above."
    )


def test_keyboard_moves_the_chain(visit, line):
    page = visit.page
    assert line.inner_text() == expected_note(0, 40)

    slider(page, "iterations").press("End")
    assert line.inner_text() == expected_note(0, N_ITERATIONS)
    choice(page, "distributions").select_option("one mode splits")
    assert line.inner_text() == expected_note(1, N_ITERATIONS)

    before = line.inner_text()
    choice(page, "temperature").select_option("constant: 0.001/N")
    assert line.inner_text() != before
    assert visit.dead_sliders() == []
