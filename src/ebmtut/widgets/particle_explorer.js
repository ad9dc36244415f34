// The learned laws of all noise levels, and Langevin particles that a reader pours into
// one of them, in the page itself.

import { asFloats, follow, frame, pointed } from "./frame.js";
import { normal } from "./langevin_line.js";
import { probabilities, stepPlane, surface } from "./langevin_plane.js";

const MOST = 1500; // particles at once
const MOST_STEPS = 200;
const A_POUR = 12; // at each place of a stroke
const SIDE = 480; // pixels of a picture, shown at half of it or more

// A law as a square of shades, from white to blue.
function shade(canvas, law, n) {
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext("2d");
  const top = law.reduce((high, value) => Math.max(high, value), 0);
  const small = document.createElement("canvas");
  small.width = small.height = n;
  const ink = small.getContext("2d");
  const image = ink.createImageData(n, n);
  law.forEach((value, k) => {
    const share = Math.sqrt(value / top);
    const place = 4 * ((n - 1 - Math.floor(k / n)) * n + (k % n));
    [0, 114, 178].forEach((color, c) => {
      image.data[place + c] = Math.round(255 + share * 0.7 * (color - 255));
    });
    image.data[place + 3] = 255;
  });
  ink.putImageData(image, 0, 0);
  context.drawImage(small, 0, 0, SIDE, SIDE);
  return context;
}

