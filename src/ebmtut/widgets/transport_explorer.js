// Gibbs-OT between two laws of a few bars, computed here, in the page: the exponential
// draws arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, pointed, SIZE } from "./frame.js";
import { costMatrix, exactOT, gibbsOT, masses, temperatureAt } from "./gibbs_ot.js";

const LOWEST = 0.02; // height of a bar: a law without mass somewhere has no T / p_i
const COLORS = { p: "#0072b2", q: "#d55e00", band: "#d0d0d6", V: "#e69f00", dual: "#0072b2" };
const COSTS = [["squared", "squared distance"], ["absolute", "distance"],
  ["coulomb", "1 / distance (Coulomb)"]];

// p stands on the middle of the picture, q hangs from it.
function drawLaws(canvas, heights, chosen) {
  const context = blank(canvas);
  const [width, middle] = [SIZE[0] / heights.p.length, SIZE[1] / 2];
  for (const side of ["p", "q"])
    heights[side].forEach((height, k) => {
      const length = height * (middle - 30);
      context.fillStyle = COLORS[side];
      context.globalAlpha = side === chosen.side && k === chosen.bar ? 1 : 0.6;
      const top = side === "p" ? middle - length : middle;
      context.fillRect(k * width + 1, top, width - 2, length);
      context.globalAlpha = 1;
      if (side !== chosen.side || k !== chosen.bar) return;
      context.strokeStyle = INK;
      context.lineWidth = 3;
      context.strokeRect(k * width + 1, top, width - 2, length);
    });
  context.fillStyle = INK;
  context.fillRect(0, middle - 1, SIZE[0], 2);
  context.fillText("p", 18, 18);
  context.fillText("q", 18, SIZE[1] - 20);
}

// Shades of the coupling, circles for the exact one; x to the right, y upwards.
function drawCoupling(canvas, n, coupling, exact) {
  const context = blank(canvas);
  const [w, h] = [SIZE[0] / n, SIZE[1] / n];
  const top = Math.max(...coupling);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const at = i * n + j;
      const [x, y] = [i * w, SIZE[1] - (j + 1) * h];
      if (coupling[at] > 0) {
        context.fillStyle = COLORS.p;
        context.globalAlpha = Math.sqrt(coupling[at] / top);
        context.fillRect(x, y, w, h);
        context.globalAlpha = 1;
      }
      if (exact[at] > 1e-6) {
        context.strokeStyle = INK;
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(x + w / 2, y + h / 2, 0.32 * h, 0, 2 * Math.PI);
        context.stroke();
      }
    }
}

// g below U and h above L with their 95 percent bands; the exact pair in black.
function drawPotentials(canvas, p, q, run, exact, T) {
  const context = blank(canvas);
  const n = p.length;
  const reach = Math.log(20) * T;
  // Adding a number to g and h changes nothing: shift the exact pair onto the chain.
  const shift = p.reduce((sum, mass, i) => sum + mass * (run.U[i] - exact.g[i]), 0);
  const exactG = exact.g.map((value) => value + shift);
  const exactH = exact.h.map((value) => value + shift);
  const solid = [...run.U, ...run.L, ...exactG, ...exactH];
  const [low, high] = [Math.min(...solid), Math.max(...solid)];
  const margin = 0.25 * (high - low || 1);
  const y = (value) => {
    const share = (value - low + margin) / (high - low + 2 * margin);
    return SIZE[1] * (1 - Math.min(1, Math.max(0, share)));
  };
  const x = (k) => ((k + 0.5) / n) * SIZE[0];
  const line = (values, width) => {
    context.lineWidth = width;
    context.beginPath();
    values.forEach((value, k) => context.lineTo(x(k), y(value)));
    context.stroke();
  };
  for (const [limit, draws, mass, sign, side] of [
    [run.U, run.g, p, -1, "p"], [run.L, run.h, q, 1, "q"]]) {
    context.fillStyle = COLORS.band;
    context.globalAlpha = 0.7;
    context.beginPath();
    limit.forEach((value, k) => context.lineTo(x(k), y(value)));
    for (let k = n - 1; k >= 0; k--)
      context.lineTo(x(k), y(limit[k] + (sign * reach) / mass[k]));
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = COLORS[side];
    line(limit, 3);
    draws.forEach((value, k) => {
      context.beginPath();
      context.arc(x(k), y(value), 5, 0, 2 * Math.PI);
      context.fill();
    });
  }
  context.strokeStyle = INK;
  context.setLineDash([8, 6]);
  line(exactG, 2);
  line(exactH, 2);
  context.setLineDash([]);
}

