// Four coupled spins, perturbed and solved: the distribution of the number of ones by
// messages from two initialisations, beside the MAP states and the target.

import {
  byOnes, divergence, exactByOnes, fourSpins, mirroredNoise, optima, sweepPath,
} from "./four_spins.js";
import { blank, follow, frame, INK, SIZE } from "./frame.js";

const TARGET = 0.5; // the coupling of the Boltzmann distribution that is wanted
const MOST_SWEEPS = 20;
const N_PAIRS = 2500;
const TOP = 0.75; // of the scale, whatever the coupling
const INITS = [
  { key: "zero", name: "messages from N = 0", color: "#0072b2", shape: "square" },
  { key: "symmetric", name: "messages from N = W/2", color: "#d55e00", shape: "circle" },
];
const BOX = { left: 70, right: SIZE[0] - 20, top: 20, bottom: SIZE[1] - 60 };
const up = (p) => BOX.bottom - (Math.min(p, TOP) / TOP) * (BOX.bottom - BOX.top);

function mark(context, shape, x, y, size) {
  context.beginPath();
  if (shape === "circle") context.arc(x, y, size, 0, 2 * Math.PI);
  else context.rect(x - size, y - size, 2 * size, 2 * size);
  context.fill();
}

function drawBars(canvas, target, best, now) {
  const context = blank(canvas);
  const width = (BOX.right - BOX.left) / 5;
  context.textAlign = "right";
  for (const p of [0, 0.2, 0.4, 0.6]) {
    context.fillText(p.toFixed(1), BOX.left - 10, up(p));
    context.fillRect(BOX.left - 6, up(p) - 1, 6, 2);
  }
  context.textAlign = "center";
  for (let k = 0; k < 5; k++) {
    const middle = BOX.left + (k + 0.5) * width;
    context.fillStyle = "#c4c4c4";
    context.fillRect(middle - 0.42 * width, up(target[k]), 0.84 * width,
      BOX.bottom - up(target[k]));
    context.fillStyle = INK;
    context.fillRect(middle - 0.42 * width, up(best[k]) - 2, 0.84 * width, 5);
    INITS.forEach(({ color, shape }, s) => {
      context.fillStyle = color;
      mark(context, shape, middle + (s ? 0.18 : -0.18) * width, up(now[s][k]), 9);
    });
    context.fillStyle = INK;
    context.fillText(k, middle, BOX.bottom + 22);
  }
  context.fillText("ones among the four bits", (BOX.left + BOX.right) / 2, BOX.bottom + 46);
  context.fillRect(BOX.left, BOX.bottom, BOX.right - BOX.left, 2);
  context.fillRect(BOX.left, BOX.top, 2, BOX.bottom - BOX.top);
  // The legend stands where the bars of 1 to 3 ones leave room.
  context.textAlign = "left";
  const entries = [
    ["Boltzmann, coupling 0.5", "#c4c4c4", "square"],
    ["MAP states, by enumeration", INK, "line"],
    ...INITS.map(({ name, color, shape }) => [name, color, shape]),
  ];
  entries.forEach(([name, color, shape], k) => {
    const [x, y] = [BOX.left + 1.2 * width, BOX.top + 20 + 30 * k];
    context.fillStyle = color;
    if (shape === "line") context.fillRect(x - 14, y - 2, 28, 5);
    else mark(context, shape, x, y, 9);
    context.fillStyle = INK;
    context.fillText(name, x + 24, y);
  });
}

function render({ model: state, el }) {
  const { change, slider, player, panel, note } = frame(state, el, "two-starts-explorer");
  const noise = mirroredNoise(N_PAIRS);
  const target = exactByOnes(TARGET);
  let known = null; // all that depends on theta alone

  const thetaSlider = slider("coupling θ", { min: 0, max: 1, step: 0.01 }, (theta) =>
    change({ theta }));
  const sweepSlider = slider("sweeps", { min: 0, max: MOST_SWEEPS, step: 1 }, (n) =>
    change({ n_sweeps: n }));
  const stop = player("play the sweeps", "n_sweeps", 0, MOST_SWEEPS, 250);
  const line = note();
  el.insertBefore(line, el.querySelector(".ex-panels"));
  const bars = panel(`probability of 0 to 4 ones; ${2 * N_PAIRS} samples for each mark`);

  function solve(theta) {
    if (known && known.theta === theta) return known;
    const perturbed = fourSpins(theta);
    const found = INITS.map(({ key }) =>
      sweepPath(perturbed, noise, MOST_SWEEPS, key).map(byOnes));
    known = { theta, found, best: byOnes(optima(perturbed, noise)) };
    return known;
  }

  function update() {
    const [theta, sweeps] = [state.get("theta"), state.get("n_sweeps")];
    thetaSlider.show(theta, theta.toFixed(2));
    sweepSlider.show(sweeps, String(sweeps));
    const { found, best } = solve(theta);
    const now = found.map((path) => path[sweeps]);
    drawBars(bars, target, best, now);
    const nats = [best, ...now].map((row) => divergence(target, row).toFixed(3));
    line.textContent = `KL divergence from the target in nats: ${nats[0]} for MAP states, `
      + `${nats[1]} for messages from N = 0, ${nats[2]} from N = W/2.`;
    bars.setAttribute("aria-label", line.textContent);
  }

  const { leave } = follow(state, ["theta", "n_sweeps"], update);
  update();
  return () => {
    stop();
    leave();
  };
}

export default { render };
