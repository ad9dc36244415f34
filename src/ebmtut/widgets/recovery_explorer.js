// Two distant modes, what a noisy copy leaves of them, and Langevin chains from a point
// that the reader chooses. Everything is computed in the page, from the same random numbers after
// each change, so that the picture depends on the sliders alone.

import { blank, follow, frame, INK, minus } from "./frame.js";
import { conditional, mixture, normal, seeded, step } from "./langevin_line.js";

const WIDE = [840, 420]; // as wide as the picture is shown: no word is stretched
const REACH = 4; // the axis goes from -REACH to REACH
const N_CHAINS = 300;
const STEP_SIZE = 0.2;
const CELLS = 320;
const BINS = 50;
const FLOOR = WIDE[1] - 56; // pixels
export const TOP = 2.1; // density at the upper edge, above the highest curve: the axis stays
const KEYS = ["sigma", "seen", "start", "n_steps"];
const COLORS = { data: "#b0b0b0", chains: "#0072b2", copy: "#d55e00" };
const at = (k) => REACH * ((2 * (k + 0.5)) / CELLS - 1);
const across = (x) => ((x / REACH + 1) / 2) * WIDE[0];
const up = (density) => FLOOR - (Math.min(density, TOP) / TOP) * (FLOOR - 30);

// The density of an energy, at the cells of the axis.
function density(energy) {
  const values = Array.from({ length: CELLS }, (_, k) => energy(at(k)));
  const least = Math.min(...values);
  const raw = values.map((value) => Math.exp(least - value));
  const total = raw.reduce((sum, value) => sum + value, 0) * ((2 * REACH) / CELLS);
  return raw.map((value) => value / total);
}

// Values of the density on the left, of x below.
function axes(context) {
  context.fillStyle = INK;
  context.fillRect(0, FLOOR, WIDE[0], 2);
  for (let x = -3; x <= 3; x++)
    context.fillText(minus(`${x}`), across(x), WIDE[1] - 17);
  for (let density = 0.5; density <= 2; density += 0.5) {
    context.fillRect(0, up(density), 10, 2);
    context.fillText(density.toFixed(1), 32, up(density));
  }
}

// What should be sampled, given the copy.
export const given = (copy, sigma) =>
  density((x) => conditional(x, copy, sigma).energy);

function curve(context, values, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.beginPath();
  values.forEach((value, k) => context.lineTo(across(at(k)), up(value)));
  context.stroke();
}

// Where chains end that all begin at one point.
export function chains(start, copy, sigma, count) {
  const random = seeded(1);
  const ends = new Array(N_CHAINS).fill(start);
  for (let k = 0; k < count; k++)
    for (let i = 0; i < N_CHAINS; i++)
      ends[i] = step(ends[i], copy, sigma, STEP_SIZE, normal(random));
  return ends;
}

function render({ model: state, el }) {
  const { change, slider, panel, note } = frame(state, el, "recovery-explorer");
  const sigmaSlider = slider("noise σ", { min: 0.25, max: 0.98, step: 0.01 },
    (sigma) => change({ sigma }));
  const copySlider = slider("noisy copy", { min: -2.5, max: 2.5, step: 0.1 },
    (copy) => change({ seen: copy }));
  const startSlider = slider("chains start at", { min: -2.5, max: 2.5, step: 0.1 },
    (start) => change({ start }));
  const countSlider = slider("steps", { min: 10, max: 600, step: 10 },
    (count) => change({ n_steps: count }));
  const picture = panel("grey: data; black: given the copy; blue: chains from ▲");
  const line = note();

  function draw() {
    const [sigma, copy, start, count] = KEYS.map((key) => state.get(key));
    sigmaSlider.show(sigma, sigma.toFixed(2));
    copySlider.show(copy, copy.toFixed(1));
    startSlider.show(start, start.toFixed(1));
    countSlider.show(count, count);
    const exact = given(copy, sigma);
    const ends = chains(start, copy, sigma, count);

    const context = blank(picture, WIDE);
    const counts = new Array(BINS).fill(0);
    for (const x of ends) {
      const bin = Math.floor(((x / REACH + 1) / 2) * BINS);
      if (bin >= 0 && bin < BINS) counts[bin] += 1;
    }
    const unit = N_CHAINS * ((2 * REACH) / BINS);
    context.fillStyle = COLORS.chains;
    context.globalAlpha = 0.45;
    counts.forEach((n, k) => context.fillRect((k * WIDE[0]) / BINS + 1, up(n / unit),
      WIDE[0] / BINS - 2, FLOOR - up(n / unit)));
    context.globalAlpha = 1;
    curve(context, density((x) => -mixture(x).log), COLORS.data, 6);
    curve(context, exact, INK, 4);
    context.strokeStyle = COLORS.copy;
    context.lineWidth = 4;
    context.setLineDash([12, 10]);
    context.beginPath();
    context.moveTo(across(copy), 30);
    context.lineTo(across(copy), FLOOR);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = COLORS.chains;
    context.beginPath(); // a triangle under the initial point
    for (const [dx, dy] of [[0, 2], [-11, 21], [11, 21]])
      context.lineTo(across(start) + dx, FLOOR + dy);
    context.fill();
    axes(context);

    const cell = (2 * REACH) / CELLS;
    const right = exact.reduce((sum, p, k) => sum + (at(k) > 0 ? p * cell : 0), 0);
    const found = ends.filter((x) => x > 0).length / N_CHAINS;
    line.textContent = `Right of zero: chains ${found.toFixed(2)}, exact `
      + `${right.toFixed(2)}.`;
    picture.setAttribute("aria-label", "Densities of two modes, of what is left of them "
      + `given a noisy copy at ${copy.toFixed(1)}, and chains from ${start.toFixed(1)}. ${line.textContent}`);
  }

  const { leave } = follow(state, KEYS, draw);
  draw();
  return leave;
}

export default { render };
