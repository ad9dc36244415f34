// Perturb-and-max-product on a graph of a few nodes.
// Bits x, E(x) = -x'Wx/2 - b'x; matrices lie row by row in flat arrays.

// From spins, E = -(sum of c s_i s_j over edges) - h's, at a temperature.
export function toBits(graph, couplings, fields, temperature) {
  const n = graph.n_sites;
  const weight = new Float64Array(n * n);
  const bias = Float64Array.from(fields, (h) => (2 * h) / temperature);
  graph.edges.forEach(([i, j], k) => {
    const c = couplings[k] / temperature;
    weight[i * n + j] = weight[j * n + i] = 4 * c;
    bias[i] -= 2 * c;
    bias[j] -= 2 * c;
  });
  return { n, weight, bias };
}

// messages[i * n + j] goes from i to j. "zero" is the paper's initialisation.
export function firstMessages({ weight }, start) {
  return weight.map((w) => (start === "symmetric" ? w / 2 : 0));
}

// Beliefs of Appendix C.1: own unary term and all that comes in.
export function beliefs(n, unaries, messages) {
  const sums = Float64Array.from(unaries);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) sums[j] += messages[i * n + j];
  return sums;
}

// One damped parallel sweep, in place; messages[i, i] stays 0 since weight[i, i] is.
export function sweep({ n, weight }, unaries, messages, damping = 0.5) {
  const sums = beliefs(n, unaries, messages);
  const old = messages.slice();
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const p = sums[i] - old[j * n + i];
      const fresh = Math.max(0, p + weight[i * n + j]) - Math.max(0, p);
      messages[i * n + j] = damping * old[i * n + j] + (1 - damping) * fresh;
    }
}

export function maxProduct(model, unaries, nSweeps, start, damping = 0.5) {
  const messages = firstMessages(model, start);
  for (let t = 0; t < nSweeps; t++) sweep(model, unaries, messages, damping);
  return { messages, beliefs: beliefs(model.n, unaries, messages) };
}

// -E of every state; the first site is the most significant bit of its number.
export function scores({ n, weight, bias }) {
  const bit = (state, i) => (state >> (n - 1 - i)) & 1;
  return Float64Array.from({ length: 2 ** n }, (_, state) => {
    let score = 0;
    for (let i = 0; i < n; i++) {
      if (!bit(state, i)) continue;
      score += bias[i];
      for (let j = 0; j < i; j++) if (bit(state, j)) score += weight[i * n + j];
    }
    return score;
  });
}

export function boltzmann(model) {
  const all = scores(model);
  const top = Math.max(...all);
  const weights = all.map((score) => Math.exp(score - top));
  const total = weights.reduce((sum, p) => sum + p, 0);
  return weights.map((p) => p / total);
}

// The MAP state of each sample.
// noise holds one row of at least n numbers per sample, `stride` apart.
export function perturbAndMap(model, noise, stride) {
  const all = scores(model);
  const added = new Float64Array(all.length);
  return Array.from({ length: noise.length / stride }, (_, draw) => {
    let best = 0;
    for (let state = 0; state < all.length; state++) {
      // Without its lowest bit the state came earlier: one addition each.
      const low = model.n - 1 - Math.log2(state & -state);
      const rest = added[state & (state - 1)];
      added[state] = state ? rest + noise[draw * stride + low] : 0;
      if (all[state] + added[state] > all[best] + added[best]) best = state;
    }
    return best;
  });
}
