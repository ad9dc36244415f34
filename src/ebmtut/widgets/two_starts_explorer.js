// Four coupled spins, perturbed and solved: the law of the number of ones by messages
// from two starts, beside the best states and the law that is wanted.

import {
  byOnes, divergence, exactByOnes, fourSpins, magnetisation, mirroredNoise, optima,
  sweepPath,
} from "./four_spins.js";
import { blank, follow, frame, INK, SIZE } from "./frame.js";

const WANTED = 0.5; // the coupling of the law that the draws should have
const MOST_SWEEPS = 20;
const N_PAIRS = 500;
const TOP = 0.5; // of both scales of probability
const STARTS = [
  { key: "zero", name: "N = 0", color: "#0072b2", shape: "square" },
  { key: "symmetric", name: "N = W/2", color: "#d55e00", shape: "circle" },
];
const BOX = { left: 70, right: SIZE[0] - 20, top: 30, bottom: SIZE[1] - 60 };
const across = (share) => BOX.left + share * (BOX.right - BOX.left);
const up = (share) => BOX.bottom - share * (BOX.bottom - BOX.top);

function mark(context, shape, x, y, size) {
  context.beginPath();
  if (shape === "circle") context.arc(x, y, size, 0, 2 * Math.PI);
  else context.rect(x - size, y - size, 2 * size, 2 * size);
  context.fill();
}

function ticks(context, values, place, words) {
  context.fillStyle = INK;
  context.textAlign = "right";
  for (const value of values) {
    context.fillText(words(value), BOX.left - 10, place(value));
    context.fillRect(BOX.left - 6, place(value) - 1, 6, 2);
  }
  context.textAlign = "center";
  context.fillRect(BOX.left, BOX.top, 2, BOX.bottom - BOX.top);
}

function render({ model: state, el }) {
  const { change, slider, player, panel, note } = frame(state, el, "two-starts-explorer");
  const noise = mirroredNoise(N_PAIRS);
  const wanted = exactByOnes(WANTED);
  let known = null; // all that depends on theta alone

  const thetaSlider = slider("coupling θ", { min: 0, max: 1, step: 0.01 }, (theta) =>
    change({ theta }));
  const sweepSlider = slider("sweeps", { min: 0, max: MOST_SWEEPS, step: 1 }, (n) =>
    change({ n_sweeps: n }));
  const stop = player("pass messages", "n_sweeps", 0, MOST_SWEEPS, 250);
  const bars = panel("probability of 0 to 4 ones: wanted grey, best states black, messages "
    + "from N = 0 blue squares, from N = W/2 orange discs");
  const lines = panel("magnetisation over sweeps: blue squares lean to off, orange discs do "
    + "not");
  const line = note();

  function solve(theta) {
    if (known && known.theta === theta) return known;
    const perturbed = fourSpins(theta);
    const laws = STARTS.map(({ key }) =>
      sweepPath(perturbed, noise, MOST_SWEEPS, key).map(byOnes));
    known = { theta, laws, best: byOnes(optima(perturbed, noise)) };
    return known;
  }

  function drawBars(best, now) {
    const context = blank(bars);
    const top = Math.max(TOP, ...best, ...now.flat());
    const width = (BOX.right - BOX.left) / 5;
    ticks(context, [0, 0.2, 0.4], (p) => up(p / top), (p) => p.toFixed(1));
    for (let k = 0; k < 5; k++) {
      const middle = BOX.left + (k + 0.5) * width;
      context.fillStyle = "#c4c4c4";
      context.fillRect(middle - 0.42 * width, up(wanted[k] / top), 0.84 * width,
        BOX.bottom - up(wanted[k] / top));
      context.fillStyle = INK;
      context.fillRect(middle - 0.42 * width, up(best[k] / top) - 2, 0.84 * width, 5);
      STARTS.forEach(({ color, shape }, s) => {
        context.fillStyle = color;
        mark(context, shape, middle + (s ? 0.18 : -0.18) * width, up(now[s][k] / top), 9);
      });
      context.fillStyle = INK;
      context.fillText(k, middle, BOX.bottom + 22);
    }
    context.fillText("ones among the four", across(0.5), BOX.bottom + 46);
    context.fillRect(BOX.left, BOX.bottom, BOX.right - BOX.left, 2);
  }

  function drawLines(laws, sweeps) {
    const context = blank(lines);
    const place = (m) => up((m + 1) / 1.25);
    ticks(context, [-1, -0.5, 0], place, (m) => m.toFixed(1).replace("-", "−"));
    context.fillStyle = "#c4c4c4";
    context.fillRect(across(sweeps / MOST_SWEEPS) - 2, BOX.top, 4, BOX.bottom - BOX.top);
    context.fillRect(BOX.left, place(0) - 1, BOX.right - BOX.left, 2);
    laws.forEach((path, s) => {
      const { color, shape } = STARTS[s];
      context.strokeStyle = context.fillStyle = color;
      context.lineWidth = 3;
      context.beginPath();
      path.forEach((law, t) =>
        context.lineTo(across(t / MOST_SWEEPS), place(magnetisation(law))));
      context.stroke();
      path.forEach((law, t) => {
        const size = t === sweeps ? 10 : 5;
        mark(context, shape, across(t / MOST_SWEEPS), place(magnetisation(law)), size);
      });
    });
    context.fillStyle = INK;
    for (let t = 0; t <= MOST_SWEEPS; t += 5)
      context.fillText(t, across(t / MOST_SWEEPS), BOX.bottom + 22);
    context.fillText("sweeps", across(0.5), BOX.bottom + 46);
  }

  function update() {
    const [theta, sweeps] = [state.get("theta"), state.get("n_sweeps")];
    thetaSlider.show(theta, theta.toFixed(2));
    sweepSlider.show(sweeps, String(sweeps));
    const { laws, best } = solve(theta);
    const now = laws.map((path) => path[sweeps]);
    drawBars(best, now);
    drawLines(laws, sweeps);
    const nats = [best, ...now].map((law) => divergence(wanted, law).toFixed(4));
    const lean = magnetisation(now[0]).toFixed(2).replace("-", "−");
    line.textContent = `KL divergence from the law that is wanted (θ = ${WANTED}), of the `
      + `number of ones: best states ${nats[0]}, from N = 0 ${nats[1]}, from N = W/2 `
      + `${nats[2]} nats. From N = 0 the mean spin is ${lean}.`;
    bars.setAttribute("aria-label", line.textContent);
    lines.setAttribute("aria-label", "Mean spin over sweeps, from N = 0 below zero and "
      + "from N = W/2 at zero");
  }

  const { leave } = follow(state, ["theta", "n_sweeps"], update);
  update();
  return () => {
    stop();
    leave();
  };
}

export default { render };
