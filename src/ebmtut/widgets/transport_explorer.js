// Gibbs-OT between two laws of a few bars, computed here, in the page: the exponential
// draws arrive in the model, nothing is fetched.

// ---------------------------------------------------------------- the computation
// n points, the centres of n cells of [0, 1]; costs lie row by row in a flat array.

export function costMatrix(n, kind) {
  return Float64Array.from({ length: n * n }, (_, at) => {
    const away = Math.abs(Math.floor(at / n) - (at % n)) / n;
    return kind === "coulomb" ? 1 / away : kind === "absolute" ? away : away * away;
  });
}

export function masses(heights) {
  const total = heights.reduce((sum, height) => sum + height, 0);
  return Float64Array.from(heights, (height) => height / total);
}

// L_j = max_i (g_i - M_ij), Eq. 7, and which i it is.
export function largest(n, cost, g) {
  const value = new Float64Array(n).fill(-Infinity);
  const place = new Int32Array(n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++)
      if (g[i] - cost[i * n + j] > value[j]) {
        value[j] = g[i] - cost[i * n + j];
        place[j] = i;
      }
  return { value, place };
}

// U_i = min_j (M_ij + h_j), Eq. 6, and which j it is.
export function smallest(n, cost, h) {
  const value = new Float64Array(n).fill(Infinity);
  const place = new Int32Array(n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++)
      if (cost[i * n + j] + h[j] < value[i]) {
        value[i] = cost[i * n + j] + h[j];
        place[i] = j;
      }
  return { value, place };
}

export const objective = (p, q, g, h) =>
  p.reduce((sum, mass, i) => sum + mass * g[i] - q[i] * h[i], 0);

// The lower bound that a potential gives by c-transforms.
export function dualValue(p, q, cost, g) {
  const h = largest(p.length, cost, g).value;
  return objective(p, q, smallest(p.length, cost, h).value, h);
}

// Temperature of iteration t = 0, 1, ...: constant, or a thousandth after 100.
export const temperatureAt = (start, cooled, t) =>
  cooled ? start * 1000 ** (-t / 100) : start;

// Algorithm 1 from g = 0. noise holds 2 n draws an iteration, those of h first. The
// coupling says how often each constraint was active in the second half of the
// iterations: Eq. 22 with the draws in place of U and L, where many partners tie.
export function gibbsOT(p, q, cost, start, cooled, noise, nIterations) {
  const n = p.length;
  let [g, h, U, L] = [1, 2, 3, 4].map(() => new Float64Array(n));
  const coupling = new Float64Array(n * n);
  const trace = [];
  const first = Math.floor(nIterations / 2);
  for (let t = 0; t < nIterations; t++) {
    const T = temperatureAt(start, cooled, t);
    const from = largest(n, cost, g);
    L = from.value;
    h = L.map((limit, j) => limit + (noise[2 * n * t + j] * T) / q[j]);
    const to = smallest(n, cost, h);
    U = to.value;
    g = U.map((limit, i) => limit - (noise[2 * n * t + n + i] * T) / p[i]);
    trace.push({ V: objective(p, q, U, L), dual: dualValue(p, q, cost, U) });
    if (t < first) continue;
    const share = 0.5 / (nIterations - first);
    for (let k = 0; k < n; k++) {
      coupling[k * n + to.place[k]] += share * p[k];
      coupling[from.place[k] * n + k] += share * q[k];
    }
  }
  return { g, h, U, L, coupling, trace };
}

