// An energy of two variables with two modes, its gradient, and two samplers:
// E(x) = (x1^4 + x2^4) / 4 - coupling x1 x2 - tilt (x1 + x2).

export const REACH = 4; // the plane goes from -REACH to REACH
const LINE_CELLS = 161; // of a line, for the Gibbs sampler

export const energyOf = ([a, b], coupling, tilt) =>
  (a ** 4 + b ** 4) / 4 - coupling * a * b - tilt * (a + b);

export const slopeOf = ([a, b], coupling, tilt) =>
  [a ** 3 - coupling * b - tilt, b ** 3 - coupling * a - tilt];

// One step of unadjusted Langevin dynamics with given standard normal noise.
export function langevinStep(x, coupling, tilt, size, noise) {
  const slope = slopeOf(x, coupling, tilt);
  return x.map((value, k) => value - 0.5 * size * size * slope[k] + size * noise[k]);
}

// A sample of one variable given the other, by the inverse of its distribution function
// on the cells of the line; u is uniform in (0, 1).
export function conditionalSample(other, coupling, tilt, u) {
  const width = (2 * REACH) / LINE_CELLS;
  const force = coupling * other + tilt;
  const weights = Array.from({ length: LINE_CELLS }, (_, k) => {
    const a = -REACH + (k + 0.5) * width;
    return Math.exp(force * a - a ** 4 / 4);
  });
  let left = u * weights.reduce((sum, weight) => sum + weight, 0);
  let k = 0;
  while (k < LINE_CELLS - 1 && left > weights[k]) left -= weights[k++];
  return -REACH + (k + left / weights[k]) * width;
}

// A Gibbs sweep: the first variable given the second, then the second given the first.
export function gibbsSweep([, b], coupling, tilt, uniforms) {
  const first = conditionalSample(b, coupling, tilt, uniforms[0]);
  return [first, conditionalSample(first, coupling, tilt, uniforms[1])];
}

// Means of x1 + x2 and x1 x2 over points.
export function means(points) {
  const n = Math.max(1, points.length);
  return {
    sum: points.reduce((total, [a, b]) => total + a + b, 0) / n,
    product: points.reduce((total, [a, b]) => total + a * b, 0) / n,
  };
}

// Probabilities of n x n cells of the plane, row by row from the lowest, and the means
// of x1 + x2 and x1 x2 under them.
export function onGrid(coupling, tilt, n) {
  const at = (k) => REACH * ((2 * (k + 0.5)) / n - 1);
  const energies = Array.from({ length: n * n }, (_, k) =>
    energyOf([at(k % n), at(Math.floor(k / n))], coupling, tilt));
  const least = energies.reduce((low, value) => Math.min(low, value), Infinity);
  const raw = energies.map((value) => Math.exp(least - value));
  const total = raw.reduce((sum, value) => sum + value, 0);
  const probabilities = raw.map((value) => value / total);
  let [sum, product] = [0, 0];
  probabilities.forEach((p, k) => {
    const [a, b] = [at(k % n), at(Math.floor(k / n))];
    sum += p * (a + b);
    product += p * a * b;
  });
  return { probabilities, sum, product };
}
