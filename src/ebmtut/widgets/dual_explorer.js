// Three heaps, three holes and their prices under Gibbs-OT, computed here, in the page:
// the exponential random numbers arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, SIZE } from "./frame.js";
import { activity, chain, temperaturesOver, dualValue, exactOT } from "./gibbs_ot.js";

const COLORS = { heap: "#0072b2", hole: "#d55e00", exact: "#666666", grid: "#d4d4d8" };
const HOT = 2 / 3; // 2 / N
const COLD = 1e-3;
const SCHEDULES = [["hot", "hot all the way"], ["cold", "cold from the start"],
  ["cools", "cools from hot to cold"]];
const RECENT = 20; // iterations whose largest error is shown
const AXIS = [-20, 2]; // of all settings, so that they can be compared

// Temperatures of a schedule over all iterations.
export function temperatures(name, nIterations) {
  if (name === "cools") return temperaturesOver(nIterations, HOT, 2);
  return new Array(nIterations).fill(name === "hot" ? HOT : COLD);
}

// Only differences of prices count: those of heaps and holes, the first heap's at 0.
export const anchored = (heaps, holes) =>
  [...heaps, ...holes].map((price) => price - heaps[0]);

// The largest error of a price after each iteration.
export const errors = (limits, exact) =>
  limits.map((prices) => Math.max(...prices.map((price, k) => Math.abs(price - exact[k]))));

const signed = (price) => price.toFixed(1).replace("-", "−").replace(/^−0\.0$/, "0.0");

// Heaps above, holes below; a blue line's width is how often the pair was active, black
// lines join the pairs of the best plan. Beside the prices stand the best ones.
function drawSand(canvas, places, masses, coupling, exact, prices, best) {
  const context = blank(canvas);
  const all = [...places.x, ...places.y];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const across = (a) => 95 + ((a - low) / (high - low)) * (SIZE[0] - 190);
  const [top, bottom] = [150, 330];
  const n = places.x.length;
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const [from, to] = [across(places.x[i]), across(places.y[j])];
      const stroke = (color, width) => {
        context.strokeStyle = color;
        context.lineWidth = width;
        context.beginPath();
        context.moveTo(from, top);
        context.lineTo(to, bottom);
        context.stroke();
      };
      if (coupling[i * n + j] > 0.002) stroke(COLORS.heap, 70 * coupling[i * n + j]);
      if (exact[i * n + j] > 1e-9) stroke(INK, 2);
    }
  for (const [side, mass, at, y, color, away] of [
    ["heap", masses.p, places.x, top, COLORS.heap, -1],
    ["hole", masses.q, places.y, bottom, COLORS.hole, 1]])
    at.forEach((place, k) => {
      context.fillStyle = color;
      context.beginPath();
      context.arc(across(place), y, 42 * Math.sqrt(mass[k]), 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = "#ffffff";
      context.fillText(mass[k].toFixed(1), across(place), y);
      context.fillStyle = INK;
      const which = side === "heap" ? k : n + k;
      context.fillText(signed(prices[which]), across(place), y + away * 58);
      context.fillText(`${side} ${k + 1}`, across(place), y + away * 124);
      context.fillStyle = COLORS.exact;
      context.fillText(`exact ${signed(best[which])}`, across(place), y + away * 91);
    });
}

// All prices over the iterations up to now, on an axis that never changes: lines are the
// c-transforms, dots the samples. What is beyond the axis lies on its edge.
function drawPrices(canvas, limits, samples, exact, now) {
  const context = blank(canvas);
  const [low, high] = AXIS;
  const [left, bottom, right] = [64, 62, 20];
  const x = (t) => left + ((t + 1) / limits.length) * (SIZE[0] - left - right);
  const inside = (price) => Math.min(high, Math.max(low, price));
  const y = (price) =>
    20 + ((high - inside(price)) / (high - low)) * (SIZE[1] - bottom - 30);
  for (let tick = low; tick <= high; tick += 5) {
    context.fillStyle = COLORS.grid;
    context.fillRect(left, y(tick), SIZE[0] - left - right, 1);
    context.fillStyle = INK;
    context.fillText(`${tick}`.replace("-", "−"), left / 2, y(tick));
  }
  for (const part of [0, 0.5, 1]) {
    const t = Math.round(part * limits.length);
    context.fillText(t, x(t - 1) - (part === 1 ? 12 : 0), SIZE[1] - bottom + 14);
  }
  context.fillText("iteration", SIZE[0] / 2, SIZE[1] - 16);
  const n = exact.length / 2;
  const color = (k) => (k < n ? COLORS.heap : COLORS.hole);
  for (let k = 1; k < 2 * n; k++) {
    context.fillStyle = color(k);
    context.globalAlpha = 0.35;
    for (let t = 0; t < now; t++) context.fillRect(x(t) - 1.5, y(samples[t][k]) - 1.5, 3, 3);
    context.globalAlpha = 1;
    context.strokeStyle = color(k);
    context.lineWidth = 3;
    context.beginPath();
    for (let t = 0; t < now; t++) context.lineTo(x(t), y(limits[t][k]));
    context.stroke();
  }
  context.strokeStyle = INK;
  context.lineWidth = 2;
  context.setLineDash([10, 7]);
  for (const price of exact.slice(1)) {
    context.beginPath();
    context.moveTo(left, y(price));
    context.lineTo(SIZE[0] - right, y(price));
    context.stroke();
  }
  context.setLineDash([]);
}

