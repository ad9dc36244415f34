// What is left of two far modes once a noisy copy of x is seen: the marginal and the
// conditional law on a line, with chains that try to sample either, in the page itself.

import { blank, follow, frame, INK, minus, pointed, SIZE } from "./frame.js";
import { conditional, mixture, MODES, normal, step } from "./langevin_line.js";

const REACH = 4; // the line goes from -REACH to REACH
const N_CHAINS = 150;
const COLORS = { marginal: "#999999", conditional: "#0072b2", seen: "#d55e00" };
const CELLS = 160;
const BINS = 40;
const at = (k, n) => REACH * ((2 * (k + 0.5)) / n - 1);
const x2pixel = (x) => ((x / REACH + 1) / 2) * SIZE[0];

// The law of an energy on the cells of the line, as a density.
function density(energy) {
  const values = Array.from({ length: CELLS }, (_, k) => energy(at(k, CELLS)));
  const least = Math.min(...values);
  const raw = values.map((value) => Math.exp(least - value));
  const cell = (2 * REACH) / CELLS;
  const total = raw.reduce((sum, value) => sum + value, 0) * cell;
  return raw.map((value) => value / total);
}

function curve(context, values, top, color, dashed) {
  context.strokeStyle = color;
  context.lineWidth = 4;
  context.setLineDash(dashed ? [10, 8] : []);
  context.beginPath();
  values.forEach((value, k) =>
    context.lineTo(x2pixel(at(k, CELLS)), SIZE[1] - 40 - (value / top) * (SIZE[1] - 80)));
  context.stroke();
  context.setLineDash([]);
}

function axis(context) {
  context.fillStyle = INK;
  context.fillRect(0, SIZE[1] - 40, SIZE[0], 2);
  for (let x = -3; x <= 3; x++) context.fillText(minus(`${x}`), x2pixel(x), SIZE[1] - 18);
}

function render({ model: state, el }) {
  const { change, choice, slider, button, panel, note } =
    frame(state, el, "recovery-explorer");
  let chains = [];
  let made = 0; // steps since the chains were poured
  let timer = 0;

  const lawChoice = choice("chains run in", [["conditional", "the conditional law"],
    ["marginal", "the marginal law"]], (law) => {
    change({ law });
    pour(0);
  });
  const sigmaSlider = slider("noise σ", { min: 0.1, max: 0.98, step: 0.02 }, (sigma) => {
    change({ sigma });
    pour(0);
  });
  const seenSlider = slider("seen x̃", { min: -2.5, max: 2.5, step: 0.05 }, (seen) => {
    change({ seen });
    pour(0);
  });
  const stepSlider = slider("step size", { min: 0.05, max: 0.8, step: 0.05 }, (size) =>
    change({ step_size: size }));
  const run = button("run the chains", () => (timer ? stop() : play()));
  button("pour again", () => pour(0));

  const laws = panel("marginal grey, conditional blue, x̃ / a orange");
  const cloud = panel("chains as bars, their law as a line, on top the noise of a step: "
    + "click to pour");
  cloud.classList.add("re-pour");
  cloud.addEventListener("pointerdown", (event) => {
    const [share] = pointed(cloud, event);
    pour(REACH * (2 * share - 1));
  });
  const line = note();

  const sigmaNow = () => (state.get("law") === "marginal" ? 1 : state.get("sigma"));

  function pour(x) {
    chains = Array.from({ length: N_CHAINS }, () => x + 0.1 * normal());
    made = 0;
    later();
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    run.textContent = "run the chains";
  }
  function play() {
    run.textContent = "stop";
    timer = setInterval(() => {
      const [seen, size, sigma] = [state.get("seen"), state.get("step_size"), sigmaNow()];
      chains = chains.map((x) => step(x, seen, sigma, size, normal()));
      made += 1;
      update();
    }, 40);
  }

  function update() {
    const { law, sigma, seen, step_size: size } = Object.fromEntries(
      ["law", "sigma", "seen", "step_size"].map((key) => [key, state.get(key)]));
    lawChoice.show(law);
    sigmaSlider.show(sigma, sigma.toFixed(2));
    seenSlider.show(seen, seen.toFixed(2));
    stepSlider.show(size, size.toFixed(2));
    const marginal = density((x) => -mixture(x).log);
    const given = density((x) => conditional(x, seen, sigma).energy);
    const top = 1.05 * Math.max(...marginal, ...given);
    let context = blank(laws);
    axis(context);
    curve(context, marginal, top, COLORS.marginal, false);
    curve(context, given, top, COLORS.conditional, false);
    const center = seen / Math.sqrt(1 - sigma * sigma);
    context.fillStyle = COLORS.seen;
    context.fillRect(x2pixel(center) - 2, 40, 4, SIZE[1] - 80);

    const target = law === "marginal" ? marginal : given;
    context = blank(cloud);
    const counts = new Array(BINS).fill(0);
    let lost = 0;
    for (const x of chains) {
      const bin = Math.floor(((x / REACH + 1) / 2) * BINS);
      if (bin >= 0 && bin < BINS) counts[bin] += 1;
      else lost += 1;
    }
    const unit = N_CHAINS * ((2 * REACH) / BINS);
    const high = 1.05 * Math.max(...target, ...counts.map((count) => count / unit));
    context.fillStyle = COLORS[law];
    context.globalAlpha = 0.5;
    counts.forEach((count, k) => {
      const height = (count / unit / high) * (SIZE[1] - 80);
      context.fillRect((k * SIZE[0]) / BINS + 1, SIZE[1] - 40 - height,
        SIZE[0] / BINS - 2, height);
    });
    context.globalAlpha = 1;
    axis(context);
    curve(context, target, high, INK, true);
    context.fillRect(20, 20, x2pixel(size) - x2pixel(0), 6);

    const cell = (2 * REACH) / CELLS;
    const right = target.reduce((sum, value, k) =>
      sum + (at(k, CELLS) > 0 ? value : 0), 0) * cell;
    const share = chains.filter((x) => x > 0).length / N_CHAINS;
    line.textContent = `After ${made} steps ${(100 * share).toFixed(0)} % of the chains are `
      + `right of 0; the law has ${(100 * right).toFixed(0)} % there.`
      + (lost ? ` ${lost} chains have left the picture.` : "");
    laws.setAttribute("aria-label", `Marginal law of two modes at ${MODES[0][1]} and `
      + `${MODES[1][1]}, conditional law for noise ${sigma.toFixed(2)}`);
    cloud.setAttribute("aria-label", line.textContent);
  }

  const keys = ["law", "sigma", "seen", "step_size"];
  const { later, leave } = follow(state, keys, update);
  pour(0);
  update();
  return () => {
    stop();
    leave();
  };
}

export default { render };
