"""Compiled sweeps of MPLP over the pairs of a model, one sample at a time."""

import numpy as np

from ebmtut._compiled import compiled


@compiled
def mplp_sweeps(  # type: ignore[no-untyped-def]
    first, second, weight, tolerance, max_sweeps, beliefs, bound, n_sweeps, converged
):
    """Run every row of beliefs (n_samples, n_sites) until its messages settle.

    beliefs hold the biases at first; bound, the sweeps taken, and whether they were
    enough, (n_samples,), are filled.
    """
    n_samples, n_sites = beliefs.shape
    n_pairs = len(weight)
    to_first = np.empty(n_pairs)
    to_second = np.empty(n_pairs)
    for s in range(n_samples):
        belief = beliefs[s]
        to_first[:] = 0
        to_second[:] = 0
        bound[s], n_sweeps[s], converged[s] = 0.0, max_sweeps, False
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
