// One parameter, learned from short Langevin chains: it converges, or it runs away.
// Everything is computed in the page, from the same random numbers after each change.

import { blank, follow, frame, INK } from "./frame.js";
import { normal, seeded } from "./langevin_line.js";

const WIDE = [840, 420]; // as wide as the picture is shown: no word is stretched
const DELTA = 0.7; // step size
const N_STEPS = 20; // of a chain
const N_CHAINS = 200;
const UPDATES = 60;
const BOUND = 10; // of the clipped loss
const [LOW, HIGH] = [0.5, 1000]; // ends of the axis of theta
// Above it chains have a larger variance than the data, and every update raises theta.
export const UNSTABLE = (2 * (1 + Math.sqrt(1 - DELTA ** 2))) / DELTA ** 2;

// The curvature theta of the energy theta x^2 / 2 over the updates.
export function learned(first, rate, clipped) {
  const random = seeded(1);
  const path = [first];
  let theta = first;
  for (let k = 0; k < UPDATES && theta <= HIGH; k++) {
    let slope = 0;
    for (let i = 0; i < N_CHAINS; i++) {
      const x = normal(random);
      let z = normal(random);
      for (let step = 0; step < N_STEPS; step++)
        z += -0.5 * DELTA ** 2 * theta * z + DELTA * normal(random);
      const difference = (theta * (x * x - z * z)) / 2;
      // Beyond the bound the clipped loss lowers theta, on both sides.
      const far = clipped && Math.abs(difference) > BOUND;
      slope += (far ? BOUND : difference) / theta / N_CHAINS;
    }
    theta = Math.max(LOW, theta - rate * slope);
    path.push(theta);
  }
  return path;
}

function render({ model: state, el }) {
  const { change, choice, slider, panel, note } = frame(state, el, "collapse-explorer");
  const thetaSlider = slider("θ at first", { min: 0.5, max: 7.9, step: 0.1 },
    (theta) => change({ theta }));
  const rateSlider = slider("learning rate", { min: 0.1, max: 2, step: 0.1 },
    (rate) => change({ rate }));
  const loss = choice("loss", [["plain", "not clipped"], ["clipped", "clipped"]],
    (chosen) => change({ loss: chosen }));
  const line = note();
  const picture = panel("curvature θ (up, 1 to 1000) over the updates (across)");
  picture.closest(".ex-panels").before(line);

  const up = (theta) => {
    const part = Math.log(Math.min(theta, HIGH) / LOW) / Math.log(HIGH / LOW);
    return WIDE[1] - 40 - part * (WIDE[1] - 70);
  };
  const across = (k) => 60 + (k / UPDATES) * (WIDE[0] - 90);

  function draw() {
    const [theta, rate, chosen] = ["theta", "rate", "loss"].map((key) => state.get(key));
    thetaSlider.show(theta, theta.toFixed(1));
    rateSlider.show(rate, rate.toFixed(1));
    loss.show(chosen);
    const path = learned(theta, rate, chosen === "clipped");
    const context = blank(picture, WIDE);
    for (const value of [1, 10, 100, 1000]) {
      context.fillText(`${value}`, 27, up(value));
      context.fillRect(56, up(value), 7, 2);
    }
    context.fillText(`unclipped, θ grows above ${UNSTABLE.toFixed(1)}`, WIDE[0] - 190,
      up(UNSTABLE) - 18);
    for (const k of [0, 20, 40, 60]) context.fillText(`${k}`, across(k), WIDE[1] - 16);
    context.fillRect(60, WIDE[1] - 40, WIDE[0] - 90, 2);
    context.strokeStyle = "#999999";
    context.lineWidth = 3;
    context.setLineDash([6, 8]);
    context.beginPath();
    context.moveTo(across(0), up(UNSTABLE));
    context.lineTo(across(UPDATES), up(UNSTABLE));
    context.stroke();
    context.setLineDash([]);
    const last = path[path.length - 1];
    context.strokeStyle = last > HIGH ? "#d55e00" : "#0072b2";
    context.lineWidth = 5;
    context.beginPath();
    path.forEach((value, k) => context.lineTo(across(k), up(value)));
    context.stroke();
    context.fillStyle = INK;
    line.textContent = last > HIGH
      ? `Collapsed: θ passes ${HIGH} at update ${path.length - 1}.`
      : `After ${UPDATES} updates θ is ${last.toFixed(1)}.`;
    picture.setAttribute("aria-label", `Curvature over ${UPDATES} updates, from `
      + `${theta.toFixed(1)}. ${line.textContent}`);
  }

  const { leave } = follow(state, ["theta", "rate", "loss"], draw);
  draw();
  return leave;
}

export default { render };