// V and the dual value over the iterations, in units of the exact cost, or by how much
// of V's largest value they exceed a cost of nothing.
function drawTrace(canvas, trace, value, nLargest) {
  const context = blank(canvas);
  const isFree = value < 1e-9;
  const unit = isFree ? Math.max(...trace.map(({ V }) => Math.abs(V))) || 1 : value;
  const left = 64;
  const x = (t) => left + (t / nLargest) * (SIZE[0] - left - 20);
  const y = (share) => 20 + (2 - Math.min(2, Math.max(0, share))) * 0.5 * (SIZE[1] - 70);
  for (const share of [0, 0.5, 1, 1.5, 2]) {
    context.fillStyle = INK;
    context.fillText(share === 1 ? "exact" : share.toFixed(1), left / 2, y(share));
    context.fillStyle = share === 1 ? INK : "#d4d4d8";
    context.fillRect(left, y(share) - 1, SIZE[0] - left - 20, share === 1 ? 3 : 1);
  }
  context.fillStyle = INK;
  for (const t of [0, 25, 50, 75, 100]) context.fillText(t, x(t), SIZE[1] - 18);
  for (const name of ["V", "dual"]) {
    context.strokeStyle = COLORS[name];
    context.lineWidth = 4;
    context.beginPath();
    trace.forEach((now, t) => context.lineTo(x(t + 1), y((isFree ? 1 : 0) + now[name] / unit)));
    context.stroke();
  }
}

