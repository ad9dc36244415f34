// Gibbs-OT between two distributions of a few bars, and exact transport.
// n points, the centres of n cells of [0, 1]; costs lie row by row in a flat array.

// Squared distances.
export const costMatrix = (n) =>
  Float64Array.from({ length: n * n }, (_, at) => ((Math.floor(at / n) - (at % n)) / n) ** 2);

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

// The paper's annealing over l iterations, Section 6.1: start l^(-power n / l) at n = 1..l.
export const temperaturesOver = (l, start, power) =>
  Array.from({ length: l }, (_, t) => start * l ** ((-power * (t + 1)) / l));

// One iteration of Algorithm 1: all h given g, then all g given that h. theta holds
// exponential random numbers of mean 1, those of h first; `from` and `to` say which
// constraint was the active one.
export function iterate(p, q, cost, g, T, theta) {
  const n = p.length;
  const from = largest(n, cost, g);
  const h = from.value.map((limit, j) => limit + (theta[j] * T) / q[j]);
  const to = smallest(n, cost, h);
  const next = to.value.map((limit, i) => limit - (theta[n + i] * T) / p[i]);
  return { g: next, h, U: to.value, L: from.value, from: from.place, to: to.place };
}

// How often each constraint was active in some iterations: Eq. 22 with the samples in
// place of U and L, where many partners tie.
export function activity(p, q, iterations) {
  const n = p.length;
  const coupling = new Float64Array(n * n);
  const share = 0.5 / iterations.length;
  for (const { from, to } of iterations)
    for (let k = 0; k < n; k++) {
      coupling[k * n + to[k]] += share * p[k];
      coupling[from[k] * n + k] += share * q[k];
    }
  return coupling;
}

// Algorithm 1 from g = 0, an iteration for each temperature. noise holds 2 n random
// numbers per iteration.
export function chain(p, q, cost, temperatures, noise) {
  const n = p.length;
  const iterations = [];
  let g = new Float64Array(n);
  temperatures.forEach((T, t) => {
    const now = iterate(p, q, cost, g, T, noise.slice(2 * n * t, 2 * n * (t + 1)));
    iterations.push(now);
    g = now.g;
  });
  return iterations;
}

// A plan with the right marginals: rows, then columns that are too large are scaled
// down, and what is missing is added as an outer product.
export function rounded(p, q, coupling) {
  const n = p.length;
  const sum = (k, stride, step) => {
    let total = 0;
    for (let a = 0; a < n; a++) total += plan[k * stride + a * step];
    return total;
  };
  const plan = Float64Array.from(coupling);
  for (const [mass, stride, step] of [[p, n, 1], [q, 1, n]])
    mass.forEach((goal, k) => {
      const factor = Math.min(1, goal / Math.max(sum(k, stride, step), 1e-300));
      for (let a = 0; a < n; a++) plan[k * stride + a * step] *= factor;
    });
  const rows = p.map((mass, i) => mass - sum(i, n, 1));
  const columns = q.map((mass, j) => mass - sum(j, 1, n));
  const lost = Math.max(rows.reduce((total, mass) => total + mass, 0), 1e-300);
  return plan.map((z, at) => z + (rows[Math.floor(at / n)] * columns[at % n]) / lost);
}

// The chain's end; and after each iteration the dual value, and the cost of the rounded
// plan. A plan comes from the second half of the iterations until then.
export function gibbsOT(p, q, cost, temperatures, noise) {
  const iterations = chain(p, q, cost, temperatures, noise);
  const { g, h, U, L } = iterations[iterations.length - 1];
  const couplingAt = (t) => activity(p, q, iterations.slice(Math.floor(t / 2), t));
  const trace = iterations.map((now, t) => ({
    dual: dualValue(p, q, cost, now.U),
    plan: rounded(p, q, couplingAt(t + 1)).reduce((sum, z, at) => sum + z * cost[at], 0) }));
  return { g, h, U, L, coupling: couplingAt(iterations.length), trace };
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