function render({ model: state, el }) {
  const noise = asFloats(state.get("noise"));
  const places = { x: state.get("x"), y: state.get("y") };
  const masses = { p: state.get("p"), q: state.get("q") };
  const n = masses.p.length;
  const nChains = state.get("n_chains");
  const nLargest = noise.length / (2 * n * nChains);
  const cost = Float64Array.from({ length: n * n }, (_, at) =>
    (places.x[Math.floor(at / n)] - places.y[at % n]) ** 2);
  const [p, q] = [Float64Array.from(masses.p), Float64Array.from(masses.q)];
  const exact = exactOT(p, q, cost);
  const { change, choice, slider, button, player, panel, note } =
    frame(state, el, "dual-explorer");

  const scheduleChoice = choice("temperature", SCHEDULES, (value) => {
    change({ schedule: value });
  });
  const iterationsSlider = slider("iterations", { min: 1, max: nLargest, step: 1 },
    (value) => change({ n_iterations: value }));
  const stop = player("play", "n_iterations", 1, nLargest, 20);
  const other = button("", () => change({ chain: (state.get("chain") + 1) % nChains }));
  const line = note();
  el.querySelector(".ex-panels").before(line); // seen together with the controls
  const sand = panel("blue: how often a pair was active; black: the best plan");
  const prices = panel("prices: heaps blue, holes orange, exact dashed; dots: samples");

  function update() {
    const [schedule, k] = [state.get("schedule"), state.get("chain") % nChains];
    const now = state.get("n_iterations");
    const all = temperatures(schedule, nLargest);
    const size = 2 * n * nLargest;
    const run = chain(p, q, cost, all, noise.subarray(k * size, (k + 1) * size));
    const shown = run.slice(0, now);
    const limits = run.map(({ U, L }) => anchored(U, L));
    const samples = run.map(({ U, g, h }) => [...g, ...h].map((price) => price - U[0]));
    scheduleChoice.show(schedule);
    iterationsSlider.show(now, `${now}`);
    other.textContent = `other random numbers (${k + 1} of ${nChains})`;
    const late = shown.slice(Math.floor(now / 2));
    const best = anchored(exact.g, exact.h);
    const active = activity(p, q, late);
    drawSand(sand, places, masses, active, exact.coupling, limits[now - 1], best);
    drawPrices(prices, limits, samples, best, now);
    const off = errors(limits.slice(0, now), best);
    const worst = Math.max(...off.slice(-RECENT));
    const certified = dualValue(p, q, cost, run[now - 1].U);
    line.textContent = `Iteration ${now}, T = ${all[now - 1].toPrecision(2)}. Largest error `
      + `of a price: ${off[now - 1].toFixed(2)} now, ${worst.toFixed(2)} in the last `
      + `${Math.min(now, RECENT)} iterations. Certified: cost at least `
      + `${certified.toFixed(2)} (exact ${exact.value.toFixed(2)}).`;
    sand.setAttribute("aria-label", "Three heaps above three holes; prices "
      + limits[now - 1].map(signed).join(", "));
    prices.setAttribute("aria-label", `Prices over ${now} iterations, exact `
      + best.map(signed).join(", "));
  }

  update();
  const { leave } = follow(state, ["schedule", "chain", "n_iterations"], update);
  return () => {
    stop();
    leave();
  };
}

export default { render };
