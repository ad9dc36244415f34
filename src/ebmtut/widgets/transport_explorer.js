// Gibbs-OT between two distributions on a few bars, computed here, in the page: the
// exponential random numbers arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, minus, pointed, SIZE } from "./frame.js";
import { temperaturesOver, costMatrix, exactOT, gibbsOT, masses } from "./gibbs_ot.js";

const LOWEST = 0.02; // height of a bar: without mass there is no T / p_i
const COLORS = { p: "#0072b2", q: "#d55e00", band: "#d0d0d6", grid: "#d4d4d8",
  plan: "#009e73", dual: "#0072b2" };
const SCHEDULES = [["annealed", "annealed from 2/N"], ["hot", "constant: 0.3/N"],
  ["cold", "constant: 0.001/N"]];

// Temperatures of a schedule over all iterations, with n bars.
function temperatures(name, n, nIterations) {
  const constant = { hot: 0.3, cold: 0.001 }[name];
  if (!constant) return temperaturesOver(nIterations, 2 / n, 2);
  return new Array(nIterations).fill(constant / n);
}

// p stands on the middle of the picture, q hangs from it.
function drawMasses(canvas, heights, chosen) {
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

// Where on a picture with axes the values are; [low, high] on either axis.
function axes(context, across, up, names) {
  const [left, bottom, right, top] = [74, 62, 18, 16];
  const [width, height] = [SIZE[0] - left - right, SIZE[1] - top - bottom];
  const x = (value) => left + ((value - across[0]) / (across[1] - across[0])) * width;
  const y = (value) => top + ((up[1] - value) / (up[1] - up[0])) * height;
  const inside = (value) => Math.min(up[1], Math.max(up[0], value));
  context.fillStyle = INK;
  for (const value of ticks(...across)) context.fillText(plain(value), x(value), SIZE[1] - 46);
  context.fillText(names[0], left + width / 2, SIZE[1] - 18);
  for (const value of ticks(...up)) {
    context.fillStyle = INK;
    context.fillText(plain(value), left / 2 + 8, y(value));
    context.fillStyle = COLORS.grid;
    context.fillRect(left, y(value), width, 1);
  }
  if (names[1]) {
    context.save();
    context.translate(14, top + height / 2);
    context.rotate(-Math.PI / 2);
    context.fillStyle = INK;
    context.fillText(names[1], 0, 0);
    context.restore();
  }
  return { x, y, inside, left, right: left + width, top, bottom: top + height };
}

// Some three to six round numbers between two.
function ticks(low, high) {
  const rough = (high - low) / 4;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((factor) => factor * ten >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
    found.push(Number((k * step).toPrecision(6)));
  return found;
}

const plain = (value) => minus(`${value}`);

// Shades of the coupling, circles for the exact one; from p to the right, to q upwards.
function drawCoupling(canvas, n, coupling, exact) {
  const context = blank(canvas);
  const at = axes(context, [0, 1], [0, 1], ["from x, in p", "to y, in q"]);
  const [w, h] = [(at.right - at.left) / n, (at.bottom - at.top) / n];
  const top = Math.max(...coupling);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const k = i * n + j;
      const [x, y] = [at.x(i / n), at.y((j + 1) / n)];
      if (coupling[k] > 0) {
        context.fillStyle = COLORS.p;
        context.globalAlpha = Math.sqrt(coupling[k] / top);
        context.fillRect(x, y, w, h);
        context.globalAlpha = 1;
      }
      if (exact[k] > 1e-6) {
        context.strokeStyle = INK;
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(x + w / 2, y + h / 2, 0.32 * h, 0, 2 * Math.PI);
        context.stroke();
      }
    }
  context.strokeStyle = INK;
  context.lineWidth = 1;
  context.strokeRect(at.left, at.top, at.right - at.left, at.bottom - at.top);
}

// g below U and h above L with their 95 percent bands; the exact pair in black. Draws
// beyond the picture are triangles at its edge.
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
  const at = axes(context, [0, 1], [low - margin, high + margin], ["x", ""]);
  const x = (k) => at.x((k + 0.5) / n);
  const y = (value) => at.y(at.inside(value));
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
      if (at.inside(value) === value) context.arc(x(k), y(value), 5, 0, 2 * Math.PI);
      else
        for (const [dx, dy] of [[-6, 0], [6, 0], [0, 10 * sign]])
          context.lineTo(x(k) + dx, y(value) - dy + 10 * sign);
      context.fill();
    });
  }
  context.strokeStyle = INK;
  context.setLineDash([8, 6]);
  line(exactG, 2);
  line(exactH, 2);
  context.setLineDash([]);
}

