"""Compiled sweeps of MPLP over the pairs of a model, one sample at a time."""

import numpy as np

from ebmtut._compiled import compiled

__all__ = ["mplp_sweeps"]


@compiled
def mplp_sweeps(first, second, weight, bias, tolerance, max_sweeps):  # type: ignore[no-untyped-def]
    """Run every row of bias (n_samples, n_sites) until its messages settle.

    first, second, weight (n_pairs,) are the pairs. Returns beliefs, bounds,
    the sweeps taken, and whether they were enough.
    """
    n_samples, n_sites = bias.shape
    n_pairs = len(weight)
    beliefs = bias.copy()
    bound = np.zeros(n_samples)
    n_sweeps = np.full(n_samples, max_sweeps, np.int64)
    converged = np.zeros(n_samples, np.bool_)
    to_first = np.empty(n_pairs)
    to_second = np.empty(n_pairs)
    for s in range(n_samples):
        belief = beliefs[s]
        to_first[:] = 0
        to_second[:] = 0
        for sweep in range(max_sweeps):
            change = 0.0
            for e in range(n_pairs):
                i, j, w = first[e], second[e], weight[e]
                a_i = belief[i] - to_first[e]
                a_j = belief[j] - to_second[e]
                m_i = (max(0.0, a_j + w) - max(0.0, a_j) - a_i) / 2
                m_j = (max(0.0, a_i + w) - max(0.0, a_i) - a_j) / 2
                change = max(change, abs(m_i - to_first[e]), abs(m_j - to_second[e]))
                to_first[e] = m_i
                to_second[e] = m_j
                belief[i] = a_i + m_i
                belief[j] = a_j + m_j
            if change < tolerance:
                n_sweeps[s] = sweep + 1
                converged[s] = True
                break
        for i in range(n_sites):
            bound[s] += max(0.0, belief[i])
        for e in range(n_pairs):
            m_i, m_j = to_first[e], to_second[e]
            bound[s] += max(0.0, -m_i, -m_j, weight[e] - m_i - m_j)
    return beliefs, bound, n_sweeps, converged