function render({ model: state, el }) {
  const { change, choice, slider, button, panel, note } =
    frame(state, el, "particle-explorer");
  const [n, extent, sigmas] = ["n_cells", "extent", "sigmas"].map((k) => state.get(k));
  const values = asFloats(state.get("energies"));
  const levels = sigmas.map((_, t) =>
    surface(values.subarray(t * n * n, (t + 1) * n * n), n, extent));
  const white = ([x, y]) => ({ energy: (x * x + y * y) / 2, slope: [x, y] });
  levels.push(white);
  const pixel = ([x, y]) =>
    [((x / extent + 1) / 2) * SIDE, ((1 - y / extent) / 2) * SIDE];
  const place = (canvas, event) => {
    const [across, down] = pointed(canvas, event).map((share) =>
      extent * (2 * Math.min(1, Math.max(0, share)) - 1));
    return [across, -down];
  };

  let particles = [];
  let made = 0;
  let timer = 0;
  let last = null; // where the stroke was
  let law = [];

  const lawChoice = choice("particles run in", [
    ["conditional", "the law given the cross"], ["marginal", "the law of the level"],
  ], (chosen) => change({ law: chosen }));
  const levelSlider = slider("level t", { min: 0, max: sigmas.length - 1, step: 1 },
    (level) => change({ level }));
  const sizeSlider = slider("step size", { min: 0.02, max: 1, step: 0.02 },
    (size) => change({ step_size: size }));
  const countSlider = slider("steps K", { min: 1, max: MOST_STEPS, step: 1 },
    (count) => change({ n_steps: count }));
  const run = button("run K steps", () => (timer ? stop() : play()));
  button("pour 500 as training starts them", fill);
  button("remove all", () => {
    particles = [];
    made = 0;
    later();
  });
  const below = panel("level t: pour particles by dragging");
  const above = panel("level t + 1: click to move the cross");
  const line = note();
  below.classList.add("pa-pour");
  above.classList.add("pa-seen");

  const sigmaNow = () => (state.get("law") === "marginal" ? 1 : sigmas[state.get("level")]);

  function pour([x, y]) {
    for (let k = 0; k < A_POUR && particles.length < MOST; k++)
      particles.push([x + 0.06 * normal(), y + 0.06 * normal()]);
    made = 0;
    later();
  }
  // Starts as the package draws them, around what is seen, or white noise.
  function fill() {
    const sigma = sigmaNow();
    const a = Math.sqrt(Math.max(0, 1 - sigma * sigma));
    particles = Array.from({ length: 500 }, () =>
      state.get("seen").map((value) => a * value + sigma * normal()));
    made = 0;
    later();
  }
  below.addEventListener("pointerdown", (event) => {
    below.setPointerCapture(event.pointerId);
    last = place(below, event);
    pour(last);
  });
  below.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = place(below, event);
    const far = Math.hypot(next[0] - last[0], next[1] - last[1]);
    const parts = Math.ceil(far / (0.06 * extent));
    for (let k = 1; k <= parts; k++)
      pour(last.map((value, c) => value + (k / parts) * (next[c] - value)));
    if (parts) last = next;
  });
  for (const name of ["pointerup", "pointercancel"])
    below.addEventListener(name, () => (last = null));
  above.addEventListener("pointerdown", (event) => change({ seen: place(above, event) }));

  function stop() {
    clearInterval(timer);
    timer = 0;
    run.textContent = "run K steps";
  }
  function play() {
    run.textContent = "stop";
    made = 0;
    timer = setInterval(() => {
      if (made >= state.get("n_steps")) return stop();
      const level = levels[state.get("level")];
      const [seen, size, sigma] = [state.get("seen"), state.get("step_size"), sigmaNow()];
      particles = particles.map((x) =>
        stepPlane(level, x, seen, sigma, size, [normal(), normal()]));
      made += 1;
      later();
    }, 40);
  }

  function weigh() {
    const level = levels[state.get("level")];
    law = probabilities(level, n, extent, state.get("seen"), sigmaNow());
  }

  function draw() {
    const { level, step_size: size, n_steps: count, seen, law: chosen } =
      Object.fromEntries(["level", "step_size", "n_steps", "seen", "law"].map((key) =>
        [key, state.get(key)]));
    lawChoice.show(chosen);
    levelSlider.show(level, level);
    sizeSlider.show(size, size.toFixed(2));
    countSlider.show(count, count);
    let context = shade(below, law, n);
    context.fillStyle = "#000000";
    let lost = 0;
    for (const x of particles) {
      const [across, down] = pixel(x);
      if (Math.max(Math.abs(x[0]), Math.abs(x[1])) > extent) lost += 1;
      else context.fillRect(across - 2, down - 2, 4, 4);
    }
    // A step's noise, to scale; below it, how many of the K steps are made.
    context.fillStyle = "#000000";
    context.fillRect(8, SIDE - 26, (size / (2 * extent)) * SIDE, 6);
    context.fillStyle = "#999999";
    context.fillRect(8, SIDE - 14, (count / MOST_STEPS) * (SIDE - 16), 6);
    context.fillStyle = "#d55e00";
    context.fillRect(8, SIDE - 14, (made / MOST_STEPS) * (SIDE - 16), 6);
    context = shade(above, probabilities(levels[level + 1], n, extent, [0, 0], 1), n);
    const [across, down] = pixel(seen);
    context.fillStyle = "#d55e00";
    context.fillRect(across - 14, down - 3, 28, 6);
    context.fillRect(across - 3, down - 14, 6, 28);

    const right = law.reduce((sum, p, k) => sum + ((k % n) + 0.5 > n / 2 ? p : 0), 0);
    const share = particles.filter((x) => x[0] > 0).length / Math.max(1, particles.length);
    line.textContent = particles.length
      ? `${particles.length} particles after ${made} steps: ${(100 * share).toFixed(0)} % `
        + `in the right half, where the law has ${(100 * right).toFixed(0)} %.`
        + (lost ? ` ${lost} have left the picture.` : "")
      : "No particles yet: drag over the left picture.";
    below.setAttribute("aria-label", `Law of level ${level} with particles. `
      + line.textContent);
    above.setAttribute("aria-label", `Law of level ${level + 1}, with a cross at `
      + seen.map((value) => value.toFixed(1)).join(", "));
  }

  const { later, leave } = follow(state, ["level", "step_size", "n_steps", "seen", "law"],
    () => {
      weigh();
      draw();
    });
  weigh();
  draw();
  return () => {
    stop();
    leave();
  };
}

export default { render };
