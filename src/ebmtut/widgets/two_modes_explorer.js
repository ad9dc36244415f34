// Two samplers in an energy with two modes, and the two terms of the likelihood's
// gradient, computed in the page itself. The data arrive in the model.

import { asFloats, blank, follow, frame, INK, minus, SIZE } from "./frame.js";
import { normal } from "./langevin_line.js";
import { gibbsSweep, langevinStep, means, onGrid, REACH } from "./two_modes.js";

const N_CHAINS = 200;
const CELLS = 80; // a side of the plane's picture
const SIDE = 480; // pixels of the plane's picture
const RATE = 0.05; // of a gradient step
const COLORS = { data: "#d55e00", chains: "#0072b2", exact: INK };
const RANGES = { sum: [-4.5, 4.5], product: [-0.5, 4.5] }; // axes of the means
const clip = (value, low, high) => Math.min(high, Math.max(low, value));

// The circle in the corner has the radius of a Langevin step.
function drawPlane(canvas, probabilities, data, chains, size) {
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext("2d");
  const top = probabilities.reduce((high, p) => Math.max(high, p), 0);
  const cell = SIDE / CELLS;
  probabilities.forEach((p, k) => {
    const shade = Math.round(255 - 95 * Math.sqrt(p / top));
    context.fillStyle = `rgb(${shade}, ${shade}, ${shade})`;
    context.fillRect((k % CELLS) * cell, SIDE - (Math.floor(k / CELLS) + 1) * cell,
      cell + 1, cell + 1);
  });
  const pixel = ([a, b]) =>
    [((a / REACH + 1) / 2) * SIDE, ((1 - b / REACH) / 2) * SIDE];
  context.fillStyle = COLORS.data;
  for (const x of data) {
    const [across, down] = pixel(x);
    context.fillRect(across - 5, down - 1, 10, 3);
    context.fillRect(across - 1, down - 5, 3, 10);
  }
  context.fillStyle = COLORS.chains;
  for (const x of chains) {
    context.beginPath();
    context.arc(...pixel(x), 4, 0, 2 * Math.PI);
    context.fill();
  }
  context.strokeStyle = COLORS.chains;
  context.lineWidth = 3;
  context.beginPath();
  context.arc(...pixel([0.86 * REACH, -0.86 * REACH]), (size / REACH / 2) * SIDE,
    0, 2 * Math.PI);
  context.stroke();
}