// Exact transport: send mass along shortest paths until all has arrived. Reduced costs
// M_ij - u_i + v_j stay non-negative, so that each path is Dijkstra's.
export function exactOT(p, q, cost) {
  const n = p.length;
  const coupling = new Float64Array(n * n);
  const [left, room] = [p.slice(), q.slice()];
  const u = new Float64Array(n);
  const v = new Float64Array(n);
  const tiny = 1e-14;
  // v from the columns' least costs, so that every reduced cost starts non-negative.
  for (let j = 0; j < n; j++) {
    v[j] = -Infinity;
    for (let i = 0; i < n; i++) v[j] = Math.max(v[j], -cost[i * n + j]);
  }
  for (;;) {
    // Rows are nodes 0..n-1, columns n..2n-1.
    const away = new Float64Array(2 * n).fill(Infinity);
    const before = new Int32Array(2 * n).fill(-1);
    const done = new Uint8Array(2 * n);
    for (let i = 0; i < n; i++) if (left[i] > tiny) away[i] = 0;
    let end = -1;
    for (;;) {
      let k = -1;
      for (let a = 0; a < 2 * n; a++)
        if (!done[a] && away[a] < Infinity && (k < 0 || away[a] < away[k])) k = a;
      if (k < 0) break;
      done[k] = 1;
      if (k >= n && room[k - n] > tiny) {
        end = k;
        break;
      }
      for (let a = 0; a < n; a++) {
        const [i, j] = k < n ? [k, a] : [a, k - n];
        if (k >= n && coupling[i * n + j] <= tiny) continue;
        const reduced = Math.max(0, cost[i * n + j] - u[i] + v[j]);
        const next = away[k] + (k < n ? reduced : 0);
        const node = k < n ? n + a : a;
        if (next < away[node]) {
          away[node] = next;
          before[node] = k;
        }
      }
    }
    if (end < 0) break;
    for (let a = 0; a < n; a++) {
      u[a] += Math.max(0, away[end] - away[a]);
      v[a] += Math.max(0, away[end] - away[n + a]);
    }
    let amount = room[end - n];
    let node = end;
    for (; before[node] >= 0; node = before[node])
      if (node < n) amount = Math.min(amount, coupling[node * n + before[node] - n]);
    amount = Math.min(amount, left[node]);
    left[node] -= amount;
    room[end - n] -= amount;
    for (node = end; before[node] >= 0; node = before[node]) {
      if (node >= n) coupling[before[node] * n + node - n] += amount;
      else coupling[node * n + before[node] - n] -= amount;
    }
  }
  const value = coupling.reduce((sum, z, at) => sum + (z > 0 ? z * cost[at] : 0), 0);
  // A c-transform each way makes the potentials feasible to the last digit.
  const h = largest(n, cost, u).value;
  return { value, coupling, g: smallest(n, cost, h).value, h };
}

// ---------------------------------------------------------------- the page
const SIZE = [640, 480]; // pixels of a picture, shown at half of it or less
const LOWEST = 0.02; // height of a bar: a law without mass somewhere has no T / p_i
const INK = "#1a1a1a";
const COLORS = { p: "#0072b2", q: "#d55e00", band: "#d0d0d6", V: "#e69f00", dual: "#0072b2" };
const COSTS = [["squared", "squared distance"], ["absolute", "distance"],
  ["coulomb", "1 / distance (Coulomb)"]];

function make(tag, className, parent, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

function blank(canvas) {
  [canvas.width, canvas.height] = SIZE;
  const context = canvas.getContext("2d");
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, ...SIZE);
  context.fillStyle = INK;
  context.font = "22px sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  return context;
}

// p stands on the middle of the picture, q hangs from it.
function drawLaws(canvas, heights, chosen) {
  const context = blank(canvas);
  const [width, middle] = [SIZE[0] / heights.p.length, SIZE[1] / 2];
  for (const side of ["p", "q"])
    heights[side].forEach((height, k) => {
      const length = height * (middle - 30);
      context.fillStyle = COLORS[side];
      context.globalAlpha = side === chosen.side && k === chosen.bar ? 1 : 0.6;
      const top = side === "p" ? middle - length : middle;
      context.fillRect(k * width + 1, top, width - 2, length);
      context.globalAlpha = 1;
      if (side !== chosen.side || k !== chosen.bar) return;
      context.strokeStyle = INK;
      context.lineWidth = 3;
      context.strokeRect(k * width + 1, top, width - 2, length);
    });
  context.fillStyle = INK;
  context.fillRect(0, middle - 1, SIZE[0], 2);
  context.fillText("p", 18, 18);
  context.fillText("q", 18, SIZE[1] - 20);
}

