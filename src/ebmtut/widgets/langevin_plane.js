// Langevin particles in the plane, on an energy that is known at the points of a grid:
// between them it is bilinear, outside of it a parabola leads back.

const WALL = 20;

// The midpoints of n x n cells of the square from -extent to extent, row by row from
// the lowest.
export function surface(values, n, extent) {
  const unit = (2 * extent) / n;
  const locate = (x) => {
    const inside = Math.min(Math.max(x, -extent + unit / 2), extent - unit / 2);
    const place = (inside + extent) / unit - 0.5;
    const cell = Math.min(Math.floor(place), n - 2);
    return [cell, place - cell, x - inside];
  };
  return ([x, y]) => {
    const [i, u, dx] = locate(x);
    const [j, v, dy] = locate(y);
    const at = (row, column) => values[row * n + column];
    const [ll, lr] = [at(j, i), at(j, i + 1)];
    const [ul, ur] = [at(j + 1, i), at(j + 1, i + 1)];
    const low = ll + u * (lr - ll);
    const high = ul + u * (ur - ul);
    // Beyond the outermost midpoints the surface is flat but for the wall.
    const slopeX = dx ? 0 : ((1 - v) * (lr - ll) + v * (ur - ul)) / unit;
    const slopeY = dy ? 0 : (high - low) / unit;
    return { energy: low + v * (high - low) + (WALL / 2) * (dx * dx + dy * dy),
      slope: [slopeX + WALL * dx, slopeY + WALL * dy] };
  };
}

// The energy of x once a x + sigma noise was seen, and its slope; sigma 1 forgets it.
export function conditionalPlane(level, x, seen, sigma) {
  const { energy, slope } = level(x);
  const a = Math.sqrt(Math.max(0, 1 - sigma * sigma));
  const error = x.map((value, k) => a * value - seen[k]);
  return { energy: energy + (error[0] ** 2 + error[1] ** 2) / (2 * sigma * sigma),
    slope: slope.map((value, k) => value + (a * error[k]) / (sigma * sigma)) };
}

export function stepPlane(level, x, seen, sigma, size, noise) {
  const { slope } = conditionalPlane(level, x, seen, sigma);
  return x.map((value, k) => value - 0.5 * size * size * slope[k] + size * noise[k]);
}

// Energies at all midpoints, as probabilities that sum to 1.
export function probabilities(level, n, extent, seen, sigma) {
  const at = (k) => extent * ((2 * (k + 0.5)) / n - 1);
  const energies = Array.from({ length: n * n }, (_, k) =>
    conditionalPlane(level, [at(k % n), at(Math.floor(k / n))], seen, sigma).energy);
  const least = energies.reduce((low, value) => Math.min(low, value), Infinity);
  const raw = energies.map((value) => Math.exp(least - value));
  const total = raw.reduce((sum, value) => sum + value, 0);
  return raw.map((value) => value / total);
}
