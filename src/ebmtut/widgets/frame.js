// What the widgets have in common: labelled controls, pictures, a line of text, and a
// page that follows the model.

export const INK = "#1a1a1a";
export const SIZE = [640, 480]; // pixels of a picture, shown at half of it or less

export function make(tag, className, parent, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

// A white picture, ready for ink and words.
export function blank(canvas, size = SIZE) {
  [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, ...size);
  context.fillStyle = INK;
  context.font = "22px sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  return context;
}

// Numbers below zero with a minus sign, which a hyphen is not.
export const minus = (text) => String(text).replace(/-(?=\d)/g, "−");

export const asBytes = (view) =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

// Numbers may start at any byte of what arrived: copy them.
export const asFloats = (view) => new Float32Array(asBytes(view).slice().buffer);

// Where on a picture the pointer is, in shares of its width and height.
export function pointed(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
}

// Lets the keyboard do what a pointer does on a picture: arrows move a mark, Enter or the
// space bar presses there.
function byKeyboard(canvas, column) {
  if (canvas.tabIndex === 0) return;
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  const capture = canvas.setPointerCapture.bind(canvas);
  canvas.setPointerCapture = (id) => {
    if (id > 0) capture(id); // a pressed key is no pointer that could be captured
  };
  const cursor = make("span", "ex-cursor", column);
  cursor.hidden = true;
  const at = [0.5, 0.5];
  const show = () => {
    cursor.hidden = !canvas.matches(":focus-visible");
    cursor.style.left = `${canvas.offsetLeft + at[0] * canvas.offsetWidth}px`;
    cursor.style.top = `${canvas.offsetTop + at[1] * canvas.offsetHeight}px`;
  };
  const press = () => {
    const box = canvas.getBoundingClientRect();
    const where = { bubbles: true, pointerId: -1,
      clientX: box.left + at[0] * box.width, clientY: box.top + at[1] * box.height };
    for (const kind of ["pointerdown", "pointerup"])
      canvas.dispatchEvent(new PointerEvent(kind, where));
    canvas.dispatchEvent(new MouseEvent("click", where));
  };
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1],
    ArrowDown: [1, 1] };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step) at[step[0]] = Math.min(1, Math.max(0, at[step[0]] + 0.05 * step[1]));
    else if (event.key === "Enter" || event.key === " ") press();
    else return;
    event.preventDefault();
    show();
  });
  canvas.addEventListener("focus", show);
  canvas.addEventListener("blur", show);
}

// Controls stand above the line of text, pictures below it.
export function frame(state, el, name) {
  // Some pages tell drawn widgets by the first class, which anywidget does not set.
  el.classList.add("jupyter-widgets", "explorer", name);
  const controls = make("div", "ex-controls", el);
  const notes = make("div", "ex-notes", el);
  const panels = make("div", "ex-panels", el);

  function change(values) {
    for (const [key, value] of Object.entries(values)) state.set(key, value);
    state.save_changes(); // a live kernel hears of it, a static page has none
  }

  function labelled(text) {
    const row = make("div", "ex-row", controls);
    const label = make("label", "ex-label", row);
    return { row, label, caption: make("span", "ex-name", label, text) };
  }

  function choice(text, options, act) {
    const select = make("select", "ex-select", labelled(text).label);
    const offer = (list) => {
      select.replaceChildren();
      for (const [value, words] of list) make("option", "", select, words).value = value;
    };
    offer(options);
    select.addEventListener("change", () => act(select.value));
    return { offer, show: (value) => (select.value = value) };
  }

  // A range input: the browser brings mouse, touch and keyboard.
  function slider(text, range, act) {
    const { row, label, caption } = labelled(text);
    const input = make("input", "ex-range", label);
    Object.assign(input, { type: "range", ...range });
    const output = make("output", "ex-value", row);
    input.addEventListener("input", () => act(Number(input.value)));
    const show = (number, words, name = text) => {
      caption.textContent = name;
      input.value = number;
      output.textContent = minus(words);
      input.setAttribute("aria-valuetext", minus(`${name} ${words}`));
    };
    return { show };
  }

  function button(text, act) {
    const pressed = make("button", "ex-play", controls, text);
    pressed.type = "button";
    pressed.addEventListener("click", act);
    return pressed;
  }

  // A button that counts a value of the model up to the last; returns how to stop it.
  function player(text, key, first, last, pause) {
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = text;
    };
    const play = button(text, () => {
      if (timer) return stop();
      play.textContent = "stop";
      change({ [key]: first });
      timer = setInterval(() => {
        change({ [key]: state.get(key) + 1 });
        if (state.get(key) >= last) stop();
      }, pause);
    });
    return stop;
  }

  function panel(title) {
    const column = make("div", "ex-panel", panels);
    make("div", "ex-title", column, title);
    const canvas = make("canvas", "ex-canvas", column);
    canvas.setAttribute("role", "img");
    // A picture that a pointer can use is one that the keyboard can use, too.
    const listen = canvas.addEventListener.bind(canvas);
    canvas.addEventListener = (kind, ...rest) => {
      if (kind === "pointerdown" || kind === "click") byKeyboard(canvas, column);
      listen(kind, ...rest);
    };
    return canvas;
  }

  function note() {
    const line = make("p", "ex-note", notes);
    line.setAttribute("aria-live", "polite");
    return line;
  }

  return { change, choice, slider, button, player, panel, note };
}

// Draw once after each change of the model. Several values of one change come one
// after the other: draw after the last.
export function follow(state, keys, update) {
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      update();
    });
  };
  for (const key of keys) state.on(`change:${key}`, later);
  const leave = () => {
    for (const key of keys) state.off(`change:${key}`, later);
  };
  return { later, leave };
}
