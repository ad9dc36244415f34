// A trained flow over a periodic Ising lattice: the odd network, its rates, and their
// simulation. The numbers of `net` come from ebmtut.widgets.flow_explorer.

// Parts of a network in the order in which they arrive, each row by row.
export function unpack(values, { side, width, hidden, waves }) {
  let at = 0;
  const take = (size) => values.subarray(at, (at += size));
  const inputs = 2 * waves + 1;
  return {
    side, width, hidden, waves,
    kernel: take((side * side - 1) * width),
    time1: take(hidden * inputs), shift1: take(hidden),
    time2: take(hidden * hidden), shift2: take(hidden),
    squares: take(hidden * width),
    gate: take(width * hidden), shift3: take(width),
  };
}

const silu = (v) => v / (1 + Math.exp(-v));

// rows x columns times a vector, plus a shift.
function affine(matrix, vector, shift) {
  const columns = vector.length;
  return Float64Array.from(shift, (start, row) => {
    let sum = start;
    for (let k = 0; k < columns; k++) sum += matrix[row * columns + k] * vector[k];
    return sum;
  });
}

export function timeFeatures(net, t) {
  const angles = Array.from({ length: net.waves }, (_, k) => (Math.PI / 2) * (k + 1) * t);
  const inputs = [t, ...angles.map(Math.sin), ...angles.map(Math.cos)];
  const first = affine(net.time1, inputs, net.shift1).map(silu);
  return affine(net.time2, first, net.shift2);
}

// Adds a multiple of the spin of site j to the sums of all other sites.
function give(net, sums, j, spin) {
  const { side, width } = net;
  const from = -Math.floor((side - 1) / 2);
  const [row, column] = [Math.floor(j / side), j % side];
  let offset = 0;
  for (let a = 0; a < side; a++)
    for (let b = 0; b < side; b++) {
      const [down, right] = [from + a, from + b];
      if (!down && !right) continue;
      const y = (row - down + side) % side;
      const x = (column - right + side) % side;
      const to = (y * side + x) * width;
      const place = offset++ * width;
      for (let c = 0; c < width; c++) sums[to + c] += spin * net.kernel[place + c];
    }
}

// Weighted sums of the other spins at every site, in every channel.
export function otherSums(net, spins) {
  const sums = new Float64Array(spins.length * net.width);
  spins.forEach((spin, j) => give(net, sums, j, spin));
  return sums;
}

// Brings them from one state to another, of which few spins differ.
export function moveSums(net, sums, before, after) {
  after.forEach((spin, j) => {
    if (spin !== before[j]) give(net, sums, j, 2 * spin);
  });
}

// G of the flip of every site at time t, from spins -1 and 1.
export function equivariant(net, spins, t, sums = otherSums(net, spins)) {
  const { side, width, hidden } = net;
  const time = timeFeatures(net, t);
  const G = new Float64Array(side * side);
  const u = new Float64Array(width);
  const gate = new Float64Array(width);
  for (let i = 0; i < side * side; i++) {
    for (let c = 0; c < width; c++) u[c] = spins[i] * sums[i * width + c];
    gate.set(net.shift3);
    for (let h = 0; h < hidden; h++) {
      let sum = time[h];
      for (let c = 0; c < width; c++) sum += net.squares[h * width + c] * u[c] * u[c];
      const active = silu(sum);
      for (let c = 0; c < width; c++) gate[c] += net.gate[c * hidden + h] * active;
    }
    for (let c = 0; c < width; c++) G[i] += u[c] * gate[c];
  }
  return G;
}

// Fields of the neighbours, and the energy -sigma s'As.
export function lattice(spins, side, sigma) {
  const around = new Float64Array(spins.length);
  let energy = 0;
  for (let i = 0; i < spins.length; i++) {
    const [row, column] = [Math.floor(i / side), i % side];
    around[i] = spins[((row + 1) % side) * side + column]
      + spins[((row + side - 1) % side) * side + column]
      + spins[row * side + ((column + 1) % side)]
      + spins[row * side + ((column + side - 1) % side)];
    energy -= sigma * spins[i] * around[i];
  }
  return { around, energy };
}

// Rates out of a state and the density xi of its log-weight; no network, no rates.
export function terms(net, spins, t, side, sigma, sums) {
  const { around, energy } = lattice(spins, side, sigma);
  const rates = new Float64Array(spins.length);
  let xi = -energy;
  if (net) {
    const G = equivariant(net, spins, t, sums);
    for (let i = 0; i < spins.length; i++) {
      const gibbs = 1 / (1 + Math.exp(4 * t * sigma * spins[i] * around[i]));
      rates[i] = gibbs * Math.max(G[i], 0);
      xi += gibbs * G[i];
    }
  }
  return { rates, xi, energy };
}

// One step of tau-leaping; `uniform` gives numbers in [0, 1).
export function leap(spins, rates, dt, uniform) {
  return spins.map((s, i) => (uniform() < -Math.expm1(-rates[i] * dt) ? -s : s));
}

// A small generator of uniform numbers (mulberry32), the same in every browser.
export function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
}