// Dual value and cost of the plan over the iterations, in units of the exact cost.
function drawTrace(canvas, trace, value, nLargest) {
  const context = blank(canvas);
  const at = axes(context, [0, nLargest], [0, 2], ["iteration", "in units of the exact cost"]);
  context.fillStyle = INK;
  context.fillRect(at.left, at.y(1) - 1, at.right - at.left, 3);
  for (const name of ["plan", "dual"]) {
    context.strokeStyle = COLORS[name];
    context.lineWidth = 4;
    context.beginPath();
    let pen = "moveTo"; // what lies beyond the picture is left out
    trace.forEach((now, t) => {
      const height = now[name] / Math.max(value, 1e-9);
      const isInside = at.inside(height) === height;
      if (isInside) context[pen](at.x(t + 1), at.y(height));
      pen = isInside ? "lineTo" : "moveTo";
    });
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

  // Heights of one distribution between two bars, along a straight line.
  function setBars(side, from, to) {
    Object.assign(chosen, { side, bar: to.bar });
    shape = "";
    const heights = state.get(side).slice();
    const far = Math.abs(to.bar - from.bar);
    for (let k = 0; k <= far; k++) {
      const share = far ? k / far : 1;
      const height = from.height + share * (to.height - from.height);
      const bar = from.bar + Math.sign(to.bar - from.bar) * k;
      heights[bar] = Math.min(1, Math.max(LOWEST, height));
    }
    change({ [side]: heights });
    later(); // the choice may have changed where the height has not
  }

  const shapeChoice = choice("distributions",
    [["", "your own"], ...shapes.map(({ name }, k) => [k, name])], (k) => {
      if (k === "") return;
      shape = k;
      change({ p: shapes[k].p, q: shapes[k].q });
    });
  const scheduleChoice = choice("temperature", SCHEDULES,
    (value) => change({ schedule: value }));
  const iterationsSlider = slider("iterations", { min: 1, max: nLargest, step: 1 },
    (value) => change({ n_iterations: value }));
  const stop = player("play", "n_iterations", 1, nLargest, 120);

  const values = panel("certified bound blue, cost of rounded plan green; "
    + "what lies beyond the picture is left out");
  const plan = panel("plan: shades Gibbs-OT, circles exact");
  const duals = panel("potentials U blue, L orange, exact dashed; dots: samples, "
    + "triangles: samples beyond the picture; grey: 95 % of them");
  const massPanel = panel("masses p and q: draw them with mouse, finger, "
    + "or arrow keys and Enter");
  massPanel.classList.add("te-drawable");
  // A fast stroke skips bars: those between two events are filled in.
  let last = null;
  const draw = (event) => {
    if (event.type === "pointermove" && !(event.buttons && last)) return;
    const [x, y] = pointed(massPanel, event);
    const side = event.type === "pointerdown" ? (y < 0.5 ? "p" : "q") : chosen.side;
    const bar = Math.min(n - 1, Math.max(0, Math.floor(x * n)));
    const up = ((side === "p" ? 0.5 - y : y - 0.5) * SIZE[1]) / (SIZE[1] / 2 - 30);
    const here = { bar, height: Math.min(1, Math.max(LOWEST, up)) };
    setBars(side, event.type === "pointermove" ? last : here, here);
    last = here;
  };
  // A touch may become a scroll: it draws once it moves sideways, or when it ends.
  let held = null;
  const release = () => {
    if (held) draw(held);
    held = null;
  };
  massPanel.addEventListener("pointerdown", (event) => {
    massPanel.setPointerCapture(event.pointerId);
    held = event;
    if (event.pointerType !== "touch") release();
  });
  massPanel.addEventListener("pointermove", (event) => {
    if (held) {
      const [x, y] = [event.clientX - held.clientX, event.clientY - held.clientY];
      if (Math.abs(x) <= Math.abs(y)) return;
    }
    release();
    draw(event);
  });
  massPanel.addEventListener("pointerup", () => {
    release();
    last = null;
  });
  massPanel.addEventListener("pointercancel", () => (held = last = null));
  const line = note();

  function update() {
    const heights = { p: state.get("p"), q: state.get("q") };
    const nIterations = state.get("n_iterations");
    const schedule = temperatures(state.get("schedule"), n, nLargest);
    shapeChoice.show(shape);
    scheduleChoice.show(state.get("schedule"));
    iterationsSlider.show(nIterations, `${nIterations}`);

    const [p, q] = [masses(heights.p), masses(heights.q)];
    const cost = costMatrix(n);
    const key = [...p, ...q].join();
    if (solved.key !== key) solved = { key, ...exactOT(p, q, cost) };
    const run = gibbsOT(p, q, cost, schedule.slice(0, nIterations), noise);
    const last = run.trace[nIterations - 1];
    drawMasses(massPanel, heights, chosen);
    drawCoupling(plan, n, run.coupling, solved.coupling);
    drawPotentials(duals, p, q, run, solved, schedule[nIterations - 1]);
    drawTrace(values, run.trace, solved.value, nLargest);
    // Distributions that are alike cost nothing, of which there is no percentage.
    const off = (value) => {
      const percent = (100 * Math.abs(value - solved.value)) / solved.value;
      return solved.value > 1e-9 ? `${percent.toFixed(1)} %` : "";
    };
    line.textContent = minus(`Exact cost ${solved.value.toFixed(4)}. After ${nIterations} `
      + `iterations the certified bound is ${last.dual.toFixed(4)}, ${off(last.dual)} below; `
      + `the rounded plan costs ${last.plan.toFixed(4)}, ${off(last.plan)} above.`);
    massPanel.setAttribute("aria-label", `Bar ${chosen.bar + 1} of ${chosen.side} is `
      + `${heights[chosen.side][chosen.bar].toFixed(2)} high`);
    plan.setAttribute("aria-label", "The plan of Gibbs-OT over the exact one");
    duals.setAttribute("aria-label", "Potentials and their 95 percent bands");
    values.setAttribute("aria-label", line.textContent);
  }

  update();
  const keys = ["p", "q", "schedule", "n_iterations"];
  const { later, leave } = follow(state, keys, update);
  return () => {
    stop();
    leave();
  };
}

export default { render };
