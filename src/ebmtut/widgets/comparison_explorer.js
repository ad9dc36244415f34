// Error over cost: choose a problem, a cost and a filter; a sentence names the best method.

import { blank, follow, frame, INK, minus, SIZE } from "./frame.js";
import { chosen, ranges, ranked } from "./comparison_curves.js";

const BOX = { left: 80, right: SIZE[0] - 20, top: 20, bottom: SIZE[1] - 70 };
const power = (k) => (k >= 0 && k < 4 ? String(10 ** k)
  : k < 0 && k > -4 ? (10 ** k).toFixed(-k) : `1e${k}`);

const told = (error) => error.toPrecision(error < 10 ? 2 : 4);

// Where an axis is labelled: at powers of ten, or within a decade at equal steps.
function ticks([low, high]) {
  const powers = [];
  for (let k = Math.ceil(low); k <= high; k += 1) powers.push([10 ** k, power(k)]);
  if (powers.length > 1) return powers;
  const [first, last] = [10 ** low, 10 ** high];
  const unit = 10 ** Math.floor(Math.log10((last - first) / 2));
  const step = [5, 2, 1].map((k) => k * unit).find((s) => last - first >= 2 * s);
  const found = [];
  for (let k = Math.ceil(first / step); k * step <= last; k += 1)
    found.push([k * step, String(Number((k * step).toPrecision(3)))]);
  return found;
}

function draw(canvas, problem, { cost, asks, budget }) {
  const context = blank(canvas);
  const { x, y } = ranges(problem, cost);
  const across = (v) => BOX.left + (BOX.right - BOX.left)
    * (Math.log10(v) - x[0]) / (x[1] - x[0]);
  const down = (v) => BOX.bottom - (BOX.bottom - BOX.top)
    * (Math.log10(v) - y[0]) / (y[1] - y[0]);
  context.fillRect(BOX.left, BOX.top, 2, BOX.bottom - BOX.top);
  context.fillRect(BOX.left, BOX.bottom, BOX.right - BOX.left, 2);
  for (const [v, text] of ticks(x))
    context.fillText(text, across(v), BOX.bottom + 22);
  context.textAlign = "right";
  for (const [v, text] of ticks(y))
    context.fillText(text, BOX.left - 8, down(v));
  context.textAlign = "center";
  const words = cost === "seconds" ? "CPU seconds" : "energy evaluations";
  context.fillText(words, (BOX.left + BOX.right) / 2, SIZE[1] - 18);
  context.lineWidth = 2;
  context.strokeStyle = "#888888";
  for (const [name, level] of Object.entries(problem.lines)) {
    context.setLineDash(name === "exact" ? [] : [3, 6]);
    context.beginPath();
    context.moveTo(BOX.left, down(level));
    context.lineTo(BOX.right, down(level));
    context.stroke();
  }
  for (const method of chosen(problem, cost, asks)) {
    const points = method.points[cost];
    context.strokeStyle = context.fillStyle = method.color;
    context.setLineDash([]);
    context.globalAlpha = 0.15;
    context.beginPath();
    for (const [v, , , high] of points) context.lineTo(across(v), down(high));
    for (const [v, , low] of [...points].reverse()) context.lineTo(across(v), down(low));
    context.fill();
    context.globalAlpha = 1;
    context.setLineDash(method.dashed ? [14, 8] : []);
    context.beginPath();
    for (const [v, mean] of points) context.lineTo(across(v), down(mean));
    context.lineWidth = 4;
    context.stroke();
    if (points.length > 1) continue;
    context.beginPath();
    context.arc(across(points[0][0]), down(points[0][1]), 7, 0, 7);
    context.fill();
  }
  context.setLineDash([]);
  context.fillStyle = INK;
  const at = BOX.left + budget * (BOX.right - BOX.left);
  context.fillRect(at - 1, BOX.top, 2, BOX.bottom - BOX.top);
}

// Names beside short lines of their colours, in order of the errors at the cost.
function legend(canvas, problem, { cost, asks }, found) {
  const context = blank(canvas);
  context.textAlign = "left";
  const errors = Object.fromEntries(found.map(({ name, error }) => [name, error]));
  const known = chosen(problem, cost, asks).sort((a, b) =>
    (errors[a.name] ?? Infinity) - (errors[b.name] ?? Infinity));
  known.forEach((method, k) => {
    const y = 30 + 46 * k;
    context.strokeStyle = method.color;
    context.lineWidth = 5;
    context.setLineDash(method.dashed ? [14, 8] : []);
    context.beginPath();
    context.moveTo(20, y);
    context.lineTo(90, y);
    context.stroke();
    context.fillText(method.name, 110, y);
    const error = errors[method.name];
    context.fillText(error === undefined ? "no run this short"
      : told(error), 400, y);
  });
}

function render({ model: state, el }) {
  const { change, choice, slider, panel, note } =
    frame(state, el, "comparison-explorer");
  const curves = state.get("curves");
  const filters = state.get("filters");
  const problemChoice = choice("problem", curves.map(({ name }) => [name, name]),
    (problem) => change({ problem, asks: "" }));
  const costChoice = choice("cost", [["seconds", "CPU seconds"],
    ["evaluations", "energy evaluations"]], (cost) => change({ cost }));
  const filter = choice("show", [["", "all methods"]], (asks) => change({ asks }));
  const budgetSlider = slider("cost", { min: 0, max: 1, step: 0.02 },
    (budget) => change({ budget }));
  const line = note();
  const plot = panel("error over cost; grey: exact samples (line), baseline (dots)");
  const names = panel("methods, best first, and their errors at the vertical line");

  function update() {
    const [name, cost, asks, budget] =
      ["problem", "cost", "asks", "budget"].map((key) => state.get(key));
    const problem = curves.find((one) => one.name === name);
    const offered = Object.entries(filters).filter(([key]) =>
      problem.methods.some((method) => method.asks.includes(key)));
    problemChoice.show(name);
    costChoice.show(cost);
    filter.offer([["", "all methods"], ...offered]);
    filter.show(asks);
    const now = { cost, asks, budget };
    const { at, found } = ranked(problem, cost, asks, budget);
    budgetSlider.show(budget, cost === "seconds" ? at.toPrecision(2)
      : String(Number(at.toPrecision(2))), "at cost");
    draw(plot, problem, now);
    legend(names, problem, now, found);
    const price = cost === "seconds" ? `${at.toPrecision(2)} CPU seconds`
      : `${Number(at.toPrecision(2)).toLocaleString("en")} energy evaluations`;
    line.textContent = minus(found.length
      ? `At ${price} ${found[0].name} is best: `
        + `${problem.measure.replace("{}", told(found[0].error))}.`
      : `No method of this choice has a run as short as ${price}.`);
    plot.setAttribute("aria-label", line.textContent);
    names.setAttribute("aria-label", found.map(({ name: who, error }) =>
      `${who} ${told(error)}`).join(", "));
  }

  const { leave } = follow(state, ["problem", "cost", "asks", "budget"], update);
  update();
  return leave;
}

export default { render };
