// Two spins: choose a rate, and compare both sides of the master equation.

import { blank, follow, frame, INK, minus, SIZE } from "./frame.js";
import { balance } from "./two_spins.js";

const COLORS = { state: "#d9d9d9", flow: "#0072b2", change: "#595959" };
const PLACES = { "−−": [190, 130], "−+": [450, 130], "+−": [190, 350], "++": [450, 350] };

function arrow(context, from, to, width) {
  if (width < 0.5) return;
  const [dx, dy] = [Math.sign(to[0] - from[0]), Math.sign(to[1] - from[1])];
  const [x0, y0] = [from[0] + 50 * dx, from[1] + 50 * dy];
  const [x1, y1] = [to[0] - 74 * dx, to[1] - 74 * dy];
  const head = 8 + width / 2;
  context.strokeStyle = context.fillStyle = COLORS.flow;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1 + 18 * dx, y1 + 18 * dy);
  context.lineTo(x1 + head * dy, y1 + head * dx);
  context.lineTo(x1 - head * dy, y1 - head * dx);
  context.fill();
}

function drawStates(canvas, { agree, disagree }, rate, most) {
  const context = blank(canvas);
  const width = (40 * rate * disagree) / most;
  for (const from of ["−+", "+−"])
    for (const to of ["−−", "++"]) arrow(context, PLACES[from], PLACES[to], width);
  for (const [name, [x, y]] of Object.entries(PLACES)) {
    const p = name[0] === name[1] ? agree : disagree;
    context.fillStyle = COLORS.state;
    context.beginPath();
    context.arc(x, y, 90 * Math.sqrt(p), 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = INK;
    context.fillText(name, x, y);
    context.fillText(p.toFixed(3), x, y < 240 ? y - 90 : y + 90);
  }
}

function drawSides(canvas, { change, inflow }, most) {
  const context = blank(canvas);
  const [left, width] = [40, SIZE[0] - 80];
  [["left side: change of p(++)", change, COLORS.change],
    ["right side: inflow − outflow", inflow, COLORS.flow]].forEach(
    ([name, value, color], k) => {
      const y = 110 + 170 * k;
      context.textAlign = "left";
      context.fillStyle = INK;
      context.fillText(`${name} = ${value.toFixed(3)}`, left, y);
      context.fillStyle = color;
      context.fillRect(left, y + 25, Math.min(1, value / most) * width, 50);
      context.fillStyle = INK;
      context.fillRect(left, y + 20, 2, 60);
    });
}

function render({ model: state, el }) {
  const { change, slider, panel, note } = frame(state, el, "two-spins-explorer");
  const J = state.get("coupling");
  const top = 1.5 * J; // of the slider
  const timeSlider = slider("time t", { min: 0, max: 1, step: 0.01 }, (time) =>
    change({ time }));
  const rateSlider = slider("rate R", { min: 0, max: top, step: J / 100 }, (rate) =>
    change({ rate }));
  const line = note();
  const states = panel("four states: disc, probability; arrow, flow R p");
  const sides = panel("master equation of the state ++");
  const most = top / 2; // the largest inflow that the sliders allow

  function update() {
    const [t, rate] = [state.get("time"), state.get("rate")];
    const now = balance(J, t, rate);
    timeSlider.show(t, t.toFixed(2));
    rateSlider.show(rate, rate.toFixed(2));
    drawStates(states, now, rate, most);
    drawSides(sides, now, most);
    const apart = rate - now.needed;
    const verdict = Math.abs(apart) <= 0.006 * J ? "Both sides agree."
      : `The rate is too ${apart < 0 ? "low" : "high"}.`;
    line.textContent = minus(`t = ${t.toFixed(2)}, R = ${rate.toFixed(2)}: change of `
      + `p(++) ${now.change.toFixed(3)}, inflow − outflow ${now.inflow.toFixed(3)}. `
      + verdict);
    states.setAttribute("aria-label", `Probability ${now.agree.toFixed(3)} of each state `
      + `whose spins agree, ${now.disagree.toFixed(3)} of each other state`);
    sides.setAttribute("aria-label", line.textContent);
  }

  const { leave } = follow(state, ["time", "rate"], update);
  update();
  return leave;
}

export default { render };
