"""The widget of prices: its script against the package, and its page in use."""

import re

import numpy as np
import pytest
import torch

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.widgets import dual_explorer

N_ITERATIONS = 60
SCHEDULES = {
    "cools": transport.annealed_temperatures(N_ITERATIONS, 3, power=2.0)[::2],
    "hot": torch.full((N_ITERATIONS,), 2 / 3, dtype=torch.float64),
    "cold": torch.full((N_ITERATIONS,), 1e-3, dtype=torch.float64),
}

# The chain of the script for given random numbers, and a coupling of its iterations.
ANSWERS = """async ({name, n, p, q, cost, noise}) => {
  const core = await import("./gibbs_ot.js");
  const page = await import("./dual_explorer.js");
  const T = page.temperatures(name, n);
  const [a, b] = [Float64Array.from(p), Float64Array.from(q)];
  const run = core.chain(a, b, Float64Array.from(cost), T, Float64Array.from(noise));
  const plain = ({g, h, U, L}) => ({g: [...g], h: [...h], U: [...U], L: [...L]});
  return {T, run: run.map(plain), coupling: [...core.activity(a, b, run.slice(40))]};
}"""


def make_widget():
    return dual_explorer(N_ITERATIONS, generator=make_generator(4))


def problem(widget):
    x, y, p, q = (
        torch.tensor(z, dtype=torch.float64)
        for z in (widget.x, widget.y, widget.p, widget.q)
    )
    return p, q, transport.cost_matrix(x, y)


def run(widget, name, chain):
    """Do what the page does, by the package's own iteration."""
    p, q, cost = problem(widget)
    draws = np.frombuffer(widget.noise, np.float32).reshape(-1, N_ITERATIONS, 2, 3)
    g, found, coupling = torch.zeros_like(p), [], torch.zeros_like(cost)
    k = torch.arange(3)
    for t, T in enumerate(SCHEDULES[name]):
        come_from = (g[:, None] - cost).argmax(0)
        theta = torch.from_numpy(draws[chain, t].copy()).double()
        g, h, U, L = transport.gibbs_ot_iteration(g, p, q, cost, T.repeat(2), *theta)
        found.append({"g": g, "h": h, "U": U, "L": L})
        if t >= 40:
            coupling[k, (cost + h).argmin(1)] += p / 2 / (N_ITERATIONS - 40)
            coupling[come_from, k] += q / 2 / (N_ITERATIONS - 40)
    return found, coupling


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_script_computes_what_the_package_computes(ask, name):
    widget = make_widget()
    p, q, cost = problem(widget)
    noise = np.frombuffer(widget.noise, np.float32)[: 6 * N_ITERATIONS]
    question = {"name": name, "n": N_ITERATIONS, "p": p.tolist(), "q": q.tolist()}
    question |= {"cost": cost.flatten().tolist(), "noise": noise.tolist()}
    answers = ask(ANSWERS, question)
    assert answers["T"] == pytest.approx(SCHEDULES[name].tolist(), rel=1e-12)
    found, coupling = run(widget, name, 0)
    for ours, theirs in zip(answers["run"], found, strict=True):
        for part, value in theirs.items():
            assert ours[part] == pytest.approx(value.tolist(), abs=1e-9), part
    assert answers["coupling"] == pytest.approx(coupling.flatten().tolist(), abs=1e-9)


def expected_note(name, chain):
    widget = make_widget()
    p, q, cost = problem(widget)
    found, _ = run(widget, name, chain)
    exact = transport.exact_ot(p, q, cost)
    best = torch.cat([exact.g, exact.h]) - exact.g[0]
    limits = torch.stack([torch.cat([z["U"], z["L"]]) - z["U"][0] for z in found])
    errors = (limits - best).abs().amax(1)
    certified = transport.dual_value(p, q, cost, g=found[-1]["U"]).item()
    return (
        f"Largest error of a price: {errors[-1]:.2f} now, {errors[-20:].max():.2f} in "
        f"the last 20 iterations. Certified: cost at least {certified:.2f} "
        f"(exact {exact.value:.2f})."
    )


def test_prices_settle_only_where_they_cool(visit, line):
    page = visit.page
    schedule = page.get_by_role("combobox", name=re.compile("^temperature"))
    end_of(page)
    for name in SCHEDULES:
        schedule.select_option(name)
        assert line.inner_text().endswith(expected_note(name, 0))
    page.get_by_role("button", name="other random numbers").click()
    assert line.inner_text().endswith(expected_note("cold", 1))
    assert page.get_by_role("button", name="(2 of 8)").is_visible()
    assert visit.dead_sliders() == []


def end_of(page):
    page.get_by_role("slider", name=re.compile("^iterations")).press("End")
