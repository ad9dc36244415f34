// Arithmetic of the curves of error over cost: ranges, filters, and who is best where.

// Error at a cost, on a line through the logarithms; none before the first point.
export function errorAt(points, cost) {
  if (!points || !points.length || cost < points[0][0]) return null;
  for (let k = 1; k < points.length; k += 1) {
    const [[x0, y0], [x1, y1]] = [points[k - 1], points[k]];
    if (cost > x1) continue;
    const part = Math.log(cost / x0) / Math.log(x1 / x0);
    return Math.exp(Math.log(y0) + part * Math.log(y1 / y0));
  }
  return points[points.length - 1][1];
}

export const chosen = (problem, cost, asks) => problem.methods.filter((method) =>
  method.points[cost] && (!asks || method.asks.includes(asks)));

// Logarithmic ranges of all methods, so that axes do not move with the filter.
export function ranges(problem, cost) {
  const all = problem.methods.flatMap((method) => method.points[cost] || []);
  const errors = [...all.flatMap((p) => [p[2], p[3]]), ...Object.values(problem.lines)];
  const costs = all.map((p) => p[0]);
  const log = (list) => [Math.log10(Math.min(...list)), Math.log10(Math.max(...list))];
  return { x: log(costs), y: log(errors) };
}

// Methods with their errors at a cost, the lowest first.
export function ranked(problem, cost, asks, budget) {
  const { x } = ranges(problem, cost);
  const at = 10 ** (x[0] + budget * (x[1] - x[0]));
  const found = chosen(problem, cost, asks)
    .map(({ name, points }) => ({ name, error: errorAt(points[cost], at) }))
    .filter(({ error }) => error !== null)
    .sort((a, b) => a.error - b.error);
  return { at, found };
}
