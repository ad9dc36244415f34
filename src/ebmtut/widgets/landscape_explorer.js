// Sliders over stored landscapes. Every picture arrives in the model, as bytes: one
// byte a pixel, coloured here by a table that Python sends. Nothing is fetched.

import { asBytes, follow, frame } from "./frame.js";

function render({ model, el }) {
  const knobs = model.get("knobs");
  const size = model.get("n_pixels");
  const pixels = asBytes(model.get("pixels"));
  const colors = asBytes(model.get("colors"));
  const { change, slider, panel, note } = frame(model, el, "landscape-explorer");

  const sliders = knobs.map((knob, place) => slider(
    knob.name,
    { min: 0, max: knob.values.length - 1, disabled: knob.values.length < 2 },
    (value) => {
      const selected = [...model.get("selected")];
      selected[place] = value;
      change({ selected });
    }));
  const learned = panel("learned");
  const truth = panel("true density");
  const line = note();

  function draw(canvas, picture) {
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    for (let k = 0; k < size * size; k++) {
      const level = 3 * pixels[picture * size * size + k];
      image.data.set([...colors.subarray(level, level + 3), 255], 4 * k);
    }
    context.putImageData(image, 0, 0);
  }

  // Where there is no landscape, the canvas says why, and for which setting.
  function write(canvas, lines) {
    canvas.width = canvas.height = 6 * size;
    const context = canvas.getContext("2d");
    context.fillStyle = "#e4e4e7";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = "#1a1a1a";
    context.textAlign = "center";
    const step = canvas.height / (lines.length + 3);
    context.font = `${Math.round(0.55 * step)}px sans-serif`;
    lines.forEach((line, k) =>
      context.fillText(line, canvas.width / 2, (k + 2) * step, canvas.width));
  }

  function update() {
    const selected = model.get("selected");
    const setting = knobs.map((knob, k) => `${knob.name} = ${knob.values[selected[k]]}`);
    sliders.forEach(({ show }, k) => show(selected[k], knobs[k].values[selected[k]]));
    // Row-major order: the last knob runs fastest.
    const index = knobs.reduce((sum, knob, k) => sum * knob.values.length + selected[k], 0);
    const picture = model.get("shown")[index];
    const what = model.get("notes")[index];
    if (picture >= 0) draw(learned, picture);
    else write(learned, [what, ...setting]);
    line.textContent = picture >= 0 ? `gap to the entropy: ${what} nats` : what;
    learned.setAttribute(
      "aria-label", `Landscape learned with ${setting.join(", ")}: ${line.textContent}`);
  }

  draw(truth, 0);
  truth.setAttribute("aria-label", "The true density");
  update();
  return follow(model, ["selected"], update).leave;
}

export default { render };
