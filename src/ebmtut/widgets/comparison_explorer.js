// Error over cost: choose a problem, a cost and a filter; a sentence names the best methods.

import { blank, follow, frame, INK, minus, pointed, SIZE } from "./frame.js";
import { chosen, ranges, ranked, verdict } from "./comparison_curves.js";

const BOX = { left: 110, right: SIZE[0] - 20, top: 20, bottom: SIZE[1] - 70 };
const ERRORS = { left: 390, right: SIZE[0] - 20 };
const plain = (value, digits = 2) =>
  value.toLocaleString("en", { maximumSignificantDigits: digits });
const short = (value) => (value < 1e6 ? plain(value) : `${plain(value / 1e6)}M`);
const written = (error) => error.toPrecision(error < 10 ? 2 : 4);
const listed = (names) => [...names.slice(0, -2), names.slice(-2).join(" and ")]
  .join(", ");

const amount = (value, cost) => (cost === "evaluations" ? short(value)
  : value < 1 ? `${plain(1000 * value)} ms` : `${plain(value)} s`);

const priced = (problem, cost) => (cost === "seconds" ? "CPU seconds"
  : `energy evaluations ${problem.per}`);

// Where an axis is labelled: at powers of ten, at 1, 2 and 5, or at equal steps.
function ticks([low, high]) {
  for (const marks of [[1], [1, 2, 5]]) {
    const some = [];
    for (let k = Math.floor(low); k <= high; k += 1)
      some.push(...marks.map((mark) => mark * 10 ** k));
    const inside = some.filter((v) => v >= 10 ** low && v <= 10 ** high);
    if (inside.length > 1)
      return inside.map((v) => [v, v < 1e4 || v >= 1e6 ? short(v) : `${v / 1e3}k`]);
  }
  const [first, last] = [10 ** low, 10 ** high];
  const unit = 10 ** Math.floor(Math.log10((last - first) / 2));
  const step = [5, 2, 1].map((k) => k * unit).find((s) => last - first >= 2 * s);
  const found = [];
  for (let k = Math.ceil(first / step); k * step <= last; k += 1)
    found.push([k * step, plain(k * step, 3)]);
  return found;
}

