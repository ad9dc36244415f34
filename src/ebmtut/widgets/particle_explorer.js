// The learned energies of all noise levels in the plane, and Langevin particles in one of
// them, in the page itself.

import { INK, asFloats, follow, frame, minus, pointed } from "./frame.js";
import { normal } from "./langevin_line.js";
import { probabilities, stepPlane, surface } from "./langevin_plane.js";

const N_PARTICLES = 500;
const SIDE = 480; // pixels of a picture, shown at half of it or more
const STEPS = 30; // of a run
const MARGIN = 0.02; // beside a square still counts as on it

// A distribution as a square of shades, from white to blue.
function shade(canvas, masses, n) {
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext("2d");
  const top = masses.reduce((high, value) => Math.max(high, value), 0);
  const small = document.createElement("canvas");
  small.width = small.height = n;
  const ink = small.getContext("2d");
  const image = ink.createImageData(n, n);
  masses.forEach((value, k) => {
    const part = Math.sqrt(value / top);
    const place = 4 * ((n - 1 - Math.floor(k / n)) * n + (k % n));
    [0, 114, 178].forEach((color, c) => {
      image.data[place + c] = Math.round(255 + part * 0.7 * (color - 255));
    });
    image.data[place + 3] = 255;
  });
  ink.putImageData(image, 0, 0);
  context.drawImage(small, 0, 0, SIDE, SIDE);
  return context;
}

const percent = (part) => `${(100 * part).toFixed(0)} %`;

