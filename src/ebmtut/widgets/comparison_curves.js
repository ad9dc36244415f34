// Arithmetic of the curves of error over cost: ranges, filters, and who is best where.

// Median, lowest and highest error at a cost, between two runs by powers of the cost,
// and the largest median from there on: null before the first.
export function errorsAt(points, cost) {
  const runs = points || [];
  const k = runs.filter(([x]) => x <= cost * (1 + 1e-9)).length - 1;
  if (k < 0) return null;
  const [before, after] = [runs[k], runs[k + 1] || runs[k]];
  const share = after === before ? 0
    : Math.max(0, Math.log(cost / before[0]) / Math.log(after[0] / before[0]));
  const errors = [1, 2, 3].map((i) => before[i] * (after[i] / before[i]) ** share);
  const later = runs.slice(k + 1).map(([, error]) => error);
  return [...errors, Math.max(errors[0], ...later)];
}

// Cost from which on the median stays at most at the goal, between two runs by powers of
// the cost; infinite where it does not.
export function arrival(points, goal) {
  const far = points.findLastIndex(([, error]) => error > goal);
  if (far === points.length - 1) return Infinity;
  if (far < 0) return points[0][0];
  const [[x, before], [y, after]] = [points[far], points[far + 1]];
  return x * (y / x) ** (Math.log(before / goal) / Math.log(before / after));
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

// Costs within this factor count as the same: first and last runs of methods that were
// given equal time end a little apart.
const SAME = 1.1;

// Methods with their errors at a cost, the lowest first; the cost is not below that of
// the first runs.
export function ranked(problem, cost, asks, budget) {
  const { x } = ranges(problem, cost);
  const methods = chosen(problem, cost, asks);
  const first = SAME * Math.min(...methods.map(({ points }) => points[cost][0][0]));
  const at = Math.max(first, 10 ** (x[0] + budget * (x[1] - x[0])));
  const found = methods.flatMap(({ name, points }) => {
    const errors = errorsAt(points[cost], at);
    if (!errors) return [];
    const [error, low, high, stays] = errors;
    const last = points[cost][points[cost].length - 1][0];
    const from = arrival(points[cost], 2 * problem.lines.exact);
    const ended = SAME * last < at ? last : null;
    return [{ name, error, low, high, stays, from, ended }];
  });
  found.sort((a, b) => a.error - b.error);
  return { at, budget: (Math.log10(at) - x[0]) / (x[1] - x[0]), found };
}

// Which methods are near exact samples, by the rule of the page: their median error stays
// within twice theirs; the cheapest is the first. And which are not distinguishable from
// the lowest: each median is within the range of the other's runs.
// `baseline` is true where no median is below the baseline.
export function verdict({ exact, ...baselines }, found) {
  const names = (list) => list.map(({ name }) => name);
  const baseline = !found.some(({ error }) =>
    Object.values(baselines).every((level) => error < level));
  const near = found.filter(({ stays }) => stays <= 2 * exact)
    .sort((a, b) => a.from - b.from);
  const best = found.filter(({ error, low }) =>
    error <= found[0].high && low <= found[0].error);
  return { baseline, near: names(near), best: names(best) };
}
