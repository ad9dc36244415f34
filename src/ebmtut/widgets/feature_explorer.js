// Features that two samplers have inferred, over the sweeps: pictures that arrive in the
// model, and a slider.

import { asBytes, blank, follow, frame, INK, SIZE } from "./frame.js";

function render({ model: state, el }) {
  const { change, slider, player, panel, note } = frame(state, el, "feature-explorer");
  const [sweeps, names, wrong] = ["sweeps", "names", "wrong"].map((key) => state.get(key));
  const [n, side] = [state.get("n_features"), state.get("side")];
  const pixels = asBytes(state.get("pixels"));
  const last = sweeps.length - 1;
  const steps = slider("sweeps", { min: 0, max: last, step: 1 }, (step) => change({ step }));
  const stop = player("play the sweeps", "step", 0, last, 500);
  const line = note();
  el.insertBefore(line, el.querySelector(".ex-panels"));
  const canvases = names.map((name) => panel(name));

  function draw(canvas, k, step) {
    const context = blank(canvas);
    const across = Math.ceil(n / 2);
    const tile = Math.min((SIZE[0] - 20) / across, (SIZE[1] - 20) / 2) - 20;
    const dot = tile / side;
    for (let f = 0; f < n; f++) {
      const x = 20 + (f % across) * (tile + 20);
      const y = 20 + Math.floor(f / across) * (tile + 20);
      for (let p = 0; p < side * side; p++) {
        const at = ((k * sweeps.length + step) * n + f) * side * side + p;
        const grey = 255 - pixels[at];
        context.fillStyle = `rgb(${grey},${grey},${grey})`;
        context.fillRect(x + (p % side) * dot, y + Math.floor(p / side) * dot, dot, dot);
      }
      context.strokeStyle = INK;
      context.strokeRect(x, y, tile, tile);
    }
  }

  function update() {
    const step = Math.min(state.get("step"), last);
    steps.show(step, `${sweeps[step]}`);
    canvases.forEach((canvas, k) => {
      draw(canvas, k, step);
      canvas.setAttribute("aria-label", `features of ${names[k]} after ${sweeps[step]} sweeps`);
    });
    const shares = names.map((name, k) => `${name} ${wrong[k][step].toFixed(1)} %`);
    line.textContent = `After ${sweeps[step]} sweep${sweeps[step] > 1 ? "s" : ""}, pixels explained wrongly: `
      + `${shares.join(", ")}.`;
  }

  const { leave } = follow(state, ["step"], update);
  update();
  return () => {
    stop();
    leave();
  };
}

export default { render };
