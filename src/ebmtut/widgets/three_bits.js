// Gradient descent on the expected loss of energy discrepancy over three bits. Nothing is
// drawn: the mean over all tuples of M negatives is an integral over one number,
//   E[a / (a + S)] = a * integral of exp(-t a) E[exp(-t S)] dt over t > 0,
// in which the sum S of M independent terms has become a power.

const N = 8; // states
const LOST = 10; // nats from which a run counts as diverged
const STEP = 0.4; // of log t; the error of the sum falls like exp(-pi^2 / STEP)

const flips = (x, y) => [0, 1, 2].reduce((n, k) => n + (((x ^ y) >> k) & 1), 0);

// q(y|x), for every x and y: each bit flips with probability eps.
export function channel(eps) {
  const row = (x) => Array.from({ length: N }, (_, y) =>
    eps ** flips(x, y) * (1 - eps) ** (3 - flips(x, y)));
  return Array.from({ length: N }, (_, x) => row(x));
}

// KL(p || e^-u / Z) in nats.
export function divergence(u, p) {
  const least = Math.min(...u);
  const logZ = Math.log(u.reduce((sum, v) => sum + Math.exp(least - v), 0)) - least;
  return p.reduce((sum, v, k) => sum + v * (Math.log(v) + u[k] + logZ), 0);
}

// Slope of ED itself, what is left for M without end.
function limit(a, p, q) {
  const slope = [...p];
  for (let y = 0; y < N; y++) {
    let reached = 0;
    let total = 0;
    for (let x = 0; x < N; x++) {
      reached += p[x] * q[x][y];
      total += q[x][y] * a[x];
    }
    for (let k = 0; k < N && reached > 0; k++) slope[k] -= (reached * q[k][y] * a[k]) / total;
  }
  return slope;
}

// Slope of the expected loss in the eight energies, for m negatives and the stabiliser w;
// m = 0 stands for infinitely many. The noise is symmetric: q[y][k] = q[k][y].
export function slope(u, p, q, m, w) {
  const least = Math.min(...u);
  const a = u.map((v) => Math.exp(least - v)); // e^-u, the largest 1
  if (m === 0) return limit(a, p, q);
  const first = -25 - Math.log(m + w);
  const last = Math.log(30 / ((w + m) * Math.min(...a)));
  const result = [...p];
  for (let s = first; s < last; s += STEP) {
    const t = Math.exp(s);
    const mass = STEP * t;
    const far = a.map((v) => Math.exp(-t * v));
    const own = a.map((v, x) => p[x] * Math.exp(-t * w * v));
    for (let y = 0; y < N; y++) {
      let phi = 0; // E[exp(-t e^-u(x'))] of one negative
      let data = 0;
      for (let k = 0; k < N; k++) {
        phi += q[y][k] * far[k];
        data += own[k] * q[k][y];
      }
      const others = mass * phi ** (m - 1);
      for (let k = 0; k < N; k++) {
        result[k] -= others * a[k]
          * (m * q[y][k] * far[k] * data + w * own[k] * q[k][y] * phi);
      }
    }
  }
  return result;
}

// Energies after every step from all zeros, and their KL divergences from the data;
// they end early where the run diverges.
export function descend(p, { eps, m, w }, nSteps, rate) {
  const q = channel(eps);
  const us = [new Array(N).fill(0)];
  const kls = [divergence(us[0], p)];
  while (us.length <= nSteps && kls[kls.length - 1] < LOST) {
    const u = us[us.length - 1];
    const down = slope(u, p, q, m, w);
    us.push(u.map((v, k) => v - rate * down[k]));
    kls.push(divergence(us[us.length - 1], p));
  }
  return { us, kls, lost: kls[kls.length - 1] >= LOST };
}