// Shades of the coupling, circles for the exact one; x to the right, y upwards.
function drawCoupling(canvas, n, coupling, exact) {
  const context = blank(canvas);
  const [w, h] = [SIZE[0] / n, SIZE[1] / n];
  const top = Math.max(...coupling);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const at = i * n + j;
      const [x, y] = [i * w, SIZE[1] - (j + 1) * h];
      if (coupling[at] > 0) {
        context.fillStyle = COLORS.p;
        context.globalAlpha = Math.sqrt(coupling[at] / top);
        context.fillRect(x, y, w, h);
        context.globalAlpha = 1;
      }
      if (exact[at] > 1e-6) {
        context.strokeStyle = INK;
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(x + w / 2, y + h / 2, 0.32 * h, 0, 2 * Math.PI);
        context.stroke();
      }
    }
}

// g below U and h above L with their 95 percent bands; the exact pair in black.
function drawPotentials(canvas, p, q, run, exact, T) {
  const context = blank(canvas);
  const n = p.length;
  const reach = Math.log(20) * T;
  // Adding a number to g and h changes nothing: shift the exact pair onto the chain.
  const shift = p.reduce((sum, mass, i) => sum + mass * (run.U[i] - exact.g[i]), 0);
  const exactG = exact.g.map((value) => value + shift);
  const exactH = exact.h.map((value) => value + shift);
  const solid = [...run.U, ...run.L, ...exactG, ...exactH];
  const [low, high] = [Math.min(...solid), Math.max(...solid)];
  const margin = 0.25 * (high - low || 1);
  const y = (value) => {
    const share = (value - low + margin) / (high - low + 2 * margin);
    return SIZE[1] * (1 - Math.min(1, Math.max(0, share)));
  };
  const x = (k) => ((k + 0.5) / n) * SIZE[0];
  const line = (values, width) => {
    context.lineWidth = width;
    context.beginPath();
    values.forEach((value, k) => context.lineTo(x(k), y(value)));
    context.stroke();
  };
  for (const [limit, draws, mass, sign, side] of [
    [run.U, run.g, p, -1, "p"], [run.L, run.h, q, 1, "q"]]) {
    context.fillStyle = COLORS.band;
    context.globalAlpha = 0.7;
    context.beginPath();
    limit.forEach((value, k) => context.lineTo(x(k), y(value)));
    for (let k = n - 1; k >= 0; k--)
      context.lineTo(x(k), y(limit[k] + (sign * reach) / mass[k]));
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = COLORS[side];
    line(limit, 3);
    draws.forEach((value, k) => {
      context.beginPath();
      context.arc(x(k), y(value), 5, 0, 2 * Math.PI);
      context.fill();
    });
  }
  context.strokeStyle = INK;
  context.setLineDash([8, 6]);
  line(exactG, 2);
  line(exactH, 2);
  context.setLineDash([]);
}

// V and the dual value over the iterations, in units of the exact cost, or by how much
// of V's largest value they exceed a cost of nothing.
function drawTrace(canvas, trace, value, nLargest) {
  const context = blank(canvas);
  const isFree = value < 1e-9;
  const unit = isFree ? Math.max(...trace.map(({ V }) => Math.abs(V))) || 1 : value;
  const left = 64;
  const x = (t) => left + (t / nLargest) * (SIZE[0] - left - 20);
  const y = (share) => 20 + (2 - Math.min(2, Math.max(0, share))) * 0.5 * (SIZE[1] - 70);
  for (const share of [0, 0.5, 1, 1.5, 2]) {
    context.fillStyle = INK;
    context.fillText(share === 1 ? "exact" : share.toFixed(1), left / 2, y(share));
    context.fillStyle = share === 1 ? INK : "#d4d4d8";
    context.fillRect(left, y(share) - 1, SIZE[0] - left - 20, share === 1 ? 3 : 1);
  }
  context.fillStyle = INK;
  for (const t of [0, 25, 50, 75, 100]) context.fillText(t, x(t), SIZE[1] - 18);
  for (const name of ["V", "dual"]) {
    context.strokeStyle = COLORS[name];
    context.lineWidth = 4;
    context.beginPath();
    trace.forEach((now, t) => context.lineTo(x(t + 1), y((isFree ? 1 : 0) + now[name] / unit)));
    context.stroke();
  }
}

