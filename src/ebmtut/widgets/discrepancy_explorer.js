// Energy discrepancy on three bits: the noise, the number of negatives and the stabiliser
// against the divergence of the learned distribution from the data, trained in the page.

import { blank, follow, frame, INK, SIZE } from "./frame.js";
import { descend } from "./three_bits.js";

const RATE = 2; // of gradient descent
const N_STEPS = 200;
const MS = [1, 2, 4, 8, 16, 32, 64, 0]; // 0: the mean over all, M without end
const WS = [0, 0.01, 0.1, 0.3, 1, 3, 10];
const [LOW, HIGH] = [1e-6, 10]; // nats on the picture
const BLUE = "#0072b2";
const GREY = "#999999";
const EDGE = { left: 74, right: 28, top: 24, bottom: 56 };
const words = { m: (m) => (m ? String(m) : "∞"), nats: (kl) => (kl < LOW
  ? "less than 0.000001" : kl.toFixed(Math.max(2, 1 - Math.floor(Math.log10(kl))))) };

const across = (share) => EDGE.left + share * (SIZE[0] - EDGE.left - EDGE.right);
const down = (share) => EDGE.top + share * (SIZE[1] - EDGE.top - EDGE.bottom);
const height = (kl) => down(Math.log(HIGH / Math.max(kl, LOW)) / Math.log(HIGH / LOW));

function curve(context, kls, color, dashed = false) {
  context.strokeStyle = color;
  context.lineWidth = 4;
  context.setLineDash(dashed ? [10, 8] : []);
  context.beginPath();
  for (let k = 0; k < kls.length; k++) {
    context.lineTo(across(k / N_STEPS), height(kls[k]));
    if (kls[k] < LOW) break;
  }
  context.stroke();
  context.setLineDash([]);
}

function axes(context) {
  context.strokeStyle = INK;
  context.lineWidth = 2;
  context.strokeRect(across(0), down(0), across(1) - across(0), down(1) - down(0));
  context.textAlign = "right";
  for (const [kl, text] of [[10, "10"], [1, "1"], [0.1, "0.1"], [0.01, "0.01"],
    [1e-3, "10⁻³"], [1e-4, "10⁻⁴"], [1e-5, "10⁻⁵"], [1e-6, "10⁻⁶"]]) {
    context.fillText(text, across(0) - 8, height(kl));
    context.fillRect(across(0), height(kl) - 1, 8, 2);
  }
  context.textAlign = "center";
  for (const k of [0, 50, 100, 150, 200]) {
    context.fillText(k, across(k / N_STEPS), down(1) + 18);
  }
  context.fillText("training step", across(0.5), down(1) + 42);
}

function bars(context, p, model) {
  const top = 1.08 * Math.max(...p, ...model);
  const at = (value) => down(1 - value / top);
  p.forEach((value, k) => {
    const [left, width] = [across((k + 0.1) / 8), (across(1) - across(0)) / 8];
    context.fillStyle = GREY;
    context.fillRect(left, at(value), 0.38 * width, down(1) - at(value));
    context.fillStyle = BLUE;
    context.fillRect(left + 0.42 * width, at(model[k]), 0.38 * width,
      down(1) - at(model[k]));
    context.fillStyle = INK;
    context.fillText(k.toString(2).padStart(3, "0"), across((k + 0.5) / 8), down(1) + 18);
  });
  context.fillRect(across(0), down(1), across(1) - across(0), 2);
  context.textAlign = "right";
  const mark = top > 0.5 ? 0.2 : 0.1;
  for (let value = mark; value < top; value += mark) {
    context.fillText(value.toFixed(1), across(0) - 8, at(value));
    context.fillRect(across(0), at(value) - 1, 8, 2);
  }
  context.textAlign = "center";
  context.fillText("state x", across(0.5), down(1) + 42);
}

function distribution(u) {
  const least = Math.min(...u);
  const raw = u.map((v) => Math.exp(least - v));
  const total = raw.reduce((sum, v) => sum + v, 0);
  return raw.map((v) => v / total);
}

function render({ model: state, el }) {
  const { change, slider, button, player, panel, note } =
    frame(state, el, "discrepancy-explorer");
  let kept = null; // divergences of another setting, to compare with
  const p = state.get("data");
  const best = descend(p, { eps: 0.5, m: 0, w: 0 }, N_STEPS, RATE);
  let run = best;
  let trained = "";

  const epsSlider = slider("noise ε", { min: 0, max: 1, step: 0.01 }, (eps) =>
    change({ eps }));
  const mSlider = slider("negatives M", { min: 0, max: MS.length - 1, step: 1 }, (k) =>
    change({ n_negatives: MS[k] }));
  const wSlider = slider("stabiliser w", { min: 0, max: WS.length - 1, step: 1 }, (k) =>
    change({ stabilizer: WS[k] }));
  const stepSlider = slider("shown step", { min: 0, max: N_STEPS, step: 1 }, (step) =>
    change({ step }));
  const stop = player("train", "step", 0, N_STEPS, 40);
  const keep = button("keep this curve", () => {
    kept = kept ? null : run.kls;
    keep.textContent = kept ? "drop the kept curve" : "keep this curve";
    later();
  });
  const fall = panel("KL(data ‖ model), nats; dashed: maximum likelihood");
  const distributions = panel("distributions: data grey, model after the shown step blue");
  const line = note();

  function update() {
    const [eps, m, w] = ["eps", "n_negatives", "stabilizer"].map((key) => state.get(key));
    if (trained !== `${eps} ${m} ${w}`) {
      run = descend(p, { eps, m, w }, N_STEPS, RATE);
      trained = `${eps} ${m} ${w}`;
    }
    const step = Math.min(state.get("step"), run.us.length - 1);
    epsSlider.show(eps, eps.toFixed(2));
    mSlider.show(Math.max(0, MS.indexOf(m)), words.m(m));
    wSlider.show(Math.max(0, WS.indexOf(w)), String(w));
    stepSlider.show(step, String(step));

    let context = blank(fall);
    if (kept) curve(context, kept, GREY);
    curve(context, best.kls, INK, true);
    curve(context, run.kls, BLUE);
    context.fillStyle = BLUE;
    context.beginPath();
    context.arc(across(step / N_STEPS), height(run.kls[step]), 9, 0, 7);
    context.fill();
    context.fillStyle = INK;
    axes(context);
    context = blank(distributions);
    bars(context, p, distribution(run.us[step]));

    const end = run.kls[run.kls.length - 1];
    line.textContent = run.lost
      ? `Diverged after ${run.us.length - 1} steps: the energies grow without bound. `
        + `Shown: step ${step}, ${words.nats(run.kls[step])} nats.`
      : `KL divergence at step ${step}: ${words.nats(run.kls[step])} nats.`
        + (step < N_STEPS ? ` At step ${N_STEPS}: ${words.nats(end)}.` : "");
    fall.setAttribute("aria-label", `KL divergence over ${N_STEPS} steps for noise `
      + `${eps.toFixed(2)}, ${words.m(m)} negatives, stabiliser ${w}. ${line.textContent}`);
    distributions.setAttribute("aria-label", `Data and model after step ${step}, `
      + "over eight states");
  }

  const keys = ["eps", "n_negatives", "stabilizer", "step"];
  const { later, leave } = follow(state, keys, update);
  update();
  return () => {
    stop();
    leave();
  };
}

export default { render };