function render({ model: state, el }) {
  const { change, choice, slider, button, panel, note } =
    frame(state, el, "particle-explorer");
  const [n, extent, sigmas, squares] =
    ["n_cells", "extent", "sigmas", "squares"].map((key) => state.get(key));
  const values = asFloats(state.get("energies"));
  const stored = asFloats(state.get("samples"));
  const levels = sigmas.map((_, t) =>
    surface(values.subarray(t * n * n, (t + 1) * n * n), n, extent));
  levels.push(([x, y]) => ({ energy: (x * x + y * y) / 2, slope: [x, y] }));
  const pixel = ([x, y]) =>
    [((x / extent + 1) / 2) * SIDE, ((1 - y / extent) / 2) * SIDE];
  const center = (k) => [k % n, Math.floor(k / n)].map((i) =>
    extent * ((2 * (i + 0.5)) / n - 1));
  const squareOf = ([x, y]) =>
    squares.findIndex(([left, right, low, high]) =>
      x > left - MARGIN && x < right + MARGIN && y > low - MARGIN && y < high + MARGIN);
  const cells = Array.from({ length: n * n }, (_, k) => squareOf(center(k)));

  let particles = [];
  let made = 0;
  let timer = 0;
  let masses = [];

  const kind = choice("distribution", [
    ["marginal", "of level t"],
    ["conditional", "given the cross"],
  ], (chosen) => change({ distribution: chosen }));
  const levelSlider = slider("level t", { min: 0, max: sigmas.length - 1, step: 1 },
    (level) => change({ level }));
  const sizeSlider = slider("step size", { min: 0.01, max: 0.3, step: 0.01 },
    (size) => change({ step_size: size }));
  const run = button(`run ${STEPS} steps`, () => (timer ? stop() : play()));
  button("start from samples", () => start(fromSamples));
  button("start from noise", () => start(fromNoise));
  const line = note();
  const below = panel("level t, particles (circle: step size)");
  const above = panel("level t + 1: move the cross");
  // The result stands between the buttons and the pictures.
  below.closest(".ex-panels").before(line);

  const sigmaNow = () =>
    (state.get("distribution") === "marginal" ? 1 : sigmas[state.get("level")]);

  // Samples of level 0 that the training's own chains drew.
  function fromSamples() {
    return Array.from({ length: stored.length / 2 }, (_, k) =>
      [stored[2 * k], stored[2 * k + 1]]);
  }
  // As a chain begins: around the cross, or as white noise.
  function fromNoise() {
    const sigma = sigmaNow();
    const a = Math.sqrt(Math.max(0, 1 - sigma * sigma));
    return Array.from({ length: N_PARTICLES }, () =>
      state.get("seen").map((value) => a * value + sigma * normal()));
  }
  function start(from) {
    stop();
    particles = from();
    made = 0;
    later();
  }

  // Marks at whole numbers on the edges, where a step can be compared with them.
  function ticks(context) {
    context.fillStyle = INK;
    context.font = "24px sans-serif";
    for (let k = -Math.floor(extent); k <= extent; k += 1) {
      const [across, down] = pixel([k, k]);
      context.fillRect(across - 1, SIDE - 12, 2, 12);
      context.fillRect(0, down - 1, 12, 2);
      if (k % 2) continue;
      context.textAlign = "center";
      context.textBaseline = "bottom";
      context.fillText(minus(k), across, SIDE - 13);
      if (k < -extent + 1) continue; // the corner has one label
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(minus(k), 15, down);
    }
  }

  // The cross moves by a click, a tap or the arrow keys.
  above.tabIndex = 0;
  above.addEventListener("click", (event) => {
    const [across, down] = pointed(above, event).map((part) =>
      extent * (2 * Math.min(1, Math.max(0, part)) - 1));
    change({ seen: [across, -down] });
  });
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1],
    ArrowDown: [0, -1] };
  above.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move) return;
    event.preventDefault();
    change({ seen: state.get("seen").map((value, k) =>
      Math.min(extent, Math.max(-extent, value + 0.2 * move[k]))) });
  });

  function stop() {
    clearInterval(timer);
    timer = 0;
    run.textContent = `run ${STEPS} steps`;
  }
  function play() {
    run.textContent = "stop";
    let left = STEPS;
    timer = setInterval(() => {
      if (left === 0) return stop();
      const level = levels[state.get("level")];
      const [seen, size, sigma] = [state.get("seen"), state.get("step_size"), sigmaNow()];
      particles = particles.map((x) =>
        stepPlane(level, x, seen, sigma, size, [normal(), normal()]));
      left -= 1;
      made += 1;
      later();
    }, 40);
  }

  // Fractions in each square.
  function inSquares(places, weights) {
    const found = new Array(squares.length).fill(0);
    places.forEach((square, k) => {
      if (square >= 0) found[square] += weights ? weights[k] : 1 / places.length;
    });
    return found;
  }

  function draw() {
    const [level, size, seen, chosen] =
      ["level", "step_size", "seen", "distribution"].map((key) => state.get(key));
    kind.show(chosen);
    levelSlider.show(level, level);
    sizeSlider.show(size, size.toFixed(2));
    masses = probabilities(levels[level], n, extent, seen, sigmaNow());
    let context = shade(below, masses, n);
    context.fillStyle = "#000000";
    for (const x of particles) {
      const [across, down] = pixel(x);
      context.fillRect(across - 2, down - 2, 4, 4);
    }
    // The circle in the corner has the radius of a Langevin step.
    context.strokeStyle = "#d55e00";
    context.lineWidth = 3;
    context.beginPath();
    context.arc(...pixel([0.88 * extent, -0.88 * extent]), (size / extent / 2) * SIDE,
      0, 2 * Math.PI);
    context.stroke();
    ticks(context);
    const upper = probabilities(levels[level + 1], n, extent, [0, 0], 1);
    context = shade(above, upper, n);
    const [across, down] = pixel(seen);
    context.fillStyle = "#d55e00";
    context.fillRect(across - 14, down - 3, 28, 6);
    context.fillRect(across - 3, down - 14, 6, 28);
    ticks(context);

    const total = (found) => found.reduce((sum, part) => sum + part, 0);
    const energy = inSquares(cells, masses);
    const chains = inSquares(particles.map(squareOf));
    const beside = particles.filter((x) => squareOf(x) < 0);
    const outside = beside.filter((x) => x.some((value) => Math.abs(value) > extent));
    line.textContent = `After ${made} steps, ${percent(total(chains))} of `
      + `${particles.length} particles are on the board `
      + `(energy: ${percent(total(energy))}), and `
      + `${percent(Math.max(...chains))} in the fullest square `
      + `(energy: ${percent(Math.max(...energy))}). ${beside.length} particles are beside `
      + `the board, ${outside.length} of these outside the picture.`;
    below.setAttribute("aria-label", `Level ${level} with particles. ${line.textContent}`);
    above.setAttribute("aria-label", `Level ${level + 1}, with a cross at `
      + seen.map((value) => value.toFixed(1)).join(", ")
      + ". Arrow keys move the cross.");
  }

  const { later, leave } = follow(state,
    ["level", "step_size", "seen", "distribution"], draw);
  particles = fromSamples();
  draw();
  return () => {
    stop();
    leave();
  };
}

export default { render };
