// Four coupled spins, perturbed and solved: the distribution of the number of ones by
// enumeration or by messages, beside the target.

import {
  byOnes, divergence, exactByOnes, fourSpins, mirroredNoise, optima, sweepPath,
} from "./four_spins.js";
import { blank, follow, frame, INK, make, SIZE } from "./frame.js";

const TARGET = 0.5; // the coupling of the Boltzmann distribution that is wanted
const N_SWEEPS = 20;
const N_PAIRS = 5000;
const TOP = 0.75; // of the scale, whatever the coupling
const SEARCHES = {
  enumeration: { name: "enumeration", color: INK },
  zero: { name: "messages from 0", color: "#0072b2" },
  symmetric: { name: "messages from W/2", color: "#d55e00" },
};
const BOX = { left: 70, right: SIZE[0] - 20, top: 20, bottom: SIZE[1] - 60 };
const up = (p) => BOX.bottom - (Math.min(p, TOP) / TOP) * (BOX.bottom - BOX.top);

function dot(context, x, y) {
  context.beginPath();
  context.arc(x, y, 13, 0, 2 * Math.PI);
  context.fill();
}

function drawBars(canvas, target, found, { theta, color }) {
  const context = blank(canvas);
  context.font = "24px sans-serif";
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
    context.fillStyle = color;
    dot(context, middle, up(found[k]));
    context.fillStyle = INK;
    context.fillText(k, middle, BOX.bottom + 22);
  }
  context.fillText("ones among the four bits", (BOX.left + BOX.right) / 2, BOX.bottom + 46);
  context.fillRect(BOX.left, BOX.bottom, BOX.right - BOX.left, 2);
  context.fillRect(BOX.left, BOX.top, 2, BOX.bottom - BOX.top);
  // The legend stands where the bars of 1 to 3 ones leave room.
  context.textAlign = "left";
  const [x, y] = [BOX.left + 1.15 * width, BOX.top + 40];
  context.fillStyle = "#c4c4c4";
  context.fillRect(x - 13, y - 13, 26, 26);
  context.fillStyle = color;
  dot(context, x, y + 44);
  context.fillStyle = INK;
  context.fillText("target: coupling 0.50", x + 26, y);
  context.fillText(`samples: coupling ${theta.toFixed(2)}`, x + 26, y + 44);
}

function render({ model: state, el }) {
  const { change, choice, slider, panel, note } = frame(state, el, "two-starts-explorer");
  const noise = mirroredNoise(N_PAIRS, 2);
  const target = exactByOnes(TARGET);

  const thetaSlider = slider("coupling θ", { min: 0, max: 1, step: 0.01 }, (theta) =>
    change({ theta }));
  const names = Object.entries(SEARCHES).map(([key, { name }]) => [key, name]);
  const searches = choice("search by", names, (search) => change({ search }));
  const line = note();
  // Controls and result stand together, beside the picture where there is room.
  const side = make("div", "ts-side", el);
  side.append(el.querySelector(".ex-controls"), el.querySelector(".ex-notes"));
  el.prepend(side);
  const count = (2 * N_PAIRS).toLocaleString("en");
  const bars = panel(`probability of 0 to 4 ones; ${count} samples`);

  function update() {
    const [theta, search] = [state.get("theta"), state.get("search")];
    thetaSlider.show(theta, theta.toFixed(2));
    searches.show(search);
    const perturbed = fourSpins(theta);
    const found = byOnes(search === "enumeration" ? optima(perturbed, noise)
      : sweepPath(perturbed, noise, N_SWEEPS, search)[N_SWEEPS]);
    drawBars(bars, target, found, { theta, color: SEARCHES[search].color });
    const nats = divergence(target, found).toFixed(3);
    line.textContent = `KL divergence from the target to the samples: ${nats} nats.`;
    bars.setAttribute("aria-label", line.textContent);
  }

  const { leave } = follow(state, ["theta", "search"], update);
  update();
  return leave;
}

export default { render };
