// Max-product on a graph of a few nodes, over the sweeps, computed here in the page: the
// graphs and the perturbations arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, make, minus, pointed, SIZE } from "./frame.js";
import { beliefs, firstMessages, perturbAndMap, sweep, toBits } from "./max_product.js";

const N_SWEEPS = 40;
const GREEN = "#009e73";
const RED = "#d55e00";

// Where node i lies on the picture; graphs are drawn on the square [-1, 1]^2.
const place = (graph, i) => [
  SIZE[0] / 2 + 195 * graph.positions[i][0],
  SIZE[1] / 2 - 175 * graph.positions[i][1],
];
const decode = (found) => found.reduce((state, b) => 2 * state + (b > 0 ? 1 : 0), 0);
const bits = (state, n) => state.toString(2).padStart(n, "0");

// Beliefs of one perturbed model after 0, 1, ... sweeps.
export function beliefPath(model, unaries, init, damping, nSweeps = N_SWEEPS) {
  const messages = firstMessages(model, init);
  const path = [beliefs(model.n, unaries, messages)];
  for (let t = 1; t <= nSweeps; t++) {
    sweep(model, unaries, messages, damping);
    path.push(beliefs(model.n, unaries, messages));
  }
  return path;
}

// Fraction of samples that decode to their MAP state, after each number of sweeps.
export function fractionPath(model, noise, stride, best, init, damping) {
  const right = new Float64Array(N_SWEEPS + 1);
  best.forEach((state, sample) => {
    const unaries = model.bias.map((b, i) => b + noise[sample * stride + i]);
    beliefPath(model, unaries, init, damping).forEach((found, t) => {
      if (decode(found) === state) right[t] += 1 / best.length;
    });
  });
  return right;
}

function drawGraph(canvas, graph, couplings, found) {
  const context = blank(canvas);
  graph.edges.forEach(([i, j], k) => {
    const [a, b] = [place(graph, i), place(graph, j)];
    context.strokeStyle = couplings[k] < 0 ? RED : "#8b8b94";
    context.lineWidth = 8;
    context.setLineDash(couplings[k] < 0 ? [14, 10] : []);
    context.beginPath();
    context.moveTo(...a);
    context.lineTo(...b);
    context.stroke();
    context.setLineDash([]);
  });
  for (let i = 0; i < graph.n_sites; i++) {
    const belief = found[i];
    const [x, y] = place(graph, i);
    context.beginPath();
    context.arc(x, y, 42, 0, 2 * Math.PI);
    context.fillStyle = belief > 0 ? INK : "#ffffff";
    context.fill();
    context.lineWidth = 3;
    context.strokeStyle = INK;
    context.stroke();
    context.fillStyle = belief > 0 ? "#ffffff" : INK;
    context.fillText(`x${i + 1} = ${belief > 0 ? 1 : 0}`, x, y - 12);
    context.fillText(minus(belief.toFixed(2)), x, y + 14);
  }
}

// Decoded bits of the sample shown, one line each; below, the fraction of MAP states.
function drawSweeps(canvas, path, best, fractions, nSweeps, n) {
  const context = blank(canvas);
  const [left, right] = [96, SIZE[0] - 16];
  const step = (right - left) / (N_SWEEPS + 1);
  const x = (t) => left + (t + 0.5) * step;
  const line = 150 / (n + 1);
  context.fillStyle = "#e4e4e8";
  context.fillRect(x(nSweeps) - step / 2, 14, step, 400);
  path.forEach((found, t) => {
    for (let i = 0; i < n; i++) {
      context.fillStyle = found[i] > 0 ? INK : "#ffffff";
      context.fillRect(x(t) - 0.42 * step, 20 + i * line, 0.84 * step, 0.8 * line);
      context.strokeStyle = "#b4b4bb";
      context.lineWidth = 1;
      context.strokeRect(x(t) - 0.42 * step, 20 + i * line, 0.84 * step, 0.8 * line);
    }
    context.fillStyle = GREEN;
    if (decode(found) === best)
      context.fillRect(x(t) - 0.42 * step, 20 + n * line, 0.84 * step, 0.8 * line);
  });
  context.fillStyle = INK;
  for (let i = 0; i < n; i++) context.fillText(`x${i + 1}`, left / 2, 20 + (i + 0.4) * line);
  context.fillStyle = GREEN;
  context.fillText("MAP", left / 2, 20 + (n + 0.4) * line);
  const y = (fraction) => 410 - 200 * fraction;
  context.fillStyle = INK;
  for (const fraction of [0, 0.5, 1]) {
    context.fillText(`${100 * fraction}%`, left / 2, y(fraction));
    context.fillRect(left, y(fraction), right - left, 1);
  }
  context.strokeStyle = "#0072b2";
  context.lineWidth = 4;
  context.beginPath();
  fractions.forEach((fraction, t) => context.lineTo(x(t), y(fraction)));
  context.stroke();
  for (const t of [0, 10, 20, 30, 40]) context.fillText(t, x(t), 436);
  context.fillText("sweeps", (left + right) / 2, 462);
}

