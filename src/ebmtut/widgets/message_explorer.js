// Perturb-and-max-product on a graph of a few nodes, computed here, in the page: the
// graphs and the perturbations arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, make, minus, pointed, SIZE } from "./frame.js";
import {
  boltzmann, histogram, marginals, maxProduct, perturbAndMap, perturbAndMaxProduct,
  toBits, totalVariation,
} from "./max_product.js";

const N_SWEEPS = 20;
const STARTS = ["zero", "symmetric"];
const COLORS = {
  Boltzmann: "#c9c9cf",
  "perturb-and-MAP": "#1a1a1a",
  zero: "#0072b2",
  symmetric: "#d55e00",
};
const ON = "#e69f00";
const OFF = "#56b4e9";

// Where node i lies on the picture; graphs are drawn on the square [-1, 1]^2.
const place = (graph, i) => [
  SIZE[0] / 2 + 195 * graph.positions[i][0],
  SIZE[1] / 2 - 175 * graph.positions[i][1],
];

// What a message adds beyond the mean of "I am on" and "I am off", from -1 to 1.
const leaning = (weight, message) =>
  weight === 0 ? 0 : (message - weight / 2) / (Math.abs(weight) / 2);

function drawGraph(canvas, graph, model, couplings, found, isTarget) {
  const context = blank(canvas);
  graph.edges.forEach(([i, j], k) => {
    const [a, b] = [place(graph, i), place(graph, j)];
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    const along = [(b[0] - a[0]) / length, (b[1] - a[1]) / length];
    context.strokeStyle = isTarget("edge", k) ? "#8b8b94" : "#d4d4d8";
    context.lineWidth = 4 + 10 * Math.min(1, Math.abs(couplings[k]));
    context.setLineDash(couplings[k] < 0 ? [12, 10] : []);
    context.beginPath();
    context.moveTo(...a);
    context.lineTo(...b);
    context.stroke();
    context.setLineDash([]);
    // Two arrows side by side, each at the end of who hears it.
    for (const [from, to, sign] of [[i, j, 1], [j, i, -1]]) {
      const at = from * model.n + to;
      const lean = leaning(model.weight[at], found.messages[at]);
      const tip = place(graph, to);
      const [dx, dy] = [sign * along[0], sign * along[1]];
      const point = (back, aside) => [
        tip[0] - dx * back - dy * aside,
        tip[1] - dy * back + dx * aside,
      ];
      const half = 4 + 18 * Math.abs(lean);
      context.fillStyle = lean > 0 ? ON : OFF;
      context.beginPath();
      context.moveTo(...point(46, 0));
      context.lineTo(...point(46 + 2 * half, half));
      context.lineTo(...point(46 + 2 * half, -half));
      context.fill();
    }
  });
  for (let i = 0; i < graph.n_sites; i++) {
    const belief = found.beliefs[i];
    const [x, y] = place(graph, i);
    context.beginPath();
    context.arc(x, y, 40, 0, 2 * Math.PI);
    context.fillStyle = belief > 0 ? ON : OFF;
    context.fill();
    context.lineWidth = isTarget("node", i) ? 7 : 2;
    context.strokeStyle = INK;
    context.stroke();
    context.fillStyle = INK;
    context.fillText(`x${i + 1} ${belief > 0 ? "on" : "off"}`, x, y - 12);
    context.fillText((belief > 0 ? "+" : "") + minus(belief.toFixed(2)), x, y + 14);
  }
}

function drawSweeps(canvas, graph, model, runs, nSweeps) {
  const context = blank(canvas);
  const left = 70;
  const x = (t) => left + (t / N_SWEEPS) * (SIZE[0] - left - 20);
  const y = (lean) => SIZE[1] / 2 - 10 - lean * 200;
  context.strokeStyle = "#b4b4bb";
  context.lineWidth = 5;
  context.beginPath();
  context.moveTo(x(nSweeps), y(1.05));
  context.lineTo(x(nSweeps), y(-1.05));
  context.stroke();
  context.fillStyle = INK;
  for (const lean of [-1, 0, 1]) {
    context.fillText(["off", "", "on"][lean + 1], left / 2, y(lean));
    context.fillRect(left, y(lean), SIZE[0] - left - 20, 1);
  }
  for (const t of [0, 5, 10, 15, 20]) context.fillText(t, x(t), SIZE[1] - 20);
  for (const start of STARTS) {
    context.strokeStyle = COLORS[start];
    for (const [i, j] of graph.edges.flatMap(([i, j]) => [[i, j], [j, i]])) {
      const at = i * model.n + j;
      context.lineWidth = 3;
      context.beginPath();
      runs[start].forEach(({ messages }, t) =>
        context.lineTo(x(t), y(leaning(model.weight[at], messages[at]))));
      context.stroke();
    }
  }
}

