// Sixteen lattices that a trained flow moves from uniform bits to its target, computed in
// the page: the trained rates arrive in the model, nothing is fetched.

import { asFloats, blank, follow, frame, INK, minus, SIZE } from "./frame.js";
import { leap, moveSums, otherSums, terms, uniforms, unpack } from "./odd_lattice.js";

const ACROSS = 4; // lattices across and down
const MOST = 10; // times that all lattices are simulated, at the reader's wish
const COLORS = { up: "#0072b2", down: "#e8eef4", chain: "#56b4e9", mean: "#d55e00" };

function drawLattices(canvas, states, side) {
  const context = blank(canvas);
  const gap = 12;
  const size = (SIZE[1] - gap * (ACROSS + 1)) / ACROSS;
  const left = (SIZE[0] - ACROSS * size - (ACROSS - 1) * gap) / 2;
  states.forEach((spins, k) => {
    const x = left + (k % ACROSS) * (size + gap);
    const y = gap + Math.floor(k / ACROSS) * (size + gap);
    const cell = size / side;
    spins.forEach((s, i) => {
      context.fillStyle = s > 0 ? COLORS.up : COLORS.down;
      context.fillRect(x + (i % side) * cell, y + Math.floor(i / side) * cell,
        cell + 0.5, cell + 0.5);
    });
  });
}

// Energies over time, up to now; the exact mean in black, that of the samples in orange,
// and a dot with two standard errors for the mean of all samples so far.
// The scale is that of the flow with the lowest energies, in every mode.
function drawEnergies(canvas, energies, exact, now, lowest, at, [average, error]) {
  const context = blank(canvas);
  const nSteps = exact.length - 1;
  const [low, high] = [1.4 * lowest, -0.4 * lowest];
  const [left, bottom] = [78, 70];
  const x = (k) => left + (k / nSteps) * (SIZE[0] - left - 16);
  const y = (e) => 16 + ((high - e) / (high - low || 1)) * (SIZE[1] - bottom - 16);
  context.fillRect(left, 16, 2, SIZE[1] - bottom - 16);
  context.fillRect(left, SIZE[1] - bottom, SIZE[0] - left - 16, 2);
  context.save();
  context.beginPath();
  context.rect(left, 16, SIZE[0] - left - 16, SIZE[1] - bottom - 16);
  context.clip();
  const line = (values, color, width) => {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    values.forEach((value, k) => context.lineTo(x(k), y(value)));
    context.stroke();
  };
  const past = energies.slice(0, now + 1);
  energies[0].forEach((_, c) => line(past.map((row) => row[c]), COLORS.chain, 1));
  line(exact, INK, 4);
  line(past.map(mean), COLORS.mean, 3);
  context.restore();
  context.fillStyle = COLORS.mean;
  const top = y(average + 2 * error);
  context.fillRect(x(at) - 2, top, 4, y(average - 2 * error) - top);
  context.beginPath();
  context.arc(x(at), y(average), 8, 0, 2 * Math.PI);
  context.fill();
  context.fillStyle = INK;
  const unit = 10 ** Math.floor(Math.log10(-lowest || 1));
  const tick = unit * Math.max(1, Math.round(-lowest / 2 / unit));
  for (let e = Math.ceil(low / tick) * tick; e <= high; e += tick) {
    context.textAlign = "right";
    context.fillText(minus(e), left - 12, y(e));
    context.fillRect(left - 6, y(e) - 1, 6, 2);
  }
  context.textAlign = "center";
  for (const t of [0, 0.5, 1])
    context.fillText(t, x(t * nSteps) - (t === 1 ? 8 : 0), SIZE[1] - bottom + 22);
  context.fillText("time t", x(nSteps / 2), SIZE[1] - 20);
}

const mean = (values) => values.reduce((a, b) => a + b) / values.length;

