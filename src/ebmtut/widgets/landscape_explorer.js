// Sliders over stored landscapes. Every picture arrives in the model, as bytes: one
// byte a pixel, coloured here by a table that Python sends. Nothing is fetched.
// A live kernel that can learn says so, and a button asks it to.

import { asBytes, follow, frame } from "./frame.js";

const LEARN = "learn it here";

function render({ model, el }) {
  const choices = model.get("choices");
  const size = model.get("n_pixels");
  const pixels = asBytes(model.get("pixels"));
  const colors = asBytes(model.get("colors"));
  const { change, slider, button, panel, note } = frame(model, el, "landscape-explorer");

  const sliders = choices.map((choice, place) => slider(
    choice.name,
    { min: 0, max: choice.values.length - 1, disabled: choice.values.length < 2 },
    (value) => {
      const selected = [...model.get("selected")];
      selected[place] = value;
      change({ selected });
    }));
  const learn = button(LEARN, () => {
    learn.disabled = true; // until the kernel has answered
    model.send({ learn: chosen() });
  });
  learn.hidden = true;
  const learned = panel("learned");
  const own = panel("learned here");
  const truth = panel("true density");
  const line = note();

  // Row-major order: the last choice runs fastest.
  function chosen() {
    const selected = model.get("selected");
    return choices.reduce((sum, choice, k) => sum * choice.values.length + selected[k], 0);
  }

  function draw(canvas, picture) {
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    for (let k = 0; k < size * size; k++) {
      const level = 3 * picture[k];
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

  const stored = (k) => pixels.subarray(k * size * size, (k + 1) * size * size);

  // A picture where there is one, else the reason, in words.
  function show(canvas, picture, what, setting) {
    if (picture) draw(canvas, picture);
    else write(canvas, [what, ...setting]);
    const said = picture ? `${what} nats` : what;
    const gap = picture ? "gap " : "";
    canvas.setAttribute(
      "aria-label", `Landscape learned with ${setting.join(", ")}: ${gap}${said}`);
    return said;
  }

  function update() {
    const selected = model.get("selected");
    const setting = choices.map((choice, k) => `${choice.name} = ${choice.values[selected[k]]}`);
    sliders.forEach(({ show }, k) => show(selected[k], choices[k].values[selected[k]]));
    const picture = model.get("shown")[chosen()];
    const what = model.get("notes")[chosen()];
    const said = show(learned, picture >= 0 && stored(picture), what, setting);
    line.textContent = `KL to the data: ${said}`;
    const mine = model.get("own")[chosen()];
    own.parentElement.hidden = !mine;
    if (mine) {
      const picture = mine.pixels.byteLength > 0 && asBytes(mine.pixels);
      line.textContent += `; learned here: ${show(own, picture, mine.note, setting)}`;
    }
    const progress = model.get("progress");
    learn.disabled = progress !== null;
    learn.textContent =
      progress === null ? LEARN : `learning: ${Math.round(100 * progress)} %`;
  }

  draw(truth, stored(0));
  truth.setAttribute("aria-label", "The true density");
  update();
  const heard = (message) => (learn.hidden = !message.learns);
  model.on("msg:custom", heard);
  model.send({ learns: null }); // a static page sends it to nobody
  const { leave } = follow(model, ["selected", "own", "progress"], update);
  return () => {
    model.off("msg:custom", heard);
    leave();
  };
}

export default { render };