function render({ model: state, el }) {
  const noise = asFloats(state.get("noise"));
  const shapes = state.get("shapes");
  const n = state.get("p").length;
  const nLargest = noise.length / (2 * n);
  const { change, choice, slider, player, panel, note } =
    frame(state, el, "transport-explorer");
  const chosen = { side: "p", bar: Math.floor(n / 4) };
  let shape = "0"; // the offered shape, "" once the reader has changed it
  let solved = { key: "" }; // the exact solution of what is shown

  function setBar(side, bar, height) {
    Object.assign(chosen, { side, bar });
    shape = "";
    const heights = state.get(side).slice();
    heights[bar] = Math.min(1, Math.max(LOWEST, height));
    change({ [side]: heights });
    later(); // the choice may have changed where the height has not
  }

  const shapeChoice = choice("shapes",
    [["", "your own"], ...shapes.map(({ name }, k) => [k, name])], (k) => {
      if (k === "") return;
      shape = k;
      change({ p: shapes[k].p, q: shapes[k].q });
    });
  const costChoice = choice("cost", COSTS, (value) => change({ cost: value }));
  const temperatureSlider = slider("temperature", { min: -4, max: 1, step: 0.1 },
    (value) => change({ log_temperature: value }));
  const iterationsSlider = slider("iterations", { min: 1, max: nLargest, step: 1 },
    (value) => change({ n_iterations: value }));
  const cooling = choice("cooling", [["no", "constant"], ["yes", "÷ 1000 in 100 iterations"]],
    (value) => change({ cooled: value === "yes" }));
  const lawChoice = choice("law to shape", [["p", "p, above"], ["q", "q, below"]], (value) => {
    chosen.side = value;
    later();
  });
  const barSlider = slider("bar", { min: 1, max: n, step: 1 }, (value) => {
    chosen.bar = value - 1;
    later();
  });
  const heightSlider = slider("height", { min: LOWEST, max: 1, step: 0.02 }, (value) =>
    setBar(chosen.side, chosen.bar, value));
  const stop = player("play the iterations", "n_iterations", 1, nLargest, 120);

  const laws = panel("two laws: draw them with mouse or finger");
  const plan = panel("coupling: shades Gibbs-OT, circles exact");
  const duals = panel("potentials: U, g blue; L, h red; exact dashed");
  const values = panel("V (orange) and the dual value (blue)");
  laws.classList.add("te-drawable");
  const draw = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const [x, y] = pointed(laws, event);
    const side = event.type === "pointerdown" ? (y < 0.5 ? "p" : "q") : chosen.side;
    const bar = Math.min(n - 1, Math.max(0, Math.floor(x * n)));
    const up = ((side === "p" ? 0.5 - y : y - 0.5) * SIZE[1]) / (SIZE[1] / 2 - 30);
    setBar(side, bar, up);
  };
  laws.addEventListener("pointerdown", (event) => {
    laws.setPointerCapture(event.pointerId);
    draw(event);
  });
  laws.addEventListener("pointermove", draw);
  const line = note();

  function update() {
    const heights = { p: state.get("p"), q: state.get("q") };
    const kind = state.get("cost");
    const nIterations = state.get("n_iterations");
    const start = 10 ** state.get("log_temperature") / n;
    const cooled = state.get("cooled");
    shapeChoice.show(shape);
    costChoice.show(kind);
    cooling.show(cooled ? "yes" : "no");
    lawChoice.show(chosen.side);
    temperatureSlider.show(state.get("log_temperature"), `${(start * n).toPrecision(2)}/${n}`);
    iterationsSlider.show(nIterations, `${nIterations}`);
    barSlider.show(chosen.bar + 1, `${chosen.bar + 1}`);
    const height = heights[chosen.side][chosen.bar];
    heightSlider.show(height, height.toFixed(2));

    const [p, q] = [masses(heights.p), masses(heights.q)];
    const cost = costMatrix(n, kind);
    const key = [kind, ...p, ...q].join();
    if (solved.key !== key) solved = { key, ...exactOT(p, q, cost) };
    const run = gibbsOT(p, q, cost, start, cooled, noise, nIterations);
    const last = run.trace[nIterations - 1];
    const T = temperatureAt(start, cooled, nIterations - 1);
    drawLaws(laws, heights, chosen);
    drawCoupling(plan, n, run.coupling, solved.coupling);
    drawPotentials(duals, p, q, run, solved, T);
    drawTrace(values, run.trace, solved.value, nLargest);
    // Laws that are alike cost nothing, of which there is no percentage.
    const off = (value) => {
      const away = Math.abs(value - solved.value);
      const side = value > solved.value ? "above" : "below";
      const percent = (100 * away) / solved.value;
      return solved.value > 1e-9 ? `${percent.toFixed(2)} % ${side}` : side;
    };
    line.textContent = `Exact cost ${solved.value.toFixed(4)}. After ${nIterations} `
      + `iterations the dual value is ${last.dual.toFixed(4)}, ${off(last.dual)} it; `
      + `V is ${last.V.toFixed(4)}, ${off(last.V)}.`;
    laws.setAttribute("aria-label", `Bar ${chosen.bar + 1} of ${chosen.side} is `
      + `${height.toFixed(2)} high`);
    plan.setAttribute("aria-label", "The coupling of Gibbs-OT over the exact one");
    duals.setAttribute("aria-label",
      `Potentials and their 95 percent bands at temperature ${T.toPrecision(2)}`);
    values.setAttribute("aria-label", line.textContent);
  }

  update();
  const keys = ["p", "q", "cost", "log_temperature", "n_iterations", "cooled"];
  const { later, leave } = follow(state, keys, update);
  return () => {
    stop();
    leave();
  };
}

export default { render };
