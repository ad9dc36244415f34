// Langevin particles on a line, in the marginal law of two far modes or in the
// conditional law of what is seen through noise.

export const MODES = [[0.6, -2, 0.35], [0.4, 2, 0.35]]; // weight, mean, width

// Log of a mixture of Gaussians, and its slope.
export function mixture(x, modes = MODES) {
  const parts = modes.map(([weight, mean, width]) =>
    Math.log(weight / width) - 0.5 * ((x - mean) / width) ** 2);
  const top = Math.max(...parts);
  const shares = parts.map((part) => Math.exp(part - top));
  const total = shares.reduce((sum, share) => sum + share, 0);
  const slope = modes.reduce((sum, [, mean, width], k) =>
    sum - (shares[k] / total) * ((x - mean) / width ** 2), 0);
  return { log: top + Math.log(total) - 0.5 * Math.log(2 * Math.PI), slope };
}

// The energy and its slope; sigma 1 forgets what is seen: the marginal law.
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