// One axis a parameter: a cross for the data, a disc for the chains, a line for the exact
// mean, and an arrow from the chains to the data, which a gradient step follows.
function drawTerms(canvas, found) {
  const context = blank(canvas);
  const [left, right] = [50, SIZE[0] - 50];
  [["sum", "tilt h: mean of x₁ + x₂", 0.32], ["product", "coupling J: mean of x₁ x₂", 0.78]]
    .forEach(([key, words, share]) => {
      const [low, high] = RANGES[key];
      const y = share * SIZE[1];
      const place = (value) =>
        left + ((clip(value, low, high) - low) / (high - low)) * (right - left);
      context.fillStyle = INK;
      context.textAlign = "left";
      context.font = "26px sans-serif";
      context.fillText(words, left, y - 90);
      context.textAlign = "center";
      context.fillRect(left, y + 44, right - left, 2);
      for (let tick = Math.ceil(low / 2) * 2; tick <= high; tick += 2) {
        context.fillRect(place(tick) - 1, y + 40, 2, 10);
        context.fillText(minus(tick), place(tick), y + 70);
      }
      const [data, chains, exact] =
        ["data", "chains", "exact"].map((name) => place(found[name][key]));
      context.fillRect(exact - 3, y - 50, 6, 88);
      context.strokeStyle = context.fillStyle = COLORS.chains;
      context.lineWidth = 5;
      context.beginPath();
      context.moveTo(chains, y);
      context.lineTo(data, y);
      context.stroke();
      context.beginPath();
      context.arc(chains, y, 13, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = COLORS.data;
      context.fillRect(data - 17, y - 4, 34, 8);
      context.fillRect(data - 4, y - 17, 8, 34);
    });
}

function render({ model: state, el }) {
  const { change, choice, slider, button, panel, note } =
    frame(state, el, "two-modes-explorer");
  const values = asFloats(state.get("data"));
  const data = Array.from({ length: values.length / 2 }, (_, k) =>
    [values[2 * k], values[2 * k + 1]]);
  const ofData = means(data);
  let chains = [];
  let made = 0;
  let timer = 0;
  let grid = null;

  const samplerChoice = choice("sampler",
    [["gibbs", "Gibbs sampling"], ["langevin", "Langevin dynamics"]],
    (sampler) => change({ sampler }));
  const couplingSlider = slider("coupling J", { min: 0, max: 4, step: 0.05 },
    (coupling) => change({ coupling }));
  const tiltSlider = slider("tilt h", { min: -0.5, max: 0.5, step: 0.01 },
    (tilt) => change({ tilt }));
  const sizeSlider = slider("step size δ", { min: 0.05, max: 0.4, step: 0.05 },
    (size) => change({ step_size: size }));
  const run = button("run the chains", () => (timer ? stop() : play()));
  button("put all chains into the lower mode", () => {
    restart();
    later();
  });
  button("gradient step", () => {
    const { sum, product } = means(chains);
    change({
      tilt: clip(state.get("tilt") + RATE * (ofData.sum - sum), -0.5, 0.5),
      coupling: clip(state.get("coupling") + RATE * (ofData.product - product), 0, 4),
    });
  });
  const plane = panel("the plane: density grey, data orange crosses, chains blue");
  const terms = panel("the two terms: data cross, chains disc, exact mean black line");
  plane.classList.add("tm-plane");
  const line = note();

  function restart() {
    const mode = -Math.sqrt(Math.max(0.5, state.get("coupling")));
    chains = Array.from({ length: N_CHAINS }, () =>
      [mode + 0.2 * normal(), mode + 0.2 * normal()]);
    made = 0;
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    run.textContent = "run the chains";
  }
  function play() {
    run.textContent = "stop";
    timer = setInterval(() => {
      const [sampler, coupling, tilt, size] =
        ["sampler", "coupling", "tilt", "step_size"].map((key) => state.get(key));
      chains = chains.map((x) => (sampler === "gibbs"
        ? gibbsSweep(x, coupling, tilt, [Math.random(), Math.random()])
        : langevinStep(x, coupling, tilt, size, [normal(), normal()])));
      made += 1;
      draw();
    }, 50);
  }

  function draw() {
    const [coupling, tilt] = [state.get("coupling"), state.get("tilt")];
    samplerChoice.show(state.get("sampler"));
    couplingSlider.show(coupling, coupling.toFixed(2));
    tiltSlider.show(tilt, tilt.toFixed(2));
    sizeSlider.show(state.get("step_size"), state.get("step_size").toFixed(2));
    if (!grid || grid.coupling !== coupling || grid.tilt !== tilt)
      grid = { coupling, tilt, ...onGrid(coupling, tilt, CELLS) };
    const found = { data: ofData, chains: means(chains), exact: grid };
    drawPlane(plane, grid.probabilities, data, chains, state.get("step_size"));
    drawTerms(terms, found);
    const signed = (value) => minus((value > 0 ? "+" : "") + value.toFixed(2));
    const slope = (name) => signed(found[name].sum - ofData.sum);
    const words = `Gradient for the tilt after ${made} steps: by the chains `
      + `${slope("chains")}, exact ${slope("exact")}.`;
    line.textContent = words;
    const upper = chains.filter(([a, b]) => a + b > 0).length / N_CHAINS;
    plane.setAttribute("aria-label", `Density with chains, ${(100 * upper).toFixed(0)} % of `
      + "them in the upper mode");
    terms.setAttribute("aria-label", ["data", "chains", "exact"].map((name) =>
      `${name}: mean of x1 + x2 ${signed(found[name].sum)}, of x1 x2 `
      + signed(found[name].product)).join("; "));
  }

  restart();
  draw();
  const keys = ["sampler", "coupling", "tilt", "step_size"];
  const { later, leave } = follow(state, keys, draw);
  return () => {
    stop();
    leave();
  };
}

export default { render };