function render({ model: state, el }) {
  const bytes = state.get("noise");
  const noise = new Float32Array(bytes.buffer.slice(
    bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const shapes = state.get("shapes");
  const n = state.get("p").length;
  const nLargest = noise.length / (2 * n);
  const chosen = { side: "p", bar: Math.floor(n / 4) };
  let shape = "0"; // the offered shape, "" once the reader has changed it
  let solved = { key: "" }; // the exact solution of what is shown
  let timer = 0;

  // Some pages tell drawn widgets by this class, which anywidget does not set.
  el.classList.add("jupyter-widgets", "transport-explorer");
  const controls = make("div", "te-controls", el);

  function change(values) {
    for (const [name, value] of Object.entries(values)) state.set(name, value);
    state.save_changes(); // a live kernel hears of it, a static page has none
  }

  function choice(name, options, act) {
    const label = make("label", "te-row", controls);
    make("span", "te-name", label, name);
    const select = make("select", "te-select", label);
    for (const [value, text] of options)
      make("option", "", select, text).value = value;
    select.addEventListener("change", () => act(select.value));
    return select;
  }

  // A labelled range input: the browser brings mouse, touch and keyboard.
  function slider(name, range, act) {
    const label = make("label", "te-row", controls);
    make("span", "te-name", label, name);
    const input = make("input", "te-range", label);
    Object.assign(input, { type: "range", ...range });
    const value = make("output", "te-value", label);
    input.addEventListener("input", () => act(Number(input.value)));
    return (number, text) => {
      input.value = number;
      value.textContent = text;
      input.setAttribute("aria-valuetext", `${name} ${text}`);
    };
  }

  function setBar(side, bar, height) {
    Object.assign(chosen, { side, bar });
    shape = "";
    const heights = state.get(side).slice();
    heights[bar] = Math.min(1, Math.max(LOWEST, height));
    change({ [side]: heights });
    later(); // the choice may have changed where the height has not
  }

  const shapeChoice = choice("shapes",
    [["", "your own"], ...shapes.map(({ name }, k) => [k, name])], (k) => {
      if (k === "") return;
      shape = k;
      change({ p: shapes[k].p, q: shapes[k].q });
    });
  const costChoice = choice("cost", COSTS, (value) => change({ cost: value }));
  const showTemperature = slider("temperature", { min: -4, max: 1, step: 0.1 },
    (value) => change({ log_temperature: value }));
  const showIterations = slider("iterations", { min: 1, max: nLargest, step: 1 },
    (value) => change({ n_iterations: value }));
  const cooling = choice("cooling", [["no", "constant"], ["yes", "÷ 1000 in 100 iterations"]],
    (value) => change({ cooled: value === "yes" }));
  const lawChoice = choice("law to shape", [["p", "p, above"], ["q", "q, below"]], (value) => {
    chosen.side = value;
    later();
  });
  const showBar = slider("bar", { min: 1, max: n, step: 1 }, (value) => {
    chosen.bar = value - 1;
    later();
  });
  const showHeight = slider("height", { min: LOWEST, max: 1, step: 0.02 }, (value) =>
    setBar(chosen.side, chosen.bar, value));
  const play = make("button", "te-play", controls, "play the iterations");
  play.type = "button";
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "play the iterations";
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "stop";
    change({ n_iterations: 1 });
    timer = setInterval(() => {
      change({ n_iterations: state.get("n_iterations") + 1 });
      if (state.get("n_iterations") >= nLargest) stop();
    }, 120);
  });

  const panels = make("div", "te-panels", el);
  const panel = (title) => {
    const column = make("div", "te-panel", panels);
    make("div", "te-title", column, title);
    const canvas = make("canvas", "te-canvas", column);
    canvas.setAttribute("role", "img");
    return canvas;
  };
  const laws = panel("two laws: draw them with mouse or finger");
  const plan = panel("coupling: shades Gibbs-OT, circles exact");
  const duals = panel("potentials: U, g blue; L, h red; exact dashed");
  const values = panel("V (orange) and the dual value (blue)");
  laws.classList.add("te-drawable");
  const draw = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = laws.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (event.clientY - box.top) / box.height;
    const side = event.type === "pointerdown" ? (y < 0.5 ? "p" : "q") : chosen.side;
    const bar = Math.min(n - 1, Math.max(0, Math.floor(x * n)));
    const up = ((side === "p" ? 0.5 - y : y - 0.5) * SIZE[1]) / (SIZE[1] / 2 - 30);
    setBar(side, bar, up);
  };
  laws.addEventListener("pointerdown", (event) => {
    laws.setPointerCapture(event.pointerId);
    draw(event);
  });
  laws.addEventListener("pointermove", draw);
  const note = make("p", "te-note", el);
  note.setAttribute("aria-live", "polite");

  function update() {
    const heights = { p: state.get("p"), q: state.get("q") };
    const kind = state.get("cost");
    const nIterations = state.get("n_iterations");
    const start = 10 ** state.get("log_temperature") / n;
    const cooled = state.get("cooled");
    shapeChoice.value = shape;
    costChoice.value = kind;
    cooling.value = cooled ? "yes" : "no";
    lawChoice.value = chosen.side;
    showTemperature(state.get("log_temperature"), `${(start * n).toPrecision(2)}/${n}`);
    showIterations(nIterations, `${nIterations}`);
    showBar(chosen.bar + 1, `${chosen.bar + 1}`);
    const height = heights[chosen.side][chosen.bar];
    showHeight(height, height.toFixed(2));

    const [p, q] = [masses(heights.p), masses(heights.q)];
    const cost = costMatrix(n, kind);
    const key = [kind, ...p, ...q].join();
    if (solved.key !== key) solved = { key, ...exactOT(p, q, cost) };
    const run = gibbsOT(p, q, cost, start, cooled, noise, nIterations);
    const last = run.trace[nIterations - 1];
    const T = temperatureAt(start, cooled, nIterations - 1);
    drawLaws(laws, heights, chosen);
    drawCoupling(plan, n, run.coupling, solved.coupling);
    drawPotentials(duals, p, q, run, solved, T);
    drawTrace(values, run.trace, solved.value, nLargest);
    // Laws that are alike cost nothing, of which there is no percentage.
    const off = (value) => {
      const away = Math.abs(value - solved.value);
      const side = value > solved.value ? "above" : "below";
      const percent = (100 * away) / solved.value;
      return solved.value > 1e-9 ? `${percent.toFixed(2)} % ${side}` : side;
    };
    note.textContent = `Exact cost ${solved.value.toFixed(4)}. After ${nIterations} `
      + `iterations the dual value is ${last.dual.toFixed(4)}, ${off(last.dual)} it; `
      + `V is ${last.V.toFixed(4)}, ${off(last.V)}.`;
    laws.setAttribute("aria-label", `Bar ${chosen.bar + 1} of ${chosen.side} is `
      + `${height.toFixed(2)} high`);
    plan.setAttribute("aria-label", "The coupling of Gibbs-OT over the exact one");
    duals.setAttribute("aria-label",
      `Potentials and their 95 percent bands at temperature ${T.toPrecision(2)}`);
    values.setAttribute("aria-label", note.textContent);
  }

  // Several values of one change come one after the other: draw once, after the last.
  let waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      update();
    });
  }
  update();
  const names = ["p", "q", "cost", "log_temperature", "n_iterations", "cooled"];
  for (const name of names) state.on(`change:${name}`, later);
  return () => {
    stop();
    for (const name of names) state.off(`change:${name}`, later);
  };
}

export default { render };