// The edge under a click, -1 beside all of them.
function edgeUnder(graph, x, y) {
  const away = graph.edges.map(([i, j]) => {
    const [[ax, ay], [bx, by]] = [place(graph, i), place(graph, j)];
    const [dx, dy] = [bx - ax, by - ay];
    const t = ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy);
    const s = Math.min(1, Math.max(0, t));
    return Math.hypot(x - ax - s * dx, y - ay - s * dy);
  });
  const nearest = away.indexOf(Math.min(...away));
  return away[nearest] < 40 ? nearest : -1;
}

function render({ model: state, el }) {
  const graphs = state.get("graphs");
  const noise = asFloats(state.get("noise"));
  const stride = state.get("stride");
  const { change, choice, slider, player, panel, note } =
    frame(state, el, "message-explorer");
  let known = { key: null }; // all that depends on graph, damping and initialisation

  const graphChoice = choice("graph", graphs.map(({ name }, k) => [k, name]), (k) =>
    change({ graph: Number(k), couplings: graphs[k].couplings }));
  const initChoice = choice("initialisation",
    [["symmetric", "N = W/2"], ["zero", "N = 0"]], (init) => change({ init }));
  const damping = slider("damping", { min: 0, max: 0.9, step: 0.1 }, (value) =>
    change({ damping: value }));
  const sweeps = slider("sweeps", { min: 0, max: N_SWEEPS, step: 1 }, (value) =>
    change({ n_sweeps: value }));
  const samples = slider("sample", { min: 1, max: 40, step: 1 }, (value) =>
    change({ sample: value - 1 }));
  const stop = player("play the sweeps", "n_sweeps", 0, N_SWEEPS, 250);
  const flips = make("div", "me-flips", el.querySelector(".ex-controls"));
  const line = note();
  el.insertBefore(line, el.querySelector(".ex-panels"));
  const picture = panel("graph with the beliefs of the sample; press an edge to flip its sign");
  const lines = panel("decoded bits of the sample; MAP states among all samples");
  const flip = (edge) => change({
    couplings: state.get("couplings").map((c, k) => (k === edge ? -c : c)),
  });
  picture.addEventListener("click", (event) => {
    const [x, y] = pointed(picture, event);
    const edge = edgeUnder(graphs[state.get("graph")], x * SIZE[0], y * SIZE[1]);
    if (edge >= 0) flip(edge);
  });

  function offerFlips(graph, couplings) {
    const words = graph.edges.map(([i, j], k) =>
      `x${i + 1}–x${j + 1}: ${couplings[k] < 0 ? "−" : "+"}`);
    const names = [...flips.children].map((button) => button.textContent);
    if (names.join() === words.join()) return;
    if (names.length !== words.length) flips.replaceChildren();
    words.forEach((text, k) => {
      const button = flips.children[k] ?? make("button", "ex-play", flips);
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", `flip the coupling ${text}`);
      button.onclick = () => flip(k);
    });
  }

  function solve(graph, couplings, init, kept) {
    const key = JSON.stringify([graph.name, couplings, init, kept]);
    if (known.key === key) return known;
    const model = toBits(graph, couplings, graph.fields, 1);
    const best = perturbAndMap(model, noise, stride);
    const fractions = fractionPath(model, noise, stride, best, init, kept);
    known = { key, model, best, fractions };
    return known;
  }

  function update() {
    const graph = graphs[state.get("graph")];
    const couplings = state.get("couplings");
    const [init, kept, t] = [state.get("init"), state.get("damping"), state.get("n_sweeps")];
    const sample = state.get("sample");
    const { model, best, fractions } = solve(graph, couplings, init, kept);
    graphChoice.show(state.get("graph"));
    initChoice.show(init);
    damping.show(kept, kept.toFixed(1));
    sweeps.show(t, `${t}`);
    samples.show(sample + 1, `${sample + 1}`);
    offerFlips(graph, couplings);
    const unaries = model.bias.map((b, i) => b + noise[sample * stride + i]);
    const path = beliefPath(model, unaries, init, kept);
    drawGraph(picture, graph, couplings, path[t]);
    drawSweeps(lines, path, best[sample], fractions, t, model.n);
    const found = decode(path[t]);
    const verdict = found === best[sample] ? "the MAP state" : "not the MAP state";
    line.textContent = `After ${t} sweeps sample ${sample + 1} decodes to `
      + `${bits(found, model.n)}, ${verdict} (${bits(best[sample], model.n)}). `
      + `Of ${best.length} samples ${(100 * fractions[t]).toFixed(0)} % are MAP states.`;
    picture.setAttribute("aria-label", line.textContent);
    lines.setAttribute("aria-label", `Fraction of MAP states: ${[0, 10, 20, 30, 40]
      .map((k) => `${(100 * fractions[k]).toFixed(0)} % after ${k} sweeps`).join(", ")}`);
  }

  update();
  const keys = ["graph", "couplings", "damping", "n_sweeps", "sample", "init"];
  const { leave } = follow(state, keys, update);
  return () => {
    stop();
    leave();
  };
}

export default { render };
