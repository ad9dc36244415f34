// Four spins, each coupled to each, E = -theta sum of s_i s_j over pairs, perturbed.

import { boltzmann, firstMessages, perturbAndMap, toBits } from "./max_product.js";

const PAIRS = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

export function fourSpins(theta) {
  const graph = { n_sites: 4, edges: PAIRS };
  return toBits(graph, PAIRS.map(() => theta), [0, 0, 0, 0], 1);
}

// Logistic noise, the same at every visit, four numbers per sample; each is followed by
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

// States of every sample after each number of sweeps, 0 to nSweeps: path[t][sample].
// Messages of all edges are one array, updated by halves (damping 1/2), without copies:
// this runs for thousands of samples at each move of the slider.
export function sweepPath(model, noise, nSweeps, init) {
  const nSamples = noise.length / 4;
  const path = Array.from({ length: nSweeps + 1 }, () => new Uint8Array(nSamples));
  const first = firstMessages(model, init);
  const [messages, fresh] = [new Float64Array(16), new Float64Array(16)];
  const sums = new Float64Array(4);
  for (let sample = 0; sample < nSamples; sample++) {
    messages.set(first);
    for (let t = 0; t <= nSweeps; t++) {
      if (t) {
        for (let i = 0; i < 4; i++)
          for (let j = 0; j < 4; j++) {
            const p = sums[i] - messages[4 * j + i];
            const w = model.weight[4 * i + j];
            const sent = Math.max(0, p + w) - Math.max(0, p);
            fresh[4 * i + j] = (messages[4 * i + j] + sent) / 2;
          }
        messages.set(fresh);
      }
      let state = 0;
      for (let j = 0; j < 4; j++) {
        sums[j] = model.bias[j] + noise[4 * sample + j];
        for (let i = 0; i < 4; i++) sums[j] += messages[4 * i + j];
        state = 2 * state + (sums[j] > 0 ? 1 : 0);
      }
      path[t][sample] = state;
    }
  }
  return path;
}

const ones = (state) => (state & 1) + ((state >> 1) & 1) + ((state >> 2) & 1) + (state >> 3);

// The distribution of the number of ones, 0 to 4.
export function byOnes(states) {
  const found = [0, 0, 0, 0, 0];
  for (const state of states) found[ones(state)] += 1 / states.length;
  return found;
}

export function exactByOnes(theta) {
  const found = [0, 0, 0, 0, 0];
  boltzmann(fourSpins(theta)).forEach((p, state) => (found[ones(state)] += p));
  return found;
}

export const optima = (model, noise) => Uint8Array.from(perturbAndMap(model, noise, 4));

// KL divergence from the first distribution to the second, in nats.
export const divergence = (p, q) =>
  p.reduce((sum, value, k) => sum + value * Math.log(value / Math.max(q[k], 1e-12)), 0);