// Laws as bars and marks, one group a state or a node.
function drawLaws(canvas, laws, labels, top) {
  const context = blank(canvas);
  const [left, bottom] = [70, SIZE[1] - 44];
  const width = (SIZE[0] - left - 15) / labels.length;
  const y = (p) => bottom - (p / top) * (bottom - 20);
  context.fillStyle = INK;
  for (const p of [0, top / 2, top]) {
    context.fillText(p.toFixed(2), left / 2, y(p));
    context.fillRect(left, y(p), SIZE[0] - left - 15, 1);
  }
  labels.forEach((label, k) => {
    const x = left + (k + 0.5) * width;
    context.fillStyle = COLORS.Boltzmann;
    const bar = laws.Boltzmann[k];
    context.fillRect(x - 0.4 * width, y(bar), 0.8 * width, bottom - y(bar));
    context.fillStyle = COLORS["perturb-and-MAP"];
    context.fillRect(x - 0.4 * width, y(laws["perturb-and-MAP"][k]) - 2, 0.8 * width, 4);
    STARTS.forEach((start, side) => {
      context.fillStyle = COLORS[start];
      context.beginPath();
      const shift = (side - 0.5) * 0.4 * width;
      const radius = Math.max(4, Math.min(9, 0.3 * width));
      context.arc(x + shift, y(laws[start][k]), radius, 0, 2 * Math.PI);
      context.fill();
    });
    context.fillStyle = INK;
    if (width > 34) {
      context.font = `${Math.min(22, width / (0.6 * label.length))}px sans-serif`;
      context.fillText(label, x, bottom + 22);
    }
    context.font = "22px sans-serif";
  });
}

// The edge or node under a click, null beside all of them.
function under(graph, x, y) {
  for (let i = 0; i < graph.n_sites; i++) {
    const [a, b] = place(graph, i);
    if (Math.hypot(x - a, y - b) < 44) return `node ${i}`;
  }
  const distance = ([i, j]) => {
    const [[ax, ay], [bx, by]] = [place(graph, i), place(graph, j)];
    const [dx, dy] = [bx - ax, by - ay];
    const t = ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy);
    const s = Math.min(1, Math.max(0, t));
    return Math.hypot(x - ax - s * dx, y - ay - s * dy);
  };
  const away = graph.edges.map(distance);
  const nearest = away.indexOf(Math.min(...away));
  return away[nearest] < 32 ? `edge ${nearest}` : null;
}