function render({ model: state, el }) {
  const flows = state.get("flows");
  const values = asFloats(state.get("weights"));
  const { side } = flows[0];
  const nSteps = flows[0].log_partition.length - 1;
  const nChains = ACROSS * ACROSS;
  let at = 0;
  const nets = flows.map((flow) => unpack(values.subarray(at, (at += flow.size)), flow));
  const { change, choice, slider, button, player, panel, note } =
    frame(state, el, "flow-explorer");

  // The trajectories that were simulated, a row per step, made as far as the reader asks.
  let run = null;
  // All runs of one setting, by seed, with the rows of the steps that were made.
  const runs = new Map();
  function begin() {
    const uniform = uniforms(state.get("seed"));
    const spins = Array.from({ length: nChains }, () =>
      Float64Array.from({ length: side * side }, () => (uniform() < 0.5 ? -1 : 1)));
    const net = state.get("trained") ? nets[state.get("flow")] : null;
    const sums = spins.map((one) => net && otherSums(net, one));
    run = { uniform, net, sums, states: [spins], energies: [], xi: [], rates: [] };
    const setting = `${state.get("flow")},${state.get("trained")}`;
    if (!runs.has(setting)) runs.set(setting, new Map());
    run.all = runs.get(setting);
    run.all.set(state.get("seed"), { energies: run.energies, xi: run.xi });
    evaluate();
  }
  function evaluate() {
    const k = state.get("flow");
    const step = run.states.length - 1;
    const found = run.states[step].map((spins, c) =>
      terms(run.net, spins, step / nSteps, side, flows[k].sigma, run.sums[c] ?? undefined));
    run.energies.push(found.map((f) => f.energy));
    run.xi.push(found.map((f) => f.xi));
    run.rates = found.map((f) => f.rates);
  }
  // Goes on for a moment at a time, so that the page answers; returns how far it came.
  function reach(step) {
    const end = performance.now() + 40;
    while (run.states.length <= step && performance.now() < end) {
      const last = run.states[run.states.length - 1];
      run.states.push(last.map((spins, c) => {
        const next = leap(spins, run.rates[c], 1 / nSteps, run.uniform);
        if (run.net) moveSums(run.net, run.sums[c], spins, next);
        return next;
      }));
      evaluate();
    }
    return Math.min(step, run.states.length - 1);
  }

  const options = flows.flatMap(({ name }, k) =>
    [[`${k},true`, `${name}, trained`], [`${k},false`, `${name}, all zero`]]);
  const rates = choice("rates", options, (value) => {
    const [k, trained] = value.split(",");
    change({ flow: Number(k), trained: trained === "true" });
  });
  const timeSlider = slider("time", { min: 0, max: nSteps, step: 1 },
    (value) => change({ step: value }));
  const stopTime = player("play", "step", 0, nSteps, 60);
  const first = state.get("seed");
  const words = `${MOST * nChains} samples`;
  let drawing = false;
  const more = button(words, () => {
    draw(!drawing);
    if (drawing) change({ seed: first });
    update();
  });
  function draw(on) {
    drawing = on;
    more.textContent = on ? "stop" : words;
  }
  const line = note();
  const lattices = panel("sixteen samples at time t");
  const energies = panel("energies: samples blue, their mean orange, "
    + "mean of all samples dot, exact mean black");
  const lowest = Math.min(...flows.map((flow) => Math.min(...flow.energy)));

  let made = "";
  let timer = 0;
  function update() {
    clearTimeout(timer);
    const key = ["flow", "trained", "seed"].map((name) => state.get(name)).join();
    if (key !== made) {
      made = key;
      begin();
    }
    const step = reach(state.get("step"));
    if (step < state.get("step")) timer = setTimeout(update);
    else if (drawing && state.get("seed") >= first + MOST - 1) draw(false);
    else if (drawing)
      timer = setTimeout(() => change({ seed: state.get("seed") + 1 }), 30);
    const flow = flows[state.get("flow")];
    rates.show(`${state.get("flow")},${state.get("trained")}`);
    timeSlider.show(step, (step / nSteps).toFixed(2));
    drawLattices(lattices, run.states[step], side);
    const exact = flow.energy;
    // All runs of this setting that have come as far; while one run after the other is
    // made, the runs before.
    const done = (k) => [...run.all.values()].filter((one) => one.energies.length > k);
    const at = drawing && done(state.get("step")).length ? state.get("step") : step;
    const all = done(at).flatMap((one) => one.energies[at]);
    const average = mean(all);
    const spread = Math.sqrt(mean(all.map((e) => (e - average) ** 2)) / (all.length - 1));
    drawEnergies(energies, run.energies, exact, step, lowest, at, [average, spread]);
    // The trapezoid's integral of xi: log-weights, and what they say.
    const logs = done(at).flatMap(({ xi }) => xi[0].map((_, c) => {
      let sum = 0;
      for (let k = 0; k < at; k++) sum += (xi[k][c] + xi[k + 1][c]) / 2;
      return sum / nSteps;
    }));
    const top = Math.max(...logs);
    const w = logs.map((v) => Math.exp(v - top));
    const [one, two] = [w.reduce((a, b) => a + b), w.reduce((a, b) => a + b * b, 0)];
    const ess = (one * one) / two;
    const logZ = side * side * Math.log(2) + top + Math.log(one / logs.length);
    line.textContent = minus(`Mean energy of ${all.length} samples: `
      + `${average.toFixed(1)} ± ${spread.toFixed(1)}, exact ${exact[at].toFixed(1)}. `
      + (drawing ? `Drawing ${MOST * nChains} samples.`
        : `Their effective sample size is ${ess.toFixed(1)}, and log Z is `
        + `${logZ.toFixed(2)}, exact ${flow.log_partition[at].toFixed(2)}.`));
    lattices.setAttribute("aria-label", `Sixteen ${side} by ${side} lattices of spins`);
    energies.setAttribute("aria-label", line.textContent);
  }

  update();
  const { leave } = follow(state, ["flow", "trained", "seed", "step"], update);
  return () => {
    stopTime();
    clearTimeout(timer);
    leave();
  };
}

export default { render };
