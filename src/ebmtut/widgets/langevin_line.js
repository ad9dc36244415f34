// Langevin chains on a line, in a distribution of two distant modes or in what a noisy
// copy leaves of it.

export const MODES = [[0.6, -2, 0.35], [0.4, 2, 0.35]]; // weight, mean, width

// Log of a mixture of normal densities, and its slope.
export function mixture(x, modes = MODES) {
  let top = -Infinity;
  for (const [weight, mean, width] of modes)
    top = Math.max(top, Math.log(weight / width) - 0.5 * ((x - mean) / width) ** 2);
  let total = 0;
  let slope = 0;
  for (const [weight, mean, width] of modes) {
    const log = Math.log(weight / width) - 0.5 * ((x - mean) / width) ** 2;
    const part = Math.exp(log - top);
    total += part;
    slope -= (part * (x - mean)) / width ** 2;
  }
  return { log: top + Math.log(total) - 0.5 * Math.log(2 * Math.PI),
    slope: slope / total };
}

// The energy and its slope; with sigma 1 the copy says nothing.
export function conditional(x, seen, sigma) {
  const { log, slope } = mixture(x);
  const a = Math.sqrt(Math.max(0, 1 - sigma * sigma));
  const error = a * x - seen;
  return { energy: -log + (error * error) / (2 * sigma * sigma),
    slope: -slope + (a * error) / (sigma * sigma) };
}

export const step = (x, seen, sigma, size, noise) =>
  x - 0.5 * size * size * conditional(x, seen, sigma).slope + size * noise;

// Standard normals by Box and Muller from the page's own random numbers.
export function normal(random = Math.random) {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return radius * Math.cos(2 * Math.PI * random());
}

// Uniform random numbers that are the same in every browser (mulberry32).
export function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