// Curves of all methods, with the bands of those that the sentence names.
function draw(canvas, problem, { cost, asks, budget, named }) {
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
  context.fillText(priced(problem, cost), (BOX.left + BOX.right) / 2, SIZE[1] - 18);
  context.save();
  context.translate(16, (BOX.top + BOX.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(problem.measure, 0, 0);
  context.restore();
  context.lineWidth = 2;
  context.strokeStyle = "#888888";
  const { exact, ...baselines } = problem.lines;
  const words = [];
  const levelLine = (level, dash, name) => {
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(BOX.left, down(level));
    context.lineTo(BOX.right, down(level));
    context.stroke();
    const above = down(level) - 12;
    words.push([name, above > BOX.top ? above : above + 26]);
  };
  if (exact) {
    levelLine(exact, [], "exact samples");
    levelLine(2 * exact, [14, 8], "twice exact");
  }
  for (const level of Object.values(baselines)) levelLine(level, [3, 6], "baseline");
  for (const method of chosen(problem, cost, asks)) {
    const points = method.points[cost];
    context.strokeStyle = context.fillStyle = method.color;
    if (named.includes(method.name)) {
      context.globalAlpha = 0.2;
      context.beginPath();
      for (const [v, , , high] of points) context.lineTo(across(v), down(high));
      for (const [v, , low] of [...points].reverse())
        context.lineTo(across(v), down(low));
      context.fill();
      context.globalAlpha = 1;
    }
    context.setLineDash(method.dashed ? [14, 8] : []);
    context.beginPath();
    for (const [v, median] of points) context.lineTo(across(v), down(median));
    context.lineWidth = 4;
    context.stroke();
    // A hollow mark where the longest run ended.
    const [end, error] = points[points.length - 1];
    context.setLineDash([]);
    context.fillStyle = "#ffffff";
    context.beginPath();
    context.arc(across(end), down(error), 7, 0, 7);
    context.fill();
    context.stroke();
  }
  context.setLineDash([]);
  context.font = "19px sans-serif";
  context.textAlign = "left";
  context.lineWidth = 5;
  context.strokeStyle = "#ffffff";
  context.fillStyle = "#555555";
  for (const [text, height] of words) {
    context.strokeText(text, BOX.left + 8, height);
    context.fillText(text, BOX.left + 8, height);
  }
  context.fillStyle = INK;
  const at = BOX.left + budget * (BOX.right - BOX.left);
  context.fillRect(at - 1, BOX.top, 2, BOX.bottom - BOX.top);
}

// Names in order of the errors at the cost, each with its lowest, median and highest
// error; below the number which runs are shorter or longer.
function legend(canvas, problem, { cost, asks }, found) {
  const context = blank(canvas);
  context.textAlign = "left";
  const rows = Object.fromEntries(found.map((row) => [row.name, row]));
  const known = chosen(problem, cost, asks).sort((a, b) =>
    (rows[a.name]?.error ?? Infinity) - (rows[b.name]?.error ?? Infinity));
  const unit = cost === "seconds" ? " s" : "";
  const [lowest, highest] = ranges(problem, cost).y;
  const across = (v) => ERRORS.left + (ERRORS.right - ERRORS.left)
    * (Math.log10(v) - lowest) / (highest - lowest);
  const height = Math.min(64, (SIZE[1] - 20) / known.length);
  const small = (text, x, y) => {
    const { font } = context;
    context.font = "18px sans-serif";
    context.fillText(text, x, y);
    context.font = font;
  };
  if (problem.lines.exact) {
    context.strokeStyle = "#888888";
    context.lineWidth = 2;
    context.setLineDash([14, 8]);
    context.beginPath();
    context.moveTo(across(2 * problem.lines.exact), 10);
    context.lineTo(across(2 * problem.lines.exact), 10 + height * known.length);
    context.stroke();
  }
  known.forEach((method, k) => {
    const y = 30 + height * k;
    context.strokeStyle = method.color;
    context.lineWidth = 5;
    context.setLineDash(method.dashed ? [14, 8] : []);
    context.beginPath();
    context.moveTo(10, y);
    context.lineTo(70, y);
    context.stroke();
    context.setLineDash([]);
    const [name, aside] = method.name.split(" (");
    context.fillText(name, 84, y);
    if (aside) small(`(${aside}`, 84, y + 20);
    const row = rows[method.name];
    const note = row ? row.ended && `ended at ${short(row.ended)}${unit}`
      : `begins at ${short(method.points[cost][0][0])}${unit}`;
    if (note) small(note, 290, row ? y + 20 : y);
    if (!row) return;
    context.fillText(written(row.error), 290, y);
    context.beginPath();
    context.moveTo(across(row.low), y);
    context.lineTo(across(row.high), y);
    context.stroke();
    context.fillStyle = method.color;
    context.beginPath();
    context.arc(across(row.error), y, 8, 0, 7);
    context.fill();
    context.fillStyle = INK;
  });
}

// Who is near exact samples, or who is best, of methods whose runs are so long, or that
// nobody beats the baseline.
function sentence(problem, cost, price, found, total, { baseline, near, best }) {
  if (!found.length) return `No method of this choice has a run of ${price}.`;
  const at = `At ${price}`;
  if (baseline) return `${at} no method beats the baseline yet.`;
  if (near.length) {
    const rows = near.slice(0, 3).map((name) => found.find((row) => row.name === name));
    const told = rows.map(({ name, from }) => `${name} (from ${amount(from, cost)})`);
    if (near.length > 3) told.push(`${near.length - 3} more`);
    return `${at} ${listed(told)} ${near.length > 1 ? "stay" : "stays"} within twice `
      + "the error of exact samples, in the median.";
  }
  const { exact } = problem.lines;
  const does = found[0].error <= 2 * exact ? "does not stay" : "not";
  const far = exact ? `, but ${does} within twice the error of exact samples` : "";
  const begun = found.length < total ? ` of the ${found.length} with a run` : "";
  const stopped = found[0].ended ? `, by its last run of ${short(found[0].ended)}` : "";
  const [first, ...others] = best;
  const equal = others.length
    ? `; ${listed(others)} ${others.length > 1 ? "are" : "is"} not distinguishable from it`
    : "";
  const leads = found.length === 1 && total > 1 ? `only ${first} has a run`
    : `${first} has the lowest median${begun}`;
  return `${at} ${leads}${stopped}${far}${equal}.`;
}

function render({ model: state, el }) {
  const { change, choice, slider, panel, note } =
    frame(state, el, "comparison-explorer");
  const curves = state.get("curves");
  const filters = state.get("filters");
  const named = (name) => curves.find((one) => one.name === name);
  // Where the axis of another problem has the cost at the line.
  const kept = (name) => {
    const cost = state.get("cost");
    const { at } = ranked(named(state.get("problem")), cost, state.get("asks"),
      state.get("budget"));
    const [first, last] = ranges(named(name), cost).x;
    return Math.min(1, Math.max(0, (Math.log10(at) - first) / (last - first)));
  };
  const problemChoice = choice("problem", curves.map(({ name }) => [name, name]),
    (problem) => change({ problem, asks: "", budget: kept(problem) }));
  const costChoice = choice("cost", [["seconds", "CPU seconds"],
    ["evaluations", "energy evaluations"]], (cost) => change({ cost }));
  const filter = choice("show", [["", "all methods"]], (asks) => change({ asks }));
  const budgetSlider = slider("cost", { min: 0, max: 1, step: 0.02 },
    (budget) => change({ budget }));
  const line = note();
  const plot = panel("error over cost; band: lowest and highest run");
  const names = panel("errors at the line, best first, with lowest and highest run");
  // The slider is there for the keyboard.
  plot.addEventListener("pointerup", (event) => {
    const budget = (pointed(plot, event)[0] * SIZE[0] - BOX.left)
      / (BOX.right - BOX.left);
    change({ budget: Math.min(1, Math.max(0, budget)) });
  });

  function update() {
    const [name, cost, asks] =
      ["problem", "cost", "asks"].map((key) => state.get(key));
    const problem = named(name);
    const offered = Object.entries(filters).filter(([key]) =>
      problem.methods.some((method) => method.asks.includes(key)));
    problemChoice.show(name);
    costChoice.show(cost);
    filter.offer([["", "all methods"], ...offered]);
    filter.show(asks);
    const { at, budget, found } = ranked(problem, cost, asks, state.get("budget"));
    const told = verdict(problem.lines, found);
    const banded = told.near.length ? told.near : told.best;
    const now = { cost, asks, budget, named: banded };
    budgetSlider.show(budget, amount(at, cost), "at cost");
    draw(plot, problem, now);
    legend(names, problem, now, found);
    const price = `${short(at)} ${priced(problem, cost)}`;
    line.textContent = minus(sentence(problem, cost, price, found,
      chosen(problem, cost, asks).length, told));
    plot.setAttribute("aria-label", line.textContent);
    names.setAttribute("aria-label", found.map(({ name: who, error }) =>
      `${who} ${written(error)}`).join(", "));
  }

  const { leave } = follow(state, ["problem", "cost", "asks", "budget"], update);
  update();
  return leave;
}

export default { render };
