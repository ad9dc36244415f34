// Two spins, E = -J s1 s2, along the path p_t proportional to exp(-t E): probabilities and
// both sides of the master equation for a state whose spins agree.

const sigmoid = (v) => 1 / (1 + Math.exp(-v));

// `rate` is that of each flip out of a state whose spins disagree; no other flips happen.
export function balance(J, t, rate) {
  const together = sigmoid(2 * t * J); // both states whose spins agree
  const agree = together / 2;
  const disagree = (1 - together) / 2;
  return {
    agree,
    disagree,
    change: J * together * (1 - together),
    inflow: 2 * rate * disagree,
    needed: J * together,
  };
}
