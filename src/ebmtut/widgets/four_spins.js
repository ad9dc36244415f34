// Four spins, each coupled to each, E = -theta sum of s_i s_j over pairs, perturbed.

import { beliefs, boltzmann, firstMessages, perturbAndMap, sweep, toBits } from "./max_product.js";

const PAIRS = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

export function fourSpins(theta) {
  const graph = { n_sites: 4, edges: PAIRS };
  return toBits(graph, PAIRS.map(() => theta), [0, 0, 0, 0], 1);
}

// Logistic noise, the same at every visit, four numbers a draw; each draw is followed by
// its mirror image, so that neither side is favoured by chance.
export function mirroredNoise(nPairs, seed = 1) {
  const half = logisticNoise(4 * nPairs, seed);
  return Float64Array.from({ length: 8 * nPairs }, (_, k) => {
    const value = half[4 * (k >> 3) + (k & 3)];
    return k & 4 ? -value : value;
  });
}

// By a small generator of numbers in (0, 1).
function logisticNoise(n, seed) {
  let state = seed >>> 0;
  return Float64Array.from({ length: n }, () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    const u = (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
    return Math.log(u / (1 - u));
  });
}

// States of every draw after each number of sweeps, 0 to nSweeps: path[t][draw].
export function sweepPath(model, noise, nSweeps, start) {
  const nDraws = noise.length / 4;
  const path = Array.from({ length: nSweeps + 1 }, () => new Uint8Array(nDraws));
  for (let draw = 0; draw < nDraws; draw++) {
    const unaries = model.bias.map((b, i) => b + noise[4 * draw + i]);
    const messages = firstMessages(model, start);
    for (let t = 0; t <= nSweeps; t++) {
      if (t) sweep(model, unaries, messages);
      path[t][draw] = beliefs(4, unaries, messages).reduce(
        (state, belief) => 2 * state + (belief > 0 ? 1 : 0), 0);
    }
  }
  return path;
}

const ones = (state) => (state & 1) + ((state >> 1) & 1) + ((state >> 2) & 1) + (state >> 3);

// The law of the number of ones, 0 to 4.
export function byOnes(states) {
  const law = [0, 0, 0, 0, 0];
  for (const state of states) law[ones(state)] += 1 / states.length;
  return law;
}

export function exactByOnes(theta) {
  const law = [0, 0, 0, 0, 0];
  boltzmann(fourSpins(theta)).forEach((p, state) => (law[ones(state)] += p));
  return law;
}

export const optima = (model, noise) => Uint8Array.from(perturbAndMap(model, noise, 4));

// Mean spin.
export const magnetisation = (law) =>
  law.reduce((sum, p, k) => sum + p * (k / 2 - 1), 0);

// Nats by which the second law misses the first.
export const divergence = (p, q) =>
  p.reduce((sum, value, k) => sum + value * Math.log(value / Math.max(q[k], 1e-12)), 0);
