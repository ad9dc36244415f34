// Sliders over stored landscapes. Every picture arrives in the model, as bytes: one
// byte a pixel, coloured here by a table that Python sends. Nothing is fetched.

const asBytes = (view) =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

function make(tag, className, parent, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

function render({ model, el }) {
  const knobs = model.get("knobs");
  const size = model.get("n_pixels");
  const pixels = asBytes(model.get("pixels"));
  const colors = asBytes(model.get("colors"));

  // Some pages tell drawn widgets by this class, which anywidget does not set.
  el.classList.add("jupyter-widgets", "landscape-explorer");

  // One labelled range input a knob: the browser brings mouse, touch and keyboard.
  const sliders = make("div", "le-sliders", el);
  const inputs = knobs.map((knob, place) => {
    const row = make("div", "le-row", sliders);
    const label = make("label", "le-label", row);
    make("span", "le-name", label, knob.name);
    const input = make("input", "le-range", label);
    Object.assign(input, { type: "range", min: 0, max: knob.values.length - 1 });
    input.disabled = knob.values.length < 2;
    const value = make("output", "le-value", row);
    input.addEventListener("input", () => {
      const selected = [...model.get("selected")];
      selected[place] = Number(input.value);
      model.set("selected", selected);
      model.save_changes(); // a live kernel hears of it, a static page has none
    });
    return { input, value };
  });

  const panels = make("div", "le-panels", el);
  const panel = (title) => {
    const column = make("div", "le-panel", panels);
    make("div", "le-title", column, title);
    const canvas = make("canvas", "le-canvas", column);
    canvas.setAttribute("role", "img");
    return canvas;
  };
  const learned = panel("learned");
  const truth = panel("true density");
  const note = make("p", "le-note", el);
  note.setAttribute("aria-live", "polite");

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
    inputs.forEach(({ input, value }, k) => {
      input.value = selected[k];
      input.setAttribute("aria-valuetext", setting[k]);
      value.textContent = knobs[k].values[selected[k]];
    });
    // Row-major order: the last knob runs fastest.
    const index = knobs.reduce((sum, knob, k) => sum * knob.values.length + selected[k], 0);
    const picture = model.get("shown")[index];
    const what = model.get("notes")[index];
    if (picture >= 0) draw(learned, picture);
    else write(learned, [what, ...setting]);
    note.textContent = picture >= 0 ? `gap to the entropy: ${what} nats` : what;
    learned.setAttribute(
      "aria-label", `Landscape learned with ${setting.join(", ")}: ${note.textContent}`);
  }

  draw(truth, 0);
  truth.setAttribute("aria-label", "The true density");
  update();
  model.on("change:selected", update);
  return () => model.off("change:selected", update);
}

export default { render };
