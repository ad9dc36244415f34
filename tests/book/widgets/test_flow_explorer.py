"""The widget of flows: its script against the package, and its page in use."""

import re

import pytest
import torch

from ebmtut.energies import LatticeIsing
from ebmtut.flows import Flow, OddLatticeNetwork
from ebmtut.paths import AnnealingPath
from ebmtut.widgets import TrainedFlow, flow_explorer
from ebmtut.widgets.flow_explorer import _packed

SIDE, SIGMA, WIDTH, HIDDEN = 6, 0.2, 4, 8

ANSWERS = """async ({numbers, sizes, spins, t, sigma}) => {
  const js = await import("./odd_lattice.js");
  const net = js.unpack(Float32Array.from(numbers), sizes);
  const s = Float64Array.from(spins);
  const found = js.terms(net, s, t, sizes.side, sigma);
  const uniform = js.uniforms(7);
  const draws = Array.from({length: 2000}, uniform);
  let k = 0;
  const after = js.leap(s, found.rates, 0.1, () => draws[k++]);
  const sums = js.otherSums(net, s);
  js.moveSums(net, sums, s, after);
  const anew = js.otherSums(net, after);
  const off = Math.max(...sums.map((v, i) => Math.abs(v - anew[i])));
  return {...found, rates: [...found.rates], draws, after: [...after], off,
          none: js.terms(null, s, t, sizes.side, sigma).xi};
}"""


def network(side=SIDE, **options):
    torch.manual_seed(3)
    return OddLatticeNetwork(side, width=WIDTH, n_hidden=HIDDEN, **options)


def make_widget():
    flows = [
        TrainedFlow("weak", SIGMA, network()),
        TrainedFlow("strong", 0.4, network()),
    ]
    return flow_explorer(flows, n_steps=16)


@pytest.mark.parametrize("t", [0.0, 0.37, 1.0])
def test_script_computes_what_the_package_computes(ask, t):
    net = network()
    x = torch.randint(
        2, (1, SIDE**2), generator=torch.Generator().manual_seed(1)
    ).float()
    question = {
        "numbers": _packed(net).tolist(),
        "sizes": {"side": SIDE, "width": WIDTH, "hidden": HIDDEN, "waves": 4},
        "spins": (2 * x[0] - 1).tolist(),
        "t": t,
        "sigma": SIGMA,
    }
    found = ask(ANSWERS, question)
    flow = Flow(AnnealingPath(LatticeIsing(SIDE, SIGMA)), net.double())
    terms = flow.terms(x.double(), t)
    assert found["rates"] == pytest.approx(terms.outward[0].tolist(), abs=1e-6)
    assert found["xi"] == pytest.approx(float(terms.xi[0].detach()), abs=1e-5)
    assert found["none"] == pytest.approx(float(terms.derivative[0]), abs=1e-9)
    draws = torch.tensor(found["draws"])
    # Five standard errors of the mean of uniform draws.
    assert abs(float(draws.mean()) - 0.5) < 5 * (1 / 12 / len(draws)) ** 0.5
    jump = draws[: SIDE**2] < -torch.expm1(-terms.outward[0] * 0.1)
    after = torch.where(jump, -1.0, 1.0) * (2 * x[0] - 1)
    assert found["after"] == after.tolist()
    assert found["off"] < 1e-12


def note(visit):
    return visit.page.locator(".flow-explorer .ex-note").inner_text()


def test_time_runs_and_samples_are_added(visit):
    time = visit.page.get_by_role("slider")
    assert note(visit).startswith("Mean energy of 16 samples:")
    assert visit.page.get_by_label("rates").input_value() == "0,true"
    time.fill("0")
    assert "effective sample size is 16.0" in note(visit)
    exact = f"{SIDE**2 * 0.6931472:.2f}"
    assert f"log Z is {exact}, exact {exact}" in note(visit)
    time.fill("16")
    visit.page.get_by_role("button", name="160 samples").click()
    # Stopped by the script: a click from outside may come after the last sample.
    visit.page.wait_for_function(
        """() => {
          const stop = [...document.querySelectorAll("button")].find(
            button => button.textContent === "stop");
          const note = document.querySelector(".ex-note").textContent;
          const enough = Number(/of (\\d+) samples/.exec(note)[1]) >= 48;
          if (enough) stop?.click();
          return enough;
        }"""
    )
    time.fill("0")
    all_of_them = re.search(r"of (\d+) samples.* size is ([\d.]+),", note(visit))
    assert all_of_them is not None and int(all_of_them[1]) >= 48
    assert float(all_of_them[2]) == int(all_of_them[1]), "equal weights at first"
    time.fill("16")
    visit.page.get_by_label("rates").select_option("weak, all zero")
    still = note(visit)
    # With all rates zero: only the run of the last seed.
    assert "Mean energy of 16 samples" in still, "another setting, another mean"
    energy = re.search(r"samples: (−?[\d.]+) ±", still)
    time.fill("0")
    same = re.search(r"samples: (−?[\d.]+) ±", note(visit))
    assert energy is not None and same is not None
    assert energy[1] == same[1], "without rates nothing moves"
    assert visit.problems == []


def test_scale_of_energies_is_the_same_in_every_mode(visit):
    """The left edge of the second picture, with its ticks, never changes."""
    edge = """() => {
      const canvas = document.querySelectorAll(".ex-canvas")[1];
      return [...canvas.getContext("2d").getImageData(0, 0, 72, 480).data].join();
    }"""
    rates = visit.page.get_by_label("rates")
    values = rates.locator("option").evaluate_all("all => all.map(one => one.value)")
    found = set()
    for value in values:
        rates.select_option(value)
        found.add(visit.page.evaluate(edge))
    assert len(values) == 4 and len(found) == 1