function render({ model: state, el }) {
  const graphs = state.get("graphs");
  const noise = asFloats(state.get("noise"));
  const stride = state.get("stride");
  const { change, choice, slider, player, panel, note } =
    frame(state, el, "message-explorer");
  let target = "all"; // what the strength slider changes
  let offered = null; // the graph whose edges and nodes may be chosen now

  const graphChoice = choice("graph", graphs.map(({ name }, k) => [k, name]), (k) => {
    const { couplings, fields } = graphs[k];
    target = "all";
    change({ graph: Number(k), couplings, fields });
  });
  const targetChoice = choice("change", [], (value) => {
    target = value;
    update();
  });
  const strength = slider("coupling", { min: -1.5, max: 1.5, step: 0.05 }, (value) => {
    const [kind, k] = target.split(" ");
    const name = kind === "node" ? "fields" : "couplings";
    const values = state.get(name).map((old, place) =>
      kind === "all" || place === Number(k) ? value : old);
    change({ [name]: values });
  });
  const temperature = slider("temperature", { min: 0.2, max: 3, step: 0.1 }, (value) =>
    change({ temperature: value }));
  const sweeps = slider("sweeps", { min: 0, max: N_SWEEPS, step: 1 }, (value) =>
    change({ n_sweeps: value }));
  const draws = slider("draw shown", { min: 1, max: 40, step: 1 }, (value) =>
    change({ draw: value - 1 }));
  const startChoice = choice(
    "start shown", [["zero", "zero (the paper's)"], ["symmetric", "symmetric"]],
    (value) => change({ start: value }));
  const stop = player("play the sweeps", "n_sweeps", 0, N_SWEEPS, 400);

  const picture = panel("messages of the draw shown");
  const paths = panel("its messages over the sweeps");
  const bars = panel("how often each state is drawn");
  const means = panel("how often each node is on");
  picture.addEventListener("click", (event) => {
    const [x, y] = pointed(picture, event);
    const found = under(graphs[state.get("graph")], x * SIZE[0], y * SIZE[1]);
    if (found) {
      target = found;
      update();
    }
  });
  const legend = make("div", "me-legend", el);
  for (const [name, color] of Object.entries(COLORS)) {
    const isStart = STARTS.includes(name);
    const entry = make("span", "me-key", legend);
    make("span", isStart ? "me-dot" : "me-bar", entry).style.background = color;
    entry.append(isStart ? `max-product, ${name} start` : name);
  }
  const line = note();

  function update() {
    const graph = graphs[state.get("graph")];
    const [couplings, fields] = [state.get("couplings"), state.get("fields")];
    const nSweeps = state.get("n_sweeps");
    const model = toBits(graph, couplings, fields, state.get("temperature"));
    const draw = state.get("draw");
    const start = state.get("start");

    // The controls follow the state.
    graphChoice.show(state.get("graph"));
    if (graph !== offered)
      targetChoice.offer([
        ["all", "all couplings"],
        ...graph.edges.map(([i, j], k) => [`edge ${k}`, `coupling x${i + 1}–x${j + 1}`]),
        ...fields.map((_, i) => [`node ${i}`, `field of x${i + 1}`]),
      ]);
    offered = graph;
    targetChoice.show(target);
    const [kind, k] = target.split(" ");
    const value = kind === "node" ? fields[k] : couplings[k ?? 0];
    strength.show(value, value.toFixed(2), kind === "node" ? "field" : "coupling");
    temperature.show(state.get("temperature"), state.get("temperature").toFixed(1));
    sweeps.show(nSweeps, `${nSweeps}`);
    draws.show(draw + 1, `${draw + 1}`);
    startChoice.show(start);

    // One perturbed problem, sweep by sweep.
    const unaries = model.bias.map((b, i) => b + noise[draw * stride + i]);
    const runs = Object.fromEntries(STARTS.map((name) => [name, Array.from(
      { length: N_SWEEPS + 1 }, (_, t) => maxProduct(model, unaries, t, name))]));
    const isTarget = (kind, k) => target === `${kind} ${k}`;
    drawGraph(picture, graph, model, couplings, runs[start][nSweeps], isTarget);
    drawSweeps(paths, graph, model, runs, nSweeps);
    const bits = [...runs[start][nSweeps].beliefs].map((b) => (b > 0 ? 1 : 0)).join("");
    picture.setAttribute("aria-label", `After ${nSweeps} sweeps from the ${start} start, `
      + `draw ${draw + 1} decodes to ${bits}`);
    paths.setAttribute("aria-label", "Each message against the sweeps, for both starts");

    // All perturbed problems.
    const best = perturbAndMap(model, noise, stride);
    const states = Object.fromEntries(STARTS.map((name) =>
      [name, perturbAndMaxProduct(model, noise, stride, nSweeps, name)]));
    const nStates = 2 ** model.n;
    const laws = {
      Boltzmann: boltzmann(model),
      "perturb-and-MAP": histogram(best, nStates),
      ...Object.fromEntries(STARTS.map((name) => [name, histogram(states[name], nStates)])),
    };
    const top = Math.max(...Object.values(laws).flatMap((law) => [...law]));
    const names = Array.from(laws.Boltzmann, (_, k) => k.toString(2).padStart(model.n, "0"));
    drawLaws(bars, laws, names, Math.ceil(20 * top) / 20);
    const on = Object.fromEntries(
      Object.entries(laws).map(([name, law]) => [name, marginals(law, model.n)]));
    drawLaws(means, on, fields.map((_, i) => `x${i + 1}`), 1);
    const numbers = (law) => [...law].map((p) => p.toFixed(2)).join(", ");
    means.setAttribute("aria-label", Object.entries(on)
      .map(([name, law]) => `${name}: ${numbers(law)}`).join("; "));

    const share = (name) => states[name].filter((s, d) => s === best[d]).length;
    const percent = (name) => ((100 * share(name)) / best.length).toFixed(1);
    const far = (name) => totalVariation(laws[name], laws.Boltzmann).toFixed(3);
    line.textContent =
      `Of ${best.length} draws, ${nSweeps} sweeps find the optimum in `
      + `${percent("zero")} % from zero and ${percent("symmetric")} % from the symmetric `
      + `start. Distance to Boltzmann (total variation): exact optimum `
      + `${far("perturb-and-MAP")}, zero ${far("zero")}, symmetric ${far("symmetric")}.`;
    bars.setAttribute("aria-label", line.textContent);
  }

  update();
  const keys = ["graph", "couplings", "fields", "temperature", "n_sweeps", "draw", "start"];
  const { leave } = follow(state, keys, update);
  return () => {
    stop();
    leave();
  };
}

export default { render };
